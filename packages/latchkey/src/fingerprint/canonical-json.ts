import { type JsonNode, parseJsonTree, type TreeFault, writeCanonical } from "./json-tree.ts";
import { plainCanonical } from "./plain-json.ts";
import { decodeUtf8 } from "./utf8.ts";

export interface CanonicalJsonLimits {
  /** Arrays and objects that may be open at once. Default 512. */
  readonly maxDepth?: number | undefined;
  /** Size of the source in bytes. Default 1 MiB (1,048,576). */
  readonly maxBytes?: number | undefined;
}

/**
 * Why there is no canonical form.
 *
 * - `too-large`: judged before anything is read.
 * - `not-json`: not one JSON text of RFC 8259 in valid UTF-8 without byte order mark.
 * - `too-deep`: reading stops there, so the rest of the text may or may not be JSON.
 * - `duplicate-name`: an object has two members whose unescaped names are equal.
 * - `lone-surrogate`: a string holds an escaped surrogate without its partner.
 * - `inexact-number`: a double does not hold the number, see `canonicalNumber`.
 *
 * A text with several faults: `too-large`, then whichever of `not-json` and `too-deep` comes first, then the first
 * of the other three.
 */
export type NotCanonical = TreeFault | "too-large";

export type CanonicalJsonResult =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly reason: NotCanonical };

/**
 * The canonical form of a JSON text as RFC 8785 defines it, from a strict parse of its bytes. Two texts with the
 * same canonical form mean the same to every reader that keeps decimal values: nothing is merged or rounded.
 *
 * Takes time in proportion to n log n and no recursion, whatever the input.
 *
 * @throws TypeError if a limit is not a positive whole number.
 */
export function canonicalJson(bytes: Uint8Array, limits: CanonicalJsonLimits = {}): CanonicalJsonResult {
  const { maxDepth, maxBytes } = checkLimits(limits);
  if (bytes.length > maxBytes) return { ok: false, reason: "too-large" };
  const plain = plainCanonical(bytes, maxDepth);
  if (plain !== null) return { ok: true, bytes: plain };
  const text = decodeUtf8(bytes);
  const tree = text === null ? null : parseJsonTree(text, maxDepth);
  if (tree === null) return { ok: false, reason: "not-json" };
  return tree.ok ? { ok: true, bytes: canonicalBytes(tree.root) } : tree;
}

export type ExactJsonResult =
  | { readonly ok: true; readonly root: JsonNode }
  | { readonly ok: false; readonly reason: NotCanonical };

/** As `canonicalJson`, before the parts are put together. */
export function parseExactJson(bytes: Uint8Array, limits: CanonicalJsonLimits): ExactJsonResult {
  const { maxDepth, maxBytes } = checkLimits(limits);
  if (bytes.length > maxBytes) return { ok: false, reason: "too-large" };
  const text = decodeUtf8(bytes);
  return text === null ? { ok: false, reason: "not-json" } : parseJsonTree(text, maxDepth);
}

export function canonicalBytes(node: JsonNode): Uint8Array {
  return Buffer.from(writeCanonical(node), "utf8");
}

function checkLimits({ maxDepth = 512, maxBytes = 1_048_576 }: CanonicalJsonLimits) {
  return { maxDepth: checkLimit("maxDepth", maxDepth), maxBytes: checkLimit("maxBytes", maxBytes) };
}

function checkLimit(name: string, limit: number): number {
  if (Number.isSafeInteger(limit) && limit > 0) return limit;
  throw new TypeError(`${name} must be a positive whole number`);
}
