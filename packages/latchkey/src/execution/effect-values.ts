/** How the codec stores what belongs to an effect in the outbox. */
import type { CodecContext } from "../codec.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { codecContext } from "./admission.ts";
import { encodeJson } from "./json-bytes.ts";
import type { Runtime } from "./runtime.ts";

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
