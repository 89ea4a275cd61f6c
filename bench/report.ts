/** Medians, ratios, and their tables. */
import { isBaselineOf, type Job, nameOf, type Subject } from "./http/subject.ts";
import { type Machine, renderMachine } from "./machine.ts";
import type { Entry, Measurement } from "./run.ts";

export interface RunFacts {
  readonly date: string;
  readonly command: string;
  readonly machine: Machine & { readonly redis: boolean };
  readonly rounds: number;
  readonly turnSeconds: number;
  readonly skipped: readonly { readonly subject: string; readonly because: string }[];
}

/** One subject at one concurrency: medians over the rounds. */
export interface Result extends Subject {
  /** The other checkout, if one was compared. */
  readonly checkout: string | null;
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly serverMicros: number;
  readonly databaseMicros: number | null;
  /** Throughput relative to the baseline in the same round. */
  readonly ratio: number;
  /** Throughput relative to the other checkout in the same round; null if there is none. */
  readonly ratioToOther: number | null;
  readonly rounds: readonly { readonly requestsPerSecond: number; readonly ratio: number }[];
}

export function summarize(measurements: readonly Measurement[]): Result[] {
  const groups = Map.groupBy(measurements, ({ entry, concurrency }) => `${keyOf(entry)} ${concurrency}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const rateOf = (one: Measurement, isWanted: (entry: Entry) => boolean) =>
      measurements.find(
        ({ entry, round, concurrency }) =>
          round === one.round && concurrency === one.concurrency && isWanted(entry),
      )?.requestsPerSecond ?? Number.NaN;
    const { subject, checkout } = first.entry;
    const ratios = group.map(
      (one) => one.requestsPerSecond / rateOf(one, (entry) => isBaselineOf(entry.subject, subject)),
    );
    const others = group.map(
      (one) =>
        one.requestsPerSecond /
        rateOf(one, (entry) => nameOf(entry.subject) === nameOf(subject) && entry.checkout !== checkout),
    );
    const of = (pick: (one: Measurement) => number) => median(group.map(pick));
    return {
      ...subject,
      checkout,
      concurrency: first.concurrency,
      requestsPerSecond: of((one) => one.requestsPerSecond),
      p50Ms: of((one) => one.p50Ms),
      p99Ms: of((one) => one.p99Ms),
      serverMicros: of((one) => one.serverMicros),
      databaseMicros: first.databaseMicros === null ? null : of((one) => one.databaseMicros ?? Number.NaN),
      ratio: median(ratios),
      ratioToOther: others.some(Number.isNaN) ? null : median(others),
      rounds: group.map((one, index) => ({
        requestsPerSecond: one.requestsPerSecond,
        ratio: ratios[index] ?? Number.NaN,
      })),
    };
  });
}

function keyOf({ subject, checkout }: Entry): string {
  return `${nameOf(subject)} ${checkout ?? ""}`;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

const headings: Readonly<Record<Job, string>> = {
  order: "A transaction with two writes: first requests",
  replay: "An endpoint with a fixed answer: replays",
};

/** The tables, as Markdown. */
export function renderResults(results: readonly Result[]): string {
  const jobs = ["order", "replay"] as const;
  return jobs
    .filter((job) => results.some((result) => result.job === job))
    .map((job) => `### ${headings[job]}\n\n${renderTable(results.filter((result) => result.job === job))}`)
    .join("\n\n");
}

function renderTable(results: readonly Result[]): string {
  const compared = results.some(({ ratioToOther }) => ratioToOther !== null);
  const columns = [
    "Framework",
    "Protection",
    "c",
    "requests/s",
    "ratio",
    "p50 ms",
    "p99 ms",
    "server CPU µs",
    "database CPU µs",
    ...(compared ? ["ratio to the other checkout"] : []),
  ];
  const rows = results
    .toSorted(inOrder)
    .map((result) => [
      result.framework,
      guardText(result),
      String(result.concurrency),
      result.requestsPerSecond.toFixed(0),
      result.guard === "none" ? "1" : result.ratio.toFixed(2),
      result.p50Ms.toFixed(2),
      result.p99Ms.toFixed(2),
      result.serverMicros.toFixed(0),
      result.databaseMicros?.toFixed(0) ?? "",
      ...(compared ? [result.ratioToOther?.toFixed(3) ?? ""] : []),
    ]);
  return [columns, columns.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function inOrder(left: Result, right: Result): number {
  return left.framework.localeCompare(right.framework) || left.concurrency - right.concurrency;
}

function guardText({ guard, job, checkout }: Result): string {
  const names = {
    none: "nothing",
    latchkey: "Latchkey, Postgres",
    "latchkey-optimistic": "Latchkey, optimistic",
    "latchkey-memory": "Latchkey, memory",
    "by-hand": "by hand, Postgres",
    "by-hand-memory": "by hand, a `Map`",
    "node-idempotency": "node-idempotency, Redis",
    "express-idempotency": "express-idempotency, Redis",
    powertools: "AWS Powertools, Redis",
    dbos: "DBOS, Postgres",
  } as const;
  const bold = job && guard.startsWith("latchkey") && checkout === null;
  const name = checkout === null ? names[guard] : `${names[guard]} (other checkout)`;
  return bold ? `**${name}**` : name;
}

/** What was run, where and when. */
export function renderFacts({ date, command, machine, rounds, turnSeconds, skipped }: RunFacts): string {
  return [
    `Measured on ${date} with \`${command}\`: ${rounds} rounds, ${turnSeconds.toFixed(1)} seconds for each turn; medians over the rounds.`,
    "",
    `${renderMachine(machine)}.`,
    ...(skipped.length > 0 ? ["", "Not run:", ""] : []),
    ...skipped.map(({ subject, because }) => `- ${subject}: ${because}`),
  ].join("\n");
}

/** Inserts the measured part into a page whose other text is written by hand. */
export function intoPage(page: string, measured: string, part = "measured"): string {
  const [begin, end] = [`<!-- ${part}: begin -->`, `<!-- ${part}: end -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from < 0 || to < from) throw new Error(`The page has no place for results between ${begin} and ${end}`);
  return `${page.slice(0, from + begin.length)}\n\n${measured}\n\n${page.slice(to)}`;
}
