/**
 * The messages of a pipeline as the bytes of one write, and rows as the server sends them. `pg` writes each message by
 * itself; sixteen small writes take more time than encoding all the messages.
 */
import type { SqlRow, SqlStatement, SqlValue } from "../transaction.ts";
import type { PgField } from "./client.ts";

/** One statement, and which of its messages must be sent to the server. */
export interface PipelineMessage {
  readonly statement: SqlStatement;
  /** The name it is prepared under; "" for none. */
  readonly name: string;
  readonly parse: boolean;
  readonly describe: boolean;
}

/**
 * Close and Parse where wanted, Bind, Describe where wanted, and Execute for each.
 *
 * @param synced whether a Sync follows the last of them
 */
export function encodePipeline(messages: readonly PipelineMessage[], synced = true): Buffer {
  let bytesMax = syncBytes;
  for (const message of messages) bytesMax += bytesMaxOf(message);
  const own = bytesMax > scratch.length;
  const writer = new MessageWriter(own ? Buffer.allocUnsafeSlow(bytesMax) : scratch);
  for (const message of messages) putStatement(writer, message);
  if (synced) writer.begin(codes.sync).end();
  // The stream keeps the buffer until it is sent, so the shared one is copied.
  return own ? writer.bytes() : Buffer.from(writer.bytes());
}

const codes = { close: 67, parse: 80, bind: 66, describe: 68, execute: 69, sync: 83 };
const statementKind = 83;
const portalKind = 80;

const syncBytes = 5;
/** A Sync alone. */
export const sync: Uint8Array = Uint8Array.of(codes.sync, 0, 0, 0, 4);
/** All of one statement's messages without its name (which comes thrice), text and values. */
const fixedBytes = 56;
const valueFixedBytes = 6;
/** The longest text that `String` makes of a number or a boolean. */
const plainBytesMax = 32;
/** The most bytes that a UTF-16 code unit takes in UTF-8. */
const bytesPerUnitMax = 3;

/** Enough for nearly every pipeline. */
const scratch = Buffer.allocUnsafeSlow(32_768);

function bytesMaxOf({ statement: { text, values }, name, parse }: PipelineMessage): number {
  let units = 3 * name.length + (parse ? text.length : 0);
  let bytes = fixedBytes;
  for (const value of values) {
    bytes += valueFixedBytes;
    if (typeof value === "string") units += value.length;
    else bytes += value instanceof Uint8Array ? value.byteLength : plainBytesMax;
  }
  return bytes + units * bytesPerUnitMax;
}

function putStatement(writer: MessageWriter, { statement, name, parse, describe }: PipelineMessage): void {
  const { text, values } = statement;
  if (parse) {
    // Closing an unknown name is no error, so this removes a statement of the same name that other code has left behind.
    if (name !== "") writer.begin(codes.close).int8(statementKind).text(name).end();
    writer.begin(codes.parse).text(name).text(text).int16(0).end();
  }
  writer.begin(codes.bind).text("").text(name).int16(values.length);
  for (const value of values) writer.int16(value instanceof Uint8Array ? 1 : 0);
  writer.int16(values.length);
  for (const value of values) writer.value(value);
  // All results as text.
  writer.int16(0).end();
  if (describe) writer.begin(codes.describe).int8(portalKind).text("").end();
  writer.begin(codes.execute).text("").int32(0).end();
}

class MessageWriter {
  readonly #buffer: Buffer;
  #at = 0;
  #lengthAt = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#at);
  }

  begin(code: number): this {
    this.int8(code);
    this.#lengthAt = this.#at;
    return this.int32(0);
  }

  /** A message's length counts itself and not the code before it. */
  end(): void {
    this.#buffer.writeInt32BE(this.#at - this.#lengthAt, this.#lengthAt);
  }

  int8(value: number): this {
    this.#at = this.#buffer.writeUInt8(value, this.#at);
    return this;
  }

  int16(value: number): this {
    this.#at = this.#buffer.writeUInt16BE(value, this.#at);
    return this;
  }

  int32(value: number): this {
    this.#at = this.#buffer.writeInt32BE(value, this.#at);
    return this;
  }

  text(text: string): this {
    if (text !== "") this.#at += this.#buffer.write(text, this.#at);
    return this.int8(0);
  }

  /** Its length, then its bytes; -1 stands for NULL. */
  value(value: SqlValue): void {
    if (value === null) {
      this.int32(-1);
      return;
    }
    const lengthAt = this.#at;
    const from = lengthAt + 4;
    if (value instanceof Uint8Array) {
      this.#buffer.set(value, from);
      this.#at = from + value.byteLength;
    } else {
      this.#at = from + this.#buffer.write(String(value), from);
    }
    this.#buffer.writeInt32BE(this.#at - from, lengthAt);
  }
}

/** Makes a row of the texts in which the server sends a row's values. */
export type RowDecoder = (values: readonly (string | null)[]) => SqlRow;

/** Types (pg_type.oid) whose values are not plain text. Values of all other types stay the server's text. */
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
