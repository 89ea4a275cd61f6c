import { createHash } from "node:crypto";
import type { SqlStatement, SqlValue } from "../../../sql/transaction.ts";

/** A statement without its values. */
export interface StatementTemplate {
  readonly name: string;
  readonly text: string;
  /** @throws {TypeError} when a value is missing */
  bind(values: Readonly<Record<string, SqlValue>>): SqlStatement;
}

/**
 * Turns psql variables, `:'name'::type`, into numbered placeholders. The statement's name carries a digest of the text, so that two
 * versions or two schemas on one connection never mean the same name differently.
 */
export function template(kind: string, sql: string): StatementTemplate {
  const order: string[] = [];
  const text = sql
    .replaceAll(/:'([a-z_]+)'/g, (_, parameter: string) => {
      if (!order.includes(parameter)) order.push(parameter);
      return `$${order.indexOf(parameter) + 1}`;
    })
    .replaceAll(/\s+/g, " ")
    .trim();
  const name = `lk_${kind}_${createHash("sha256").update(text).digest("hex").slice(0, 12)}`;
  return {
    name,
    text,
    bind(values) {
      const bound: SqlValue[] = [];
      for (const parameter of order) {
        const value = values[parameter];
        if (value === undefined) throw new TypeError(`Statement ${name} needs a value for ${parameter}`);
        bound.push(value);
      }
      return { name, text, values: bound };
    },
  };
}
