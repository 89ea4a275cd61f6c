/** Arbitrary text for property tests. */
import fc from "fast-check";

const surrogateCount = 0x800;
const firstSurrogate = 0xd800;

const codePoint = fc.integer({ min: 0, max: 0x10_ffff - surrogateCount }).map(
  (index) => String.fromCodePoint(index < firstSurrogate ? index : index + surrogateCount),
  (character) => {
    const [one, ...others] = typeof character === "string" ? character : [];
    const value = one?.codePointAt(0);
    if (value === undefined || others.length > 0) throw new TypeError("not one code point");
    return value < firstSurrogate ? value : value - surrogateCount;
  },
);

/** Like `fc.string({ unit: "binary" })`, which takes two seconds once in each process to count its characters. */
export function anyText(length: { readonly minLength?: number; readonly maxLength?: number } = {}) {
  return fc.string({ ...length, unit: codePoint });
}
