/** Text for a terminal. Tenants, keys and answers were chosen by others, so nothing of theirs may steer it. */
import { formatKey } from "../key/format-key.ts";

/** C0, DEL, C1, and what turns the direction of text or hides in it. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The text with every character that a terminal might obey written as an escape. */
export function shown(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** JSON for people and programs: what a terminal might obey is written as an escape, which means the same. */
export function shownJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(unsafe, (character) =>
    character === "\n"
      ? character
      : Array.from(
          { length: character.length },
          (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
        ).join(""),
  );
}

/** A long text's beginning, and how much there is of it. */
export function shortened(text: string): string {
  return text.length <= textMax
    ? text
    : `${text.slice(0, textMax)}… (${text.length} characters; --json shows all)`;
}

const textMax = 2_000;

/** As a word of a POSIX shell, so that a printed command can be pasted. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A record's name as arguments of a command. */
export function shellName(record: { tenant: string; operation: string; key: string }): string {
  const words = [record.tenant, record.operation, keyWord(record.key)].map(shellWord);
  return words.some((word) => word.startsWith("-")) ? `-- ${words.join(" ")}` : words.join(" ");
}

/** Keys of `latchkey.run` may hold what no header can. */
function keyWord(key: string): string {
  if (/^[\x21\x23-\x2b\x2d-\x7e]+$/u.test(key)) return key;
  return /^[\x20-\x7e]+$/u.test(key) ? formatKey(key) : key;
}

export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** The time, and how far it is from the store's present. */
export function timeText(epochMs: number, now: number): string {
  const distance = durationText(Math.abs(now - epochMs));
  return `${isoTime(epochMs)} (${epochMs <= now ? `${distance} ago` : `in ${distance}`})`;
}

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;

function durationText(ms: number): string {
  for (const [unit, length] of units) {
    const count = Math.floor(ms / length);
    if (count > 0) return `${count} ${unit}${count === 1 ? "" : "s"}`;
  }
  return `${Math.round(ms)} ms`;
}

/** Lines of two columns, the first as wide as its longest. */
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
