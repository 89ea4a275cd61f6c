/** Counts what waits in a store, also in a store without counts. */
import type { LatchkeyRecord, RecordState } from "../engine/record.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Depth, Overview } from "../stores/overview.ts";
import type { Store } from "../stores/store.ts";

export interface OverviewOptions {
  /** The largest count for each kind, 1 to 100,000. Default 1,000. */
  readonly countMax?: number;
}

const optionNames = { countMax: true } as const satisfies OptionNames<OverviewOptions>;

/** Returns the limit. */
export function checkOverviewOptions(options: OverviewOptions): number {
  checkOptions("overview", options, optionNames);
  const { countMax = 1_000 } = options;
  if (Number.isSafeInteger(countMax) && countMax >= 1 && countMax <= 100_000) return countMax;
  throw new TypeError(`overview: countMax must be a whole number from 1 to 100000 (got ${String(countMax)})`);
}

/** No record has this id: reading it only returns the store's time. */
const noId = "00000000-0000-0000-0000-000000000000";

const none: Depth = { count: 0, more: false, oldestAt: null };

export function overviewOf<Tx>(store: Store<Tx>, countMax: number): Promise<Overview> {
  return store.overview?.(countMax) ?? byListing(store, countMax);
}

/** Counts by listing each kind: for stores whose lists are short or in memory. */
async function byListing<Tx>(store: Store<Tx>, countMax: number): Promise<Overview> {
  const { now } = await store.readById(null, noId);
  const limit = countMax + 1;
  const all = { tenant: null, limit, after: null } as const;
  const createdAt = ({ createdAt: at }: Pick<LatchkeyRecord, "createdAt">) => at;
  const records = async (state: RecordState) =>
    depthOf(await store.settlement.list({ ...all, state, operation: null }), createdAt, countMax);
  const { outbox, messages } = store;
  const effects = async (state: "pending" | "claimed" | "started" | "dead") =>
    outbox === null ? none : depthOf(await outbox.list({ ...all, state, effect: null }), createdAt, countMax);
  return {
    now,
    records: {
      pending: await records("pending"),
      inProgress: await records("in_progress"),
      retryable: await records("retryable"),
      unknown: await records("unknown"),
    },
    overdueLeases: depthOf(await store.endedLeases(limit), ({ record }) => record.leaseEndsAt, countMax),
    effects: outbox && {
      pending: await effects("pending"),
      claimed: sum(await effects("claimed"), await effects("started"), countMax),
      dead: await effects("dead"),
    },
    messages: messages && {
      dead: depthOf(await messages.list({ ...all, operation: null }), ({ diedAt }) => diedAt, countMax),
    },
  };
}

function depthOf<T>(found: readonly T[], momentOf: (one: T) => number, countMax: number): Depth {
  const moments = found.map(momentOf);
  const oldestAt = moments.length === 0 ? null : Math.min(...moments);
  return { count: Math.min(found.length, countMax), more: found.length > countMax, oldestAt };
}

function sum(one: Depth, other: Depth, countMax: number): Depth {
  const count = one.count + other.count;
  const moments = [one.oldestAt, other.oldestAt].filter((at) => at !== null);
  return {
    count: Math.min(count, countMax),
    more: one.more || other.more || count > countMax,
    oldestAt: moments.length === 0 ? null : Math.min(...moments),
  };
}
