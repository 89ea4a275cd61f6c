/**
 * An operation's answer and its stored form. Schema version 1: one line of JSON (status, headers, omission), a newline, then
 * the body's bytes as they were sent.
 */

export interface Answer {
  readonly status: number;
  /** Names as given, in order, one entry per field line: fields with several values stay apart. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** Why the stored form has no body; null if it has one. */
  readonly omitted: "too-large" | "not-storable" | null;
}

const answerSchemaVersion = 1;

interface AnswerHead {
  readonly v: number;
  readonly s: number;
  readonly h: readonly (readonly [string, string])[];
  readonly o: "too-large" | "not-storable" | null;
}

const newline = 0x0a;

/** Encodes an answer; a body over `limitBytes` is left out, and the tombstone records that. */
export function encodeAnswer(answer: Answer, limitBytes: number): Uint8Array {
  const omitted = answer.omitted ?? (answer.body.byteLength > limitBytes ? "too-large" : null);
  const head: AnswerHead = { v: answerSchemaVersion, s: answer.status, h: answer.headers, o: omitted };
  const line = `${JSON.stringify(head)}\n`;
  const lineBytes = Buffer.byteLength(line);
  const bytes = Buffer.allocUnsafe(lineBytes + (omitted === null ? answer.body.byteLength : 0));
  bytes.write(line);
  if (omitted === null) bytes.set(answer.body, lineBytes);
  return bytes;
}

/** @throws {Error} when the bytes are not an answer of a known schema version. */
export function decodeAnswer(encoded: Uint8Array): Answer {
  const { buffer, byteOffset, byteLength } = encoded;
  const bytes = Buffer.isBuffer(encoded) ? encoded : Buffer.from(buffer, byteOffset, byteLength);
  const end = bytes.indexOf(newline);
  if (end < 0) throw new Error("Stored answer has no head");
  const head = JSON.parse(bytes.toString("utf8", 0, end)) as AnswerHead;
  if (head.v !== answerSchemaVersion) throw new Error(`Stored answer has schema version ${head.v}`);
  const body = new Uint8Array(buffer, byteOffset + end + 1, byteLength - end - 1);
  return { status: head.s, headers: head.h, body, omitted: head.o };
}
