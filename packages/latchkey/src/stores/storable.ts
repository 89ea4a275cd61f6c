/** NUL cannot be stored everywhere; two different lone surrogates become the same character on their way. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}
