/** False for texts with NUL, which some stores cannot store, or with lone surrogates, because two different ones are stored as the same character. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** @throws {TypeError} when the text could not be stored, or would be stored as another text */
export function checkStorable(name: string, text: string): void {
  if (!isStorable(text)) throw new TypeError(`${name} contains a NUL character or a lone surrogate`);
}
