/** Names that become part of SQL text. Everything else reaches the server as a parameter. */

const plainName = /^[a-z_][a-z0-9_]{0,62}$/;
const plainCall = /^(?:[a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}\(\)$/;

export const defaultSchema = "latchkey";
export const defaultTimeFunction = "pg_catalog.clock_timestamp()";

/** @throws {TypeError} when it is not a plain lower-case name of at most 63 characters */
export function checkSchemaName(schema: string): string {
  if (!plainName.test(schema)) {
    throw new TypeError(`schema must be a plain name such as "latchkey" (got ${JSON.stringify(schema)})`);
  }
  return schema;
}

/** @throws {TypeError} when it is not the call of a function without arguments */
export function checkTimeFunction(call: string): string {
  if (!plainCall.test(call)) {
    throw new TypeError(`timeFunction must be a call such as "my_clock()" (got ${JSON.stringify(call)})`);
  }
  return call;
}
