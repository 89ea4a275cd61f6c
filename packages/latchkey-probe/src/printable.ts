/** C0 but line ends, DEL, C1, lone surrogates, line separators, and what turns the direction of text or hides in it. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * Text of a server's, with every character that a terminal might obey as an escape. It means the same where the text is
 * JSON.
 */
export function printable(text: string): string {
  return text.replace(unsafe, (character) => {
    if (character === "\n") return character;
    const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}
