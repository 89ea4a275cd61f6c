/** Text that others chose, inside text of ours: it must not steer a terminal, forge a line of a log or hide in it. */

/** C0, DEL, C1, lone surrogates, line separators, and what turns the direction of text or hides in it. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The text with every such character written as an escape. */
export function plainText(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/**
 * Lines, of which everything but their ends that a terminal might obey is an escape. It means the same where the text is
 * JSON.
 */
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
