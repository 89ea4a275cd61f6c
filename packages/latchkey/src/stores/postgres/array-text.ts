/** The text of a one-dimensional array, as the server reads it. */

/** Texts that mean the same without quotes, except for NULL. */
const plain = /^[\w.:-]+$/;
const nullWord = /^null$/i;

export function arrayText(items: readonly (string | number | null)[]): string {
  return `{${items.map(itemText).join()}}`;
}

function itemText(item: string | number | null): string {
  if (item === null) return "null";
  const text = String(item);
  if (plain.test(text) && !nullWord.test(text)) return text;
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}
