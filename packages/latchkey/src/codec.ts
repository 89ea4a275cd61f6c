/** The codec port: what is stored of requests and answers passes through it. Identity by default. */
import type { RecordKey } from "./engine/record.ts";

/**
 * Which piece of a record. What stands behind the colon is a step's name, or, in the outbox, the name of the effect's definition and the
 * effect's id: an input does not decode for another definition.
 */
export type CodecPart =
  | "answer"
  /** What a request asked for, in short. */
  | "summary"
  /** What a dead letter keeps of its message; `recordId` is the message's digest. */
  | "message"
  | "input"
  | `call-input:${string}`
  /** What a phase or a call gave, or why the other side refused the call. */
  | `step-result:${string}`
  | `effect-input:${string}`
  | `effect-result:${string}`;

/** What a stored piece belongs to. An encrypting codec authenticates it, so that swapped rows do not decode. */
export interface CodecContext extends RecordKey {
  readonly recordId: string;
  readonly fingerprint: Uint8Array;
  readonly part: CodecPart;
}

export interface Codec {
  encode(plain: Uint8Array, context: CodecContext): Promise<Uint8Array> | Uint8Array;
  /** Must throw when `stored` was not encoded for this context. */
  decode(stored: Uint8Array, context: CodecContext): Promise<Uint8Array> | Uint8Array;
}

export const identityCodec: Codec = { encode: (plain) => plain, decode: (stored) => stored };

const registry = Symbol.for("latchkey.identityCodecs");

/** Two copies of this package may be in one process: a command's, and that of the service's config. */
function identityCodecs(): WeakSet<Codec> {
  const known: unknown = Reflect.get(globalThis, registry);
  if (known instanceof WeakSet) return known;
  const made = new WeakSet<Codec>();
  Object.defineProperty(globalThis, registry, { value: made });
  return made;
}

/** Whether what is stored is what was given. One that was made from it by spreading is another. */
export function isIdentityCodec(codec: Codec): boolean {
  return codec === identityCodec || identityCodecs().has(codec);
}

identityCodecs().add(identityCodec);
