/**
 * Finding records other than by their key. The index only gives candidates; in a second step each record itself is checked.
 */
import type { RedisLocation } from "./keys.ts";
import { digestLength } from "./keys.ts";
import { listOf, numberOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { partitionScripts } from "./scripts/partition.ts";

/** The prefixes of entries, for each kind of search. `entries` in the prelude writes them. */
export const prefixes = {
  state: (state: string) => `s${state}\0`,
  pendingPastExpiry: "p\0",
  finished: "f\0",
  expired: "e\0",
  leases: "l\0",
  pending: (operation: string) => `P${operation}\0`,
  unknown: (operation: string) => `U${operation}\0`,
  resumable: (operation: string) => `R${operation}\0`,
  early: "K\0",
  calls: (effect: string) => `c${effect}\0`,
};

/** Digits of a time in an entry. */
export const timeLength = 16;

/** Times in entries have 16 digits, so that their order is that of their texts. */
export function timeText(time: number): string {
  return String(Math.min(Math.max(Math.floor(time), 0), Number.MAX_SAFE_INTEGER)).padStart(timeLength, "0");
}

export interface Entry {
  readonly location: RedisLocation;
  /** The prefix of the search that the entry begins with. */
  readonly prefix: string;
  /** The text after the prefix; entries are ordered by it. */
  readonly rest: string;
}

export interface Search {
  /** The entries begin with one of these. */
  readonly prefixes: readonly string[];
  /** Only entries that are due by now: a time follows the prefix. */
  readonly due: boolean;
  /** Only entries that have not expired: the time of expiry follows the first time. */
  readonly live?: boolean;
  /** Only entries whose rest comes after this. */
  readonly after?: string;
  /** Only entries whose rest comes before this. */
  readonly before?: string;
  readonly limit: number;
}

/**
 * At most `limit` of the values that `judge` returns, in the order of the entries, from all partitions. Each entry is judged
 * once, and never more at a time than are still missing, because judging may claim the record.
 */
export async function collect<T>(
  runner: Runner,
  search: Search,
  judge: (entry: Entry) => Promise<T | null>,
): Promise<readonly T[]> {
  if (search.limit <= 0) return [];
  const sources = search.prefixes.flatMap((prefix) =>
    Array.from(
      { length: runner.layout.partitions },
      (_, partition) => new Source(runner, partition, prefix, search),
    ),
  );
  const found: T[] = [];
  while (found.length < search.limit) {
    await Promise.all(sources.map((source) => source.fill()));
    const entries = firstOf(sources, search.limit - found.length);
    if (entries.length === 0) break;
    found.push(...(await judgeAll(entries, judge)));
  }
  return found;
}

/** If judging one entry fails, the others still count, because they may be claimed already. Rejects only if nothing was found. */
async function judgeAll<T>(
  entries: readonly Entry[],
  judge: (entry: Entry) => Promise<T | null>,
): Promise<readonly T[]> {
  const results = await Promise.allSettled(entries.map(judge));
  const found = results.flatMap((result) =>
    result.status === "fulfilled" && result.value !== null ? [result.value] : [],
  );
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined && found.length === 0) throw failed.reason;
  return found;
}

/** The smallest entries, up to the point where a source has to be filled again, which may have smaller ones. */
function firstOf(sources: readonly Source[], count: number): readonly Entry[] {
  const entries: Entry[] = [];
  while (entries.length < count && sources.every((source) => source.ended || source.next !== null)) {
    const [smallest] = sources
      .filter((source) => source.next !== null)
      .toSorted((left, right) => compare(left.next, right.next));
    const entry = smallest?.take();
    if (entry === undefined) break;
    entries.push(entry);
  }
  return entries;
}

function compare(left: Entry | null, right: Entry | null): number {
  if (left === null || right === null || left.rest === right.rest) return 0;
  return left.rest < right.rest ? -1 : 1;
}

/** The entries of one prefix in one partition, page by page. */
class Source {
  ended = false;
  readonly #runner: Runner;
  readonly #partition: number;
  readonly #prefix: string;
  readonly #search: Search;
  #entries: Entry[] = [];
  #after: string;

  constructor(runner: Runner, partition: number, prefix: string, search: Search) {
    this.#runner = runner;
    this.#partition = partition;
    this.#prefix = prefix;
    this.#search = search;
    this.#after = search.after === undefined ? "" : prefix + search.after;
  }

  get next(): Entry | null {
    return this.#entries[0] ?? null;
  }

  take(): Entry | undefined {
    return this.#entries.shift();
  }

  async fill(): Promise<void> {
    while (!this.ended && this.#entries.length === 0) await this.#page();
  }

  async #page(): Promise<void> {
    const { limit, due, live = false, before = "" } = this.#search;
    const args = [this.#prefix, this.#after, String(limit), due ? "due" : "", before];
    const [now, ...found] = listOf(await this.#runner.ask(this.#partition, partitionScripts.range, args));
    const members = found.map(textOf);
    this.ended = members.length < limit;
    this.#after = members.at(-1) ?? this.#after;
    const nowText = timeText(numberOf(now));
    this.#entries = members
      .map((member) => this.#entryOf(member))
      .filter(({ rest }) => !live || rest.slice(timeLength, 2 * timeLength) > nowText);
  }

  #entryOf(member: string): Entry {
    return {
      location: { partition: this.#partition, digest: member.slice(-digestLength) },
      prefix: this.#prefix,
      rest: member.slice(this.#prefix.length),
    };
  }
}
