/** The settings of a session, as an opening statement returns them in its column `session`. */
import type { SqlRow } from "./transaction.ts";

/** In the order in which `open.sql` joins them. */
const names = [
  "isolation",
  "read_only",
  "encoding",
  "session_owner",
  "session_role",
  "row_security",
  "search_path",
  "schemas",
] as const;

export type SessionSettings = Readonly<Record<(typeof names)[number], string>> & {
  /**
   * By how many milliseconds the session's own time limits exceed those that the opening statement set, the smaller of both
   * differences. Negative: a lower one was lost. 0: one stays, or none was set. NaN: one cannot be read.
   */
  readonly limitsExceedByMs: number;
};

/** Most sessions of a process have the same settings, and most operations the same limits. */
let last: { readonly text: string; readonly settings: SessionSettings | null } | null = null;

/** Null if the row has no such column, or if a role or a schema has the separator U+001F in its name. */
export function sessionSettings(row: SqlRow | undefined): SessionSettings | null {
  const text = row?.session;
  if (typeof text !== "string") return null;
  if (last?.text !== text) last = { text, settings: settingsOf(text.split("\u001f")) };
  return last.settings;
}

function settingsOf(values: readonly string[]): SessionSettings | null {
  // After the settings come the limits that were found, and those that were set. All are empty where the store sets none.
  const limits = values.slice(names.length).map(limitOf);
  if (limits.length !== 4) return null;
  const [idle = 0, ofStatements = 0, newIdle = 0, newOfStatements = 0] = limits;
  const limitsExceedByMs = Math.min(idle - newIdle, ofStatements - newOfStatements);
  const texts = Object.fromEntries(names.map((name, place) => [name, values[place]]));
  return { ...texts, limitsExceedByMs } as SessionSettings;
}

const unitsMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Milliseconds, from the form in which Postgres returns a limit, such as `90s`; `0` is none. NaN: another form. */
function limitOf(text: string): number {
  if (text === "0" || text === "") return Number.MAX_VALUE;
  const [, count, unit = ""] = /^(\d+)([a-z]+)$/u.exec(text) ?? [];
  return Number(count) * (unitsMs[unit] ?? Number.NaN);
}
