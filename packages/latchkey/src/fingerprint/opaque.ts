/**
 * Whether an object keeps its content where JSON does not read it: a Map or a Set, a stream, a Blob, a FormData, an Error, an
 * instance that has only private members. JSON writes all of them as `{}`, so two that differ would have the same
 * fingerprint. Not called for an object with a `toJSON`.
 */
export function isOpaque(value: object): boolean {
  if (Array.isArray(value) || isIndexed(value) || isBoxed(value) || isPlain(value)) return false;
  if (value instanceof Error || Symbol.iterator in value || Symbol.asyncIterator in value) return true;
  return Object.keys(value).length === 0;
}

/** An object literal, of any realm, or an object without a prototype. */
function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function isIndexed(value: object): boolean {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

/** JSON writes the string, number or boolean inside. */
function isBoxed(value: object): boolean {
  return value instanceof String || value instanceof Number || value instanceof Boolean;
}
