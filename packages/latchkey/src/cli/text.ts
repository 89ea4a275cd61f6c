/** Text for a terminal. Others chose tenants, keys and answers, so these must not control the terminal. */
import { plainLines, plainText } from "../plain-text.ts";

export { plainLines as shownLines, plainText as shown };

/** JSON for people and programs: control characters are written as escapes, which mean the same. */
export function shownJson(value: unknown): string {
  return plainLines(JSON.stringify(value, null, 2));
}

/** The beginning of a long text, and its length. */
export function shortened(text: string): string {
  return text.length <= textMax
    ? text
    : `${text.slice(0, textMax)}… (${text.length} characters; --json shows all)`;
}

const textMax = 2_000;

/** Quoted as a word for a POSIX shell, so that a printed command can be pasted. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Lines with two columns, the first as wide as its longest entry. */
export function columns(rows: readonly (readonly [label: string, text: string])[]): readonly string[] {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, text]) => `${label.padEnd(width)}  ${text}`.trimEnd());
}

/** Rows of a table under its head. */
export function table(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
