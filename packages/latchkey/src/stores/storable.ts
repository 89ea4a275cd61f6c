/** False for texts with NUL, which some stores cannot store, or with lone surrogates, because two different ones are stored as the same character. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}
