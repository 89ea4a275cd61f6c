/**
 * C0 except line ends, DEL, C1, lone surrogates, line separators, and characters that change the direction of text or are
 * invisible.
 */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * Text from a server, with every character that a terminal might interpret replaced by an escape. If the text is JSON, its
 * meaning stays the same.
 */
export function printable(text: string): string {
  return text.replace(unsafe, (character) => {
    if (character === "\n") return character;
    const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}
