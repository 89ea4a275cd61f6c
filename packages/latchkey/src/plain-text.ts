/** Text from clients and other sources, to be put into our own: it must not control a terminal, forge a line of a log or hide in it. */

/** C0, DEL, C1, lone surrogates, line separators, and what turns the direction of text or hides in it. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The text with every such character written as an escape. */
export function plainText(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** As `plainText`, but line feeds stay. Where the text is JSON, it still means the same. */
export function plainLines(text: string): string {
  return text.replace(unsafe, (character) =>
    character === "\n"
      ? character
      : Array.from(
          { length: character.length },
          (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
        ).join(""),
  );
}

/** The value if it is a text that is not empty. */
export function nonEmptyText(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
