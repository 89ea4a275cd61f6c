/**
 * Whether an object keeps what it says where JSON does not look: a Map or a Set, a stream, a Blob, a FormData, an Error, an
 * instance that has private members alone. JSON writes them all as `{}`, and two that differ would be the same. Not asked of
 * what has a `toJSON`.
 */
export function isOpaque(value: object): boolean {
  if (Array.isArray(value) || isIndexed(value) || isBoxed(value) || isPlain(value)) return false;
  if (value instanceof Error || Symbol.iterator in value || Symbol.asyncIterator in value) return true;
  return Object.keys(value).length === 0;
}

/** An object literal's, of whatever realm, and one without a prototype. */
function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function isIndexed(value: object): boolean {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

/** JSON writes the text, number or truth value that is in it. */
function isBoxed(value: object): boolean {
  return value instanceof String || value instanceof Number || value instanceof Boolean;
}
