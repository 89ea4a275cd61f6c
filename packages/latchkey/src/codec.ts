/** The codec port: every stored part of a request or an answer passes through it. Identity by default. */
import type { RecordKey } from "./engine/record.ts";

/**
 * Which value of a record. After the colon stands a step's name, or, in the outbox, the name of the effect's definition and the
 * effect's id, so that an input does not decode for another definition.
 */
export type CodecPart =
  | "answer"
  /** What a request asked for, in short. */
  | "summary"
  /** What a dead letter keeps of its message; `recordId` is the message's digest. */
  | "message"
  | "input"
  | `call-input:${string}`
  /** The result of a phase or a call, or the reason why the other service refused the call. */
  | `step-result:${string}`
  | `effect-input:${string}`
  | `effect-result:${string}`;

/** What a stored value belongs to. An encrypting codec authenticates it, so that a value moved to another row does not decode. */
export interface CodecContext extends RecordKey {
  readonly recordId: string;
  readonly fingerprint: Uint8Array;
  readonly part: CodecPart;
}

/** A promise that has not settled after 10 seconds counts as rejected, with `codec-timeout`. */
export interface Codec {
  encode(plain: Uint8Array, context: CodecContext): Promise<Uint8Array> | Uint8Array;
  /** Must throw when `stored` was not encoded for this context. */
  decode(stored: Uint8Array, context: CodecContext): Promise<Uint8Array> | Uint8Array;
}

export const identityCodec: Codec = { encode: (plain) => plain, decode: (stored) => stored };

const registry = Symbol.for("latchkey.identityCodecs");

/** Shared between copies of this package: one process may load two, the command's own and that of the service's config. */
function identityCodecs(): WeakSet<Codec> {
  const known: unknown = Reflect.get(globalThis, registry);
  if (known instanceof WeakSet) return known;
  const made = new WeakSet<Codec>();
  Object.defineProperty(globalThis, registry, { value: made });
  return made;
}

/** Whether the codec stores exactly the bytes that it is given. A codec made by spreading the identity is not the identity. */
export function isIdentityCodec(codec: Codec): boolean {
  return codec === identityCodec || identityCodecs().has(codec);
}

identityCodecs().add(identityCodec);
