/** The codec of a service may ask another system, such as one that keeps keys, so an attempt waits only so long for it. */
import { type Codec, isIdentityCodec } from "../codec.ts";
import { isLatchkeyError, LatchkeyError } from "../errors.ts";
import type { Clock } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";

/** Less than the default of `transactionLimitMs`, after which the database ends a transaction that waits. */
export const codecLimitMs = 10_000;

/** Returns a codec whose promises settle in time: those that do not are rejected with `codec-timeout`. */
export function boundedCodec(codec: Codec, clock: Clock): Codec {
  if (isIdentityCodec(codec)) return codec;
  return {
    encode: (plain, context) => inTime(clock, codec.encode(plain, context)),
    decode: (stored, context) => inTime(clock, codec.decode(stored, context)),
  };
}

export function isCodecTimeout(error: unknown): boolean {
  return isLatchkeyError(error) && error.code === "codec-timeout";
}

function inTime(clock: Clock, bytes: Uint8Array | Promise<Uint8Array>): Uint8Array | Promise<Uint8Array> {
  return bytes instanceof Uint8Array ? bytes : settled(clock, bytes);
}

async function settled(clock: Clock, coding: Promise<Uint8Array>): Promise<Uint8Array> {
  const coded = await withLimit(clock, codecLimitMs, () => coding);
  if (coded.kind === "returned") return coded.value;
  throw coded.kind === "threw" ? coded.error : new LatchkeyError("codec-timeout");
}
