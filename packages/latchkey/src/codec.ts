/** The codec port: what is stored of requests and answers passes through it. Identity by default, encryption later. */
import type { RecordKey } from "./engine/record.ts";

/** What a stored piece belongs to. An encrypting codec authenticates it, so that swapped rows do not decode. */
export interface CodecContext extends RecordKey {
  readonly recordId: string;
  readonly fingerprint: Uint8Array;
}

export interface Codec {
  encode(plain: Uint8Array, context: CodecContext): Promise<Uint8Array> | Uint8Array;
  /** Must throw when `stored` was not encoded for this context. */
  decode(stored: Uint8Array, context: CodecContext): Promise<Uint8Array> | Uint8Array;
}

export const identityCodec: Codec = { encode: (plain) => plain, decode: (stored) => stored };
