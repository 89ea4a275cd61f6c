import { defaultTimeFunction } from "./names.ts";
import type { SqlNames } from "./sql-parts.ts";
import { type StatementTemplate, template } from "./template.ts";

// A comment `[synced` begins a part for COMMITs that must be on disk, a comment `[limits` a part for servers that end what lasts
// too long, a comment `[compared` a part in it for sessions that may have lower limits, a comment `[traced` a part for lives with
// a trace. If that does not apply, the part is left out, or replaced with what follows `|`. Parts in parts come first.
const option = /\/\*\[(synced|limits|compared|traced)\*\/((?:(?!\/\*\[).)*?)\/\*(?:\|(.*?))?\]\*\//gsu;
const table = /\blatchkey\.(records|leases|steps|outbox|messages|audit|early|facts|settings)\b/gu;

/**
 * The statement of a file, with the names and properties of this store in place of those that files are written with.
 * In a predicate the time must come from a sub-select, or no index is used.
 *
 * It is put together when it is first used: a store has about a hundred, and most services use few of them.
 */
export function statement(kind: string, text: string, names: SqlNames): StatementTemplate {
  let made: StatementTemplate | undefined;
  const make = () => {
    const own = withNames(text, names);
    return template(kind, own);
  };
  const used = () => {
    made ??= make();
    return made;
  };
  return {
    get name() {
      return used().name;
    },
    get text() {
      return used().text;
    },
    bind: (values) => used().bind(values),
  };
}

function withNames(text: string, names: SqlNames): string {
  const { synced, serverLimits: limits, compared = false, traced = false } = names;
  const isOn = { synced, limits, compared, traced };
  const chosen = (_: string, name: keyof typeof isOn, part: string, otherwise = "") =>
    isOn[name] ? part : otherwise;
  return text
    .replaceAll(option, chosen)
    .replaceAll(option, chosen)
    .replaceAll(table, (_, name: keyof SqlNames) => `${names[name]}`)
    .replaceAll(defaultTimeFunction, () => names.clock);
}

/** The statement of a file that names no table and has no optional part. */
export function plainStatement(kind: string, text: string): StatementTemplate {
  return template(kind, text);
}
