import { type CanonicalJsonLimits, canonicalJson } from "./canonical-json.ts";

/** A value that JSON cannot carry, so that no fingerprint can be made of it. */
export class NotFingerprintableError extends TypeError {
  override readonly name = "NotFingerprintableError";
}

/**
 * The bytes that stand for a parsed JSON value: its canonical form, or, where a lone surrogate or a limit forbids
 * one, what JSON.stringify writes (then the order of members counts).
 *
 * @throws NotFingerprintableError if JSON cannot carry the value: undefined, a function, a symbol, a bigint, NaN or
 * an infinity anywhere in it (JSON.parse makes infinities of numbers like 1e400, and JSON.stringify would write them
 * as null), a cycle, or nesting too deep for JSON.stringify.
 */
export function parsedValueBytes(
  value: unknown,
  limits: CanonicalJsonLimits,
): { readonly canonical: boolean; readonly bytes: Uint8Array } {
  const source = new TextEncoder().encode(stringify(value));
  const result = canonicalJson(source, limits);
  return result.ok ? { canonical: true, bytes: result.bytes } : { canonical: false, bytes: source };
}

function stringify(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value, refuseInfinite);
  } catch (cause) {
    if (cause instanceof NotFingerprintableError) throw cause;
    throw new NotFingerprintableError("JSON.stringify cannot write this value", { cause });
  }
  if (text === undefined) throw new NotFingerprintableError("JSON has no form for this value");
  return text;
}

function refuseInfinite(_name: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new NotFingerprintableError("JSON has no form for NaN and infinities");
  }
  return value;
}
