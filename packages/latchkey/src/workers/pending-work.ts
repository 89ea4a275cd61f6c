import type { InProgressRecord } from "../engine/record.ts";
import { StoreError } from "../errors.ts";
import { leaseTerms } from "../execution/lease/admit-lease.ts";
import type { Runtime } from "../execution/runtime.ts";
import { runClaimed } from "../execution/steps/execute-owned.ts";
import type { Operation } from "../operations/operation.ts";
import { fairShare } from "../outbox/fair-share.ts";
import type { PendingWant } from "../stores/store.ts";
import { withLimit } from "../time/time-limit.ts";
import { createService, type LookingService } from "./service.ts";

export interface PendingReport {
  /** Records whose work was begun. */
  readonly claimed: number;
}

export interface PendingWorkSettings {
  readonly intervalMs: number;
  /** How many attempts run at once. */
  readonly concurrency: number;
}

interface Claimed {
  readonly records: readonly InProgressRecord[];
  /** Monotonic time before the claim was sent. */
  readonly claimedAtMs: number;
}

const name = "worker";
const claimLimitMs = 10_000;

/** Runs pending requests of the deferred operations that are defined here. `runOnce` waits for the work that it began. */
export function createPendingWork<Tx>(
  runtime: Runtime<Tx>,
  { intervalMs, concurrency }: PendingWorkSettings,
): LookingService<PendingReport> {
  const underWay = new Map<Promise<void>, string>();
  /** Operations whose last claim filled the capacity, so that more may be pending. */
  const backlogged = new Set<string>();
  let turn = 0;
  let stopping = false;
  let wake = () => service.wake();
  let looking: Promise<unknown> = Promise.resolve();
  const wantsNow = (): readonly PendingWant[] => {
    const operations = [...runtime.operations.values()].filter(({ execution }) => execution === "deferred");
    turn += 1;
    return wantsOf(runtime, operations, concurrency, [...underWay.values()], backlogged, turn);
  };
  const begin = (record: InProgressRecord, claimedAtMs: number): Promise<void> => {
    const run = runOne(runtime, record, claimedAtMs).then(() => {
      underWay.delete(run);
      if (backlogged.size > 0) wake();
    });
    underWay.set(run, record.operation);
    return run;
  };
  const claim = async (): Promise<readonly Promise<void>[]> => {
    const wants = stopping ? [] : wantsNow();
    if (wants.length === 0) return [];
    const { records, claimedAtMs } = await claimOnce(runtime, wants);
    const count = (operation: string) => records.filter((record) => record.operation === operation).length;
    for (const { operation, tokens } of wants) {
      if (count(operation) >= tokens.length) backlogged.add(operation);
      else backlogged.delete(operation);
    }
    if (stopping) {
      // The store may be closed after `stop`, so wait.
      await Promise.all(records.map((record) => leave(runtime, record)));
      return [];
    }
    return records.map((record) => begin(record, claimedAtMs));
  };
  const service = createService<Tx, PendingReport>(runtime, {
    name,
    intervalMs,
    async runOnce() {
      const runs = await claim();
      await Promise.all(runs);
      return { claimed: runs.length };
    },
    round: async () => ({ claimed: (await claim()).length }),
    hasMore: ({ claimed }) => claimed > 0 && backlogged.size > 0 && underWay.size < concurrency,
  });
  return {
    ...service,
    intervalMs,
    nothing: { claimed: 0 },
    async look() {
      const claiming = claim();
      looking = claiming.catch(() => {});
      const runs = await claiming;
      const begun = runs.map((run) => run.then(() => ({})));
      return { done: { claimed: runs.length }, begun, mayHaveMore: runs.length > 0, waitMs: null };
    },
    onCapacity(listener) {
      wake = listener;
    },
    async stop() {
      stopping = true;
      await Promise.all([service.stop(), looking]);
      await Promise.all(underWay.keys());
      stopping = false;
    },
  };
}

function wantsOf<Tx>(
  { ports }: Runtime<Tx>,
  operations: readonly Operation[],
  concurrency: number,
  underWay: readonly string[],
  backlogged: ReadonlySet<string>,
  turn: number,
): readonly PendingWant[] {
  const capacities = operations.map((operation) => ({
    own: concurrency,
    inFlight: underWay.filter((running) => running === operation.name).length,
    hasBacklog: backlogged.has(operation.name),
  }));
  const shares = fairShare(concurrency, capacities, turn);
  return operations.flatMap((operation, at) => {
    const share = shares[at] ?? 0;
    const tokens = Array.from({ length: share }, () => ports.random.token());
    return share === 0 ? [] : [{ operation: operation.name, tokens, terms: leaseTerms(operation) }];
  });
}

async function claimOnce<Tx>(runtime: Runtime<Tx>, wants: readonly PendingWant[]): Promise<Claimed> {
  const { clock } = runtime.ports;
  const claimedAtMs = clock.monotonicMs();
  const asking = runtime.store.claimPending(wants);
  const ran = await withLimit(clock, claimLimitMs, () => asking);
  if (ran.kind === "returned") return { records: ran.value, claimedAtMs };
  if (ran.kind === "threw") throw ran.error;
  asking.then((records) => Promise.all(records.map((record) => leave(runtime, record)))).catch(() => {});
  throw new StoreError("in_doubt", { message: `A claim took longer than ${claimLimitMs} ms` });
}

/** Errors of the work itself have been reported by its attempt. */
async function runOne<Tx>(
  runtime: Runtime<Tx>,
  record: InProgressRecord,
  claimedAtMs: number,
): Promise<void> {
  try {
    await runClaimed(runtime, record, claimedAtMs);
  } catch (error) {
    runtime.emit({ type: "service_error", service: name, error });
  }
}

/** Releases a record that was not begun, so that another worker need not wait for its lease to end. */
async function leave<Tx>({ store }: Runtime<Tx>, record: InProgressRecord): Promise<void> {
  const end = { event: "retry_later", errorCode: "not-started", resumeAfterMs: 0 } as const;
  await store.end(record, record.id, record.fence, end).catch(() => null);
}
