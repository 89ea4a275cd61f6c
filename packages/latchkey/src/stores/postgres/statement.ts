import { defaultTimeFunction } from "./names.ts";
import type { SqlNames } from "./sql-parts.ts";
import { type StatementTemplate, template } from "./template.ts";

// A comment of `[synced` begins a part that is there when COMMITs must be on disk; `|` and what follows stands there otherwise.
const option = /\/\*\[synced\*\/(.*?)\/\*(?:\|(.*?))?\]\*\//gsu;
const table = /\blatchkey\.(records|leases|steps|outbox|messages|audit|early|facts|settings)\b/gu;
const parameter = /:'([a-z_]+)'/gu;

/**
 * The statement of a file, with the names and properties of this store in place of those that files are written with.
 * In a predicate the time must come from a sub-select, or no index is used.
 */
export function statement(kind: string, text: string, names: SqlNames): StatementTemplate {
  const own = text
    .replaceAll(option, (_, synced: string, otherwise = "") => (names.synced ? synced : otherwise))
    .replaceAll(table, (_, name: keyof SqlNames) => `${names[name]}`)
    .replaceAll(defaultTimeFunction, () => names.clock)
    .replaceAll(parameter, "@$1");
  return template(kind, own);
}
