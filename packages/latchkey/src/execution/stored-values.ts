/**
 * Values in their stored form: JSON in UTF-8 (`undefined`, which has no JSON form, is stored as no bytes), and the codec's
 * context for each place.
 */

import type { CodecContext, CodecPart } from "../codec.ts";
import type { RecordKey } from "../engine/record.ts";
import { plainText } from "../plain-text.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import type { Runtime } from "./runtime.ts";

/** @throws {TypeError} when the value has no JSON form (a function, a bigint, a cycle). */
export function encodeJson(what: string, value: unknown): Uint8Array {
  return Buffer.from(value === undefined ? "" : jsonOf(what, value), "utf8");
}

function jsonOf(what: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new TypeError(`${what} has no JSON form: ${plainText(String(cause))}`, { cause });
  }
  if (text === undefined) throw new TypeError(`${what} has no JSON form`);
  return text;
}

/** @throws {SyntaxError} when the bytes are not JSON. */
export function decodeJson(bytes: Uint8Array): unknown {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  return text === "" ? undefined : JSON.parse(text);
}

export function codecContext(
  key: RecordKey,
  recordId: string,
  fingerprint: Uint8Array,
  part: CodecPart,
): CodecContext {
  return { tenant: key.tenant, scope: key.scope, key: key.key, recordId, fingerprint, part };
}

/** @throws {TypeError} when the value is not JSON. */
export async function encodeEffectResult<Tx>(
  { codec }: Runtime<Tx>,
  row: OutboxEffect,
  value: unknown,
): Promise<Uint8Array> {
  return codec.encode(encodeJson(`The result of effect ${row.effect}`, value), effectContext(row, "result"));
}

export function effectContext(row: OutboxEffect, part: "input" | "result"): CodecContext {
  return codecContext(row, row.recordId, row.fingerprint, `effect-${part}:${row.effect}:${row.id}`);
}
