import { type CanonicalJsonLimits, canonicalJson } from "./canonical-json.ts";
import { isOpaque } from "./opaque.ts";

/** Thrown for a value that JSON cannot represent, so that it has no fingerprint. */
export class NotFingerprintableError extends TypeError {
  override readonly name = "NotFingerprintableError";
}

/**
 * The bytes that stand for a parsed JSON value: its canonical form, or, where a lone surrogate or a limit forbids
 * one, what JSON.stringify writes (then the order of members counts).
 *
 * @throws NotFingerprintableError as `exactJson` does.
 */
export function parsedValueBytes(
  value: unknown,
  limits: CanonicalJsonLimits,
): { readonly canonical: boolean; readonly bytes: Uint8Array } {
  const source = new TextEncoder().encode(exactJson(value));
  const result = canonicalJson(source, limits);
  return result.ok ? { canonical: true, bytes: result.bytes } : { canonical: false, bytes: source };
}

/**
 * The JSON of a value, for comparing values by it. Members that are undefined, functions or symbols are left out, as
 * JSON.stringify leaves them out.
 *
 * @throws NotFingerprintableError if JSON cannot represent the value, or would write different values as the same text: if the
 * value itself is undefined, a function or a symbol; if it contains a bigint, NaN or an infinity (JSON.parse reads numbers like
 * 1e400 as infinities), an invalid Date, a Map, a Set, a stream, a Blob or another object whose contents JSON does not include;
 * if it contains itself, or is nested too deeply for JSON.stringify.
 */
export function exactJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value, refuseInexact);
  } catch (cause) {
    if (cause instanceof NotFingerprintableError) throw cause;
    throw new NotFingerprintableError("JSON.stringify cannot write this value", { cause });
  }
  if (text === undefined) throw new NotFingerprintableError("JSON cannot represent this value");
  return text;
}

/** @param value after `toJSON`, where it has one */
function refuseInexact(this: Readonly<Record<string, unknown>>, name: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new NotFingerprintableError("JSON cannot represent NaN or infinities");
  }
  if (value === null && this[name] instanceof Date) {
    throw new NotFingerprintableError("JSON cannot represent an invalid Date");
  }
  if (typeof value === "object" && value !== null && isOpaque(value)) {
    throw new NotFingerprintableError(`JSON does not include the contents of a ${classOf(value)}`);
  }
  return value;
}

function classOf(value: object): string {
  const { name }: { readonly name?: unknown } = value.constructor ?? {};
  return typeof name === "string" && name !== "" ? name : "value of an unnamed class";
}
