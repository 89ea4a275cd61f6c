/** The text of a one-dimensional array, as the server reads it. */

/** Texts that mean the same without quotes, except for NULL. */
const plain = /^[\w.:=-]+$/;
const nullWord = /^null$/i;

export function arrayText(items: readonly (string | number)[]): string {
  return `{${items.map(itemText).join()}}`;
}

/**
 * An array of items that may be missing. Under `array_nulls = off` an array has no NULL, so an item that is there has `=` before
 * it, and `-` stands for one that is not.
 */
export function optionalsText(items: readonly (string | null)[]): string {
  return arrayText(items.map((item) => (item === null ? "-" : `=${item}`)));
}

function itemText(item: string | number): string {
  const text = String(item);
  if (plain.test(text) && !nullWord.test(text)) return text;
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}
