/** What docs/proof.md says of each row: what has run on today's code, and what on earlier code, at which commit. */

import type { Changes } from "./code/changes.ts";
import type { Code } from "./code/closure.ts";
import type { Coverage } from "./harness/tier.ts";
import { type At, entryOn, isComplete, keyOf, type TierEntry } from "./ledger.ts";

/** A tier's code as it is now. */
export interface Today {
  readonly code: Code;
  /** What has changed in the library since that code; null: it is not known. */
  changesSince(code: Code): Changes | null;
}

interface Row {
  readonly what: string;
  readonly bound: string;
  readonly today: At<Coverage> | undefined;
  readonly earlier: { readonly row: At<Coverage>; readonly code: Code | null } | undefined;
}

/** A Markdown table of everything that the tier has covered. */
export function coverageTable(
  entries: readonly TierEntry[],
  today: Today,
  group: (what: string) => string = (what) => what,
): string {
  const rows = rowsOf(entries, today.code);
  const groups = Map.groupBy(rows, (row) => JSON.stringify([group(row.what), row.bound, ...stateOf(row)]));
  const lines = [...groups.values()].map((those) => {
    const [first] = those;
    if (first === undefined) return [];
    const what = those.length === 1 ? first.what : `${group(first.what)} (${those.length} configurations)`;
    return [what, boundText(first.bound), todayCell(those), earlierCell(those, today)];
  });
  return table(["What", "Bound", "Today's code", "Earlier code"], lines);
}

/** Longer lists are in proof.json. */
const partsMax = 6;

function boundText(bound: string): string {
  const parts = bound.split("; ");
  return parts.length <= partsMax ? bound : `${parts.length} scenarios, listed in proof.json`;
}

/** Newest first; of what earlier code has shown, the newest whole one counts, or else the newest. */
function rowsOf(entries: readonly TierEntry[], code: Code): readonly Row[] {
  const current = entryOn(entries, code);
  const older = entries.filter((entry) => entry !== current).reverse();
  const all = [...(current === undefined ? [] : [current]), ...older].flatMap(({ covered }) => covered);
  return [...Map.groupBy(all, keyOf)].flatMap(([key, [first]]) => {
    if (first === undefined) return [];
    const { what, bound } = first;
    const today = current?.covered.find((row) => keyOf(row) === key);
    const candidates = older.flatMap(({ covered, source }) =>
      covered.filter((row) => keyOf(row) === key && row.count > 0).map((row) => ({ row, code: source.code })),
    );
    const earlier = candidates.find(({ row }) => row.complete) ?? candidates[0];
    return [{ what, bound, today, earlier: today?.complete ? undefined : earlier }];
  });
}

/** Rows that differ in this are not shown as one. */
function stateOf({ today, earlier }: Row): readonly unknown[] {
  const state = (row: At<Coverage> | undefined) => [row?.complete, row?.commit, row?.of === "all"];
  return [state(today), state(earlier?.row), earlier?.code];
}

function todayCell(rows: readonly Row[]): string {
  const covered = rows.flatMap(({ today }) => (today === undefined || today.count === 0 ? [] : [today]));
  const [first] = covered;
  return first === undefined ? "not yet" : `${amount(covered)}, at ${short(first.commit)}`;
}

function earlierCell(rows: readonly Row[], today: Today): string {
  const covered = rows.flatMap(({ earlier }) => (earlier === undefined ? [] : [earlier.row]));
  const [first] = rows.flatMap(({ earlier }) => (earlier === undefined ? [] : [earlier]));
  if (first === undefined) return "";
  return `${amount(covered)}, at ${short(first.row.commit)} (${sinceText(first.code, today)})`;
}

function amount(rows: readonly Coverage[]): string {
  const count = number(rows.reduce((sum, row) => sum + row.count, 0));
  if (rows.some(({ of }) => of === "all")) {
    return rows.every(({ complete }) => complete) ? `${count}, every one` : `${count}, not finished`;
  }
  return `${count} of ${number(rows.reduce((sum, { of }) => sum + Number(of), 0))}`;
}

/** Of a tier as a whole: how far today's code is covered. */
export function todayText(entries: readonly TierEntry[], { code }: Today): string {
  const entry = entryOn(entries, code);
  if (entry === undefined) return "not yet";
  if (isComplete(entry)) return "**whole**";
  return `${entry.covered.filter(({ complete }) => complete).length} of ${entry.covered.length} rows whole`;
}

/** The newest whole evidence on earlier code, or else the newest. */
export function earlierText(entries: readonly TierEntry[], today: Today): string {
  const current = entryOn(entries, today.code);
  if (current !== undefined && isComplete(current)) return "";
  const older = entries.filter((entry) => entry !== current);
  const best = older.findLast(isComplete) ?? older.at(-1);
  if (best === undefined) return "none";
  const whole = isComplete(best) ? "whole" : "part";
  return `${whole}, at ${short(best.source.commit)} (${sinceText(best.source.code, today)})`;
}

/** How far evidence is from today's code. */
function sinceText(code: Code | null, today: Today): string {
  const changes = code === null ? null : today.changesSince(code);
  if (code === null || changes === null) return "no longer in the history, so changes are not counted";
  const lines = `+${number(changes.added)} −${number(changes.removed)} lines`;
  return code.harness === today.code.harness ? lines : `${lines}, harness changed`;
}

export function short(commit: string | null): string {
  if (commit === null) return "no commit";
  const [hash = "", dirty] = commit.split("-");
  return `\`${hash.slice(0, 10)}\`${dirty === undefined ? "" : " with changes"}`;
}

export function number(value: number): string {
  return value.toLocaleString("en-US");
}

export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join("\n");
}
