/** The key an outbound call is known by on the other side. */
import { createHash } from "node:crypto";
import { encodeFields } from "../fingerprint/length-prefixed.ts";

export interface DownstreamCall {
  /** The record's id: a new life of a forgotten key gets new downstream keys. */
  readonly recordId: string;
  readonly step: string;
  readonly effect: string;
  /** Place among the effects of one step; 0 for a call. */
  readonly index: number;
  /** Raised when a call was closed on the other side and may be made again. */
  readonly generation: number;
}

/**
 * 46 characters of `A-Z a-z 0-9 - _`: `lk_` and SHA-256 in base64url. It depends on nothing but its arguments, so every
 * attempt, owner and version of Latchkey sends the same.
 */
export function downstreamKey({ recordId, step, effect, index, generation }: DownstreamCall): string {
  const hash = createHash("sha256");
  const fields = ["latchkey-downstream-1", recordId, step, effect, String(index), String(generation)];
  for (const chunk of encodeFields(fields)) hash.update(chunk);
  return `lk_${hash.digest("base64url")}`;
}
