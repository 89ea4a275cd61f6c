import type { SqlRow, SqlValue } from "../transaction.ts";
import type { PgField } from "./client.ts";

/** Makes a row of the texts in which the server sends a row's values. */
export type RowDecoder = (values: readonly (string | null)[]) => SqlRow;

/** Types (pg_type.oid) whose values are not plain text. Whatever else there is stays the server's text. */
export const decoders: Readonly<Record<number, (text: string) => SqlValue>> = {
  16: (text) => text === "t",
  17: (text) => Buffer.from(text.slice(2), "hex"),
  21: Number,
  23: Number,
  700: Number,
  701: Number,
};

export function decoderOf(fields: readonly PgField[]): RowDecoder {
  const columns = fields.map(({ name, dataTypeID }) => ({ name, decode: decoders[dataTypeID] }));
  return (values) => {
    const row: Record<string, SqlValue> = {};
    let index = 0;
    for (const { name, decode } of columns) {
      const text = values[index++] ?? null;
      row[name] = text === null || decode === undefined ? text : decode(text);
    }
    return row;
  };
}
