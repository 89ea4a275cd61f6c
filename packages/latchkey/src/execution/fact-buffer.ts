/**
 * Collects facts and writes them to the store once a second, so that no request writes one. Facts that do not fit, or cannot
 * be written, are dropped and counted: facts only inform people, and no decision depends on them.
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
const stopLimitMs = 500;
/** Groups of key and kind per second: on Postgres 500 take about 15 ms of one backend. */
const groupsMax = 500;

export interface Fact extends FactMeaning {
  readonly kind: FactKind;
  readonly key: RecordKey;
  /** Null: for the key's life at the time of writing. */
  readonly recordId: string | null;
}

type Seen = FactMeaning & { readonly atMs: number };

interface Group {
  readonly key: RecordKey;
  readonly kind: FactKind;
  recordId: string | null;
  count: number;
  readonly first: Seen[];
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
  #groups = new Map<string, Group>();
  #dropped = 0;
  #cancelTimer: CancelTimer | null = null;
  #round: Promise<void> | null = null;

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
    const seen = { atMs: this.#clock.monotonicMs(), what, because, traceId };
    group.count += 1;
    if (group.first.length < firstFactsMax) group.first.push(seen);
    else if (group.last.push(seen) > lastFactsMax) group.last.shift();
  }

  /** Writes the remaining facts after the current round, but waits at most half a second. */
  async stop(): Promise<void> {
    await withLimit(this.#clock, stopLimitMs, async () => {
      await this.#round;
      this.#cancelTimer?.();
      this.#cancelTimer = null;
      await this.#keep();
    });
  }

  /** Null: there is no room for another group. */
  #groupOf(kind: FactKind, key: RecordKey, recordId: string | null): Group | null {
    const name = `${kind} ${key.tenant.length} ${key.scope.length} ${key.tenant}${key.scope}${key.key}`;
    const known = this.#groups.get(name);
    const isLater =
      known !== undefined && recordId !== null && known.recordId !== null && known.recordId !== recordId;
    if (known !== undefined && !isLater) {
      known.recordId ??= recordId;
      return known;
    }
    // The group is of an earlier life, whose row is about to be overwritten.
    if (known !== undefined) this.#groups.delete(name);
    if (this.#groups.size >= groupsMax) return null;
    const group: Group = { kind, key, recordId, count: 0, first: [], last: [] };
    this.#groups.set(name, group);
    this.#schedule();
    return group;
  }

  #schedule(): void {
    if (this.#cancelTimer !== null || this.#round !== null) return;
    const keep = () => {
      this.#cancelTimer = null;
      this.#round = this.#keep().finally(() => {
        this.#round = null;
        if (this.#groups.size > 0) this.#schedule();
      });
    };
    this.#cancelTimer = this.#clock.startTimer(keepEveryMs, keep, "background");
  }

  async #keep(): Promise<void> {
    const groups = [...this.#groups.values()];
    const dropped = this.#dropped;
    this.#groups = new Map();
    this.#dropped = 0;
    const nowMs = this.#clock.monotonicMs();
    let lost: { readonly count: number; readonly error: unknown } = { count: dropped, error: null };
    try {
      if (groups.length > 0) await this.#store.keep(groups.map((group) => storedGroup(group, nowMs)));
    } catch (error) {
      lost = { count: dropped + groups.reduce((sum, { count }) => sum + count, 0), error };
    }
    if (lost.count > 0) this.#onDropped(lost.count, lost.error);
  }
}

function storedGroup({ key, recordId, kind, count, first, last }: Group, nowMs: number): FactGroup {
  const facts = [...first, ...last].map(({ atMs, what, because, traceId }) => ({
    agoMs: nowMs - atMs,
    what,
    because,
    traceId,
  }));
  const { tenant, scope, key: text } = key;
  return { key: { tenant, scope, key: text }, recordId, kind, count, facts };
}
