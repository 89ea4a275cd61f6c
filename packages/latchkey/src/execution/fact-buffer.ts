/**
 * Collects facts and writes them to the store once a second, so that no request writes one. Those of a key that was written a
 * short time ago wait a few seconds. Facts that do not fit, or cannot be written, are dropped and counted: facts only inform
 * people, and no decision depends on them.
 */
import type { RecordKey } from "../engine/record.ts";
import type { CancelTimer, Clock } from "../ports.ts";
import {
  type FactGroup,
  type FactKind,
  type FactMeaning,
  type FactSupport,
  firstFactsMax,
  lastFactsMax,
} from "../stores/facts.ts";
import { withLimit } from "../time/time-limit.ts";

const keepEveryMs = 1_000;
/** A row takes Postgres 0.25 ms, too much to write it each second for a key that is repeated all the time. */
const sameKeyEveryMs = 5_000;
const stopLimitMs = 500;
/** Groups of key and kind that a round writes: on Postgres 500 take about an eighth of a second of one backend. */
const writtenMax = 500;
/** How many may wait. */
const groupsMax = 2_500;

export interface Fact extends FactMeaning {
  readonly kind: FactKind;
  readonly key: RecordKey;
  /** Null: for the key's life at the time of writing. */
  readonly recordId: string | null;
}

interface Seen {
  atMs: number;
  what: string;
  because: string | null;
  traceId: string | null;
}

interface Group {
  readonly key: RecordKey;
  readonly kind: FactKind;
  recordId: string | null;
  count: number;
  readonly first: Seen[];
  /** A ring, overwritten in place: new objects for a hot key would all grow old before they are dropped. */
  readonly last: Seen[];
}

export interface FactBufferEvents {
  /** Called with the number of dropped facts. */
  readonly onDropped: (count: number, error: unknown) => void;
}

export class FactBuffer {
  readonly #store: FactSupport;
  readonly #clock: Clock;
  readonly #onDropped: FactBufferEvents["onDropped"];
  readonly #groups = new Map<string, Group>();
  /** Groups by record, from their second fact on: a record's id is hashed already, while a name has to be joined and hashed. */
  readonly #recent = new Map<string | null, Group>();
  /** When a group may be written again, by the monotonic clock. */
  readonly #writeAgainAtMs = new Map<string, number>();
  #dropped = 0;
  #cancelTimer: CancelTimer | null = null;
  #round: Promise<void> | null = null;
  #isStopped = false;

  constructor(store: FactSupport, clock: Clock, { onDropped }: FactBufferEvents) {
    this.#store = store;
    this.#clock = clock;
    this.#onDropped = onDropped;
  }

  note({ kind, key, recordId, what, because, traceId }: Fact): void {
    const group = this.#groupOf(kind, key, recordId);
    if (group === null) {
      this.#dropped += 1;
      return;
    }
    const { count, first, last } = group;
    group.count += 1;
    const atMs = this.#clock.monotonicMs();
    const oldest = last.length < lastFactsMax ? undefined : last[placeOf(count)];
    if (oldest === undefined) {
      (count < firstFactsMax ? first : last).push({ atMs, what, because, traceId });
      return;
    }
    oldest.atMs = atMs;
    oldest.what = what;
    oldest.because = because;
    oldest.traceId = traceId;
  }

  /** Writes the remaining facts after the current round, but waits at most half a second. Later ones are lost. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await withLimit(this.#clock, stopLimitMs, async () => {
      await this.#round;
      this.#cancelTimer?.();
      this.#cancelTimer = null;
      while (this.#groups.size > 0) await this.#keep(this.#take(() => true));
    });
    const left = countOf([...this.#groups.values()]);
    this.#groups.clear();
    if (left > 0) this.#onDropped(left, null);
  }

  /** Null: there is no room for another group. */
  #groupOf(kind: FactKind, key: RecordKey, recordId: string | null): Group | null {
    const recent = this.#recent.get(recordId);
    if (recent?.kind === kind) return recent;
    // No part of a key may contain U+0000.
    const name = `${kind}\0${key.tenant}\0${key.scope}\0${key.key}`;
    const known = this.#groups.get(name);
    const isLater =
      known !== undefined && recordId !== null && known.recordId !== null && known.recordId !== recordId;
    if (known !== undefined && !isLater) {
      known.recordId ??= recordId;
      if (recordId !== null) this.#recent.set(recordId, known);
      return known;
    }
    // The group is of an earlier life, whose row is about to be overwritten.
    if (known !== undefined) this.#remove(name, known);
    if (this.#groups.size >= groupsMax) return null;
    const group: Group = { kind, key, recordId, count: 0, first: [], last: [] };
    this.#groups.set(name, group);
    this.#schedule();
    return group;
  }

  #schedule(): void {
    if (this.#isStopped || this.#cancelTimer !== null || this.#round !== null) return;
    const keep = () => {
      this.#cancelTimer = null;
      this.#round = this.#keep(this.#takeDue()).finally(() => {
        this.#round = null;
        if (this.#groups.size > 0) this.#schedule();
      });
    };
    this.#cancelTimer = this.#clock.startTimer(keepEveryMs, keep, "background");
  }

  #takeDue(): ReadonlyMap<string, Group> {
    const nowMs = this.#clock.monotonicMs();
    for (const [name, atMs] of this.#writeAgainAtMs) if (atMs <= nowMs) this.#writeAgainAtMs.delete(name);
    const due = this.#take((name) => !this.#writeAgainAtMs.has(name));
    for (const name of due.keys()) this.#writeAgainAtMs.set(name, nowMs + sameKeyEveryMs);
    return due;
  }

  #take(isDue: (name: string) => boolean): ReadonlyMap<string, Group> {
    const due = new Map([...this.#groups].filter(([name]) => isDue(name)).slice(0, writtenMax));
    for (const [name, group] of due) this.#remove(name, group);
    return due;
  }

  #remove(name: string, { recordId }: Group): void {
    this.#groups.delete(name);
    this.#recent.delete(recordId);
  }

  async #keep(due: ReadonlyMap<string, Group>): Promise<void> {
    const groups = [...due.values()];
    const dropped = this.#dropped;
    this.#dropped = 0;
    const nowMs = this.#clock.monotonicMs();
    let lost: { readonly count: number; readonly error: unknown } = { count: dropped, error: null };
    try {
      if (groups.length > 0) await this.#store.keep(groups.map((group) => storedGroup(group, nowMs)));
    } catch (error) {
      lost = { count: dropped + countOf(groups), error };
    }
    if (lost.count > 0) this.#onDropped(lost.count, lost.error);
  }
}

function countOf(groups: readonly Group[]): number {
  return groups.reduce((sum, { count }) => sum + count, 0);
}

/** Where the ring has the fact after `count` others. */
function placeOf(count: number): number {
  return (count - firstFactsMax) % lastFactsMax;
}

function storedGroup({ key, recordId, kind, count, first, last }: Group, nowMs: number): FactGroup {
  const oldest = last.length < lastFactsMax ? 0 : placeOf(count);
  const facts = [...first, ...last.slice(oldest), ...last.slice(0, oldest)].map(
    ({ atMs, what, because, traceId }) => ({
      agoMs: nowMs - atMs,
      what,
      because,
      traceId,
    }),
  );
  const { tenant, scope, key: text } = key;
  return { key: { tenant, scope, key: text }, recordId, kind, count, facts };
}
