import { giveUpReason } from "../engine/decide.ts";
import { guardOf, type LatchkeyRecord } from "../engine/record.ts";
import { reconcileGivenUp } from "../execution/admission.ts";
import { settleWithEarly } from "../execution/early-settlement.ts";
import type { Runtime } from "../execution/runtime.ts";
import { resumeOwned } from "../execution/steps/execute-owned.ts";
import type { Operation } from "../operations/operation.ts";
import { leasedOperation } from "../operations/owned-operation.ts";
import type { EndedLease } from "../stores/store.ts";
import { withLimit } from "../time/time-limit.ts";
import {
  createService,
  type LookingService,
  resolveServiceOptions,
  type Served,
  type Service,
  type ServiceOptions,
} from "./service.ts";

export interface RescueReport {
  /** Dead attempts found that may not be taken over. */
  readonly found: number;
  /** Those of them that were settled as `unknown`. The others were taken over or ended meanwhile. */
  readonly rescued: number;
  /** Records whose work was resumed here, whatever the outcome; some may still be running. */
  readonly resumed: number;
}

const defaults = { intervalMs: 10_000, batchSize: 100 };
/** Maximum number of operations that one process resumes at once. */
const resumedAtOnce = 10;

/**
 * The lease rescuer: settles attempts as `unknown` whose lease has ended and that may not be taken over, so that operators see
 * them before the client's next try. It also resumes, in this process, attempts of operations that are defined here and own
 * their work.
 */
export function leaseRescuer<Tx>(latchkey: Served<Tx>, options: ServiceOptions = {}): Service<RescueReport> {
  return createRescuer(latchkey.runtime, options, runsAny);
}

/** Decides whose dead attempts this process resumes. It leaves the others to other processes. */
export type RunsHere = (operation: Operation) => boolean;

const runsAny: RunsHere = () => true;

/** The same, for a worker, which may not run deferred work. */
export function createRescuer<Tx>(
  runtime: Runtime<Tx>,
  options: ServiceOptions,
  runsHere: RunsHere,
): LookingService<RescueReport> {
  const { intervalMs, batchSize } = resolveServiceOptions("lease-rescuer", options, defaults);
  const atOnce = Math.min(batchSize, resumedAtOnce);
  /** Resumed attempts. A round waits for them for one interval at most, as other attempts die meanwhile. */
  const running = new Set<Promise<unknown>>();
  let wake = () => {};
  const begin = (record: LatchkeyRecord): Promise<boolean> => {
    const run = resumeOne(runtime, record).finally(() => {
      running.delete(run);
      wake();
    });
    running.add(run);
    return run;
  };
  const settleDead = async (signal: AbortSignal) => {
    const ended = await runtime.store.endedLeases(batchSize);
    let rescued = 0;
    for (const lease of ended) {
      if (signal.aborted) break;
      if (await tried(runtime, () => rescue(runtime, lease))) rescued += 1;
    }
    await settleLeftBehind(runtime, batchSize);
    return { found: ended.length, rescued };
  };
  const service = createService(runtime, {
    name: "lease-rescuer",
    intervalMs,
    async runOnce(signal) {
      const dead = await settleDead(signal);
      const started = await resumable(runtime, runsHere, atOnce - running.size);
      const runs = started.map(begin);
      const ran = await withLimit(runtime.ports.clock, intervalMs, () => Promise.all(runs));
      const resumed = ran.kind === "returned" ? ran.value.filter((done) => done).length : runs.length;
      return { ...dead, resumed };
    },
    hasMore: ({ found, rescued, resumed }) => (rescued > 0 && found >= batchSize) || resumed >= atOnce,
  });
  /** Attempts that were resumed: one that could not be taken over must not be begun in a loop. */
  const begunBefore = new Set<string>();
  return {
    ...service,
    intervalMs,
    nothing: { found: 0, rescued: 0, resumed: 0 },
    async look(signal) {
      const dead = await settleDead(signal);
      const found = await resumable(runtime, runsHere, atOnce - running.size);
      if (signal.aborted) return { done: dead, begun: [], mayHaveMore: false, waitMs: null };
      const fresh = found.filter(({ id, fence }) => !begunBefore.has(`${id} ${fence.token}`));
      for (const { id, fence } of fresh) begunBefore.add(`${id} ${fence.token}`);
      const begun = fresh.map((record) => begin(record).then((done) => ({ resumed: done ? 1 : 0 })));
      return { done: dead, begun, mayHaveMore: dead.rescued > 0 || begun.length > 0, waitMs: null };
    },
    onCapacity(listener) {
      wake = listener;
    },
    async stop() {
      await service.stop();
      await Promise.all(running);
    },
  };
}

/** Keeps one record that cannot be written from delaying the others. */
async function tried<Tx>(runtime: Runtime<Tx>, act: () => Promise<boolean>): Promise<boolean> {
  try {
    return await act();
  } catch (error) {
    runtime.emit({ type: "service_error", service: "lease-rescuer", error });
    return false;
  }
}

async function rescue<Tx>(runtime: Runtime<Tx>, ended: EndedLease): Promise<boolean> {
  const { record } = ended;
  // The store lists only leases past their end, so only the third reason is left.
  const because = giveUpReason(record, ended, record.leaseEndsAt) ?? "past-expiry";
  const afterMs = await reconcileAfter(runtime, record, because);
  const done = await runtime.store.giveUp(record, guardOf(record), because, afterMs);
  if (done) {
    const about = runtime.about(record.operation, record);
    runtime.emit({ ...about, type: "lease_rescued", recordId: record.id, because });
    await settleWithEarly(runtime, record, record.id);
  }
  return done;
}

/** Applies kept settlements for processes that died between making a record unknown and applying its settlement. */
async function settleLeftBehind<Tx>(runtime: Runtime<Tx>, limit: number): Promise<void> {
  await tried(runtime, async () => {
    for (const { tenant, scope, key, id } of (await runtime.store.early?.due(limit)) ?? []) {
      await settleWithEarly(runtime, { tenant, scope, key }, id);
    }
    return true;
  });
}

/** If this process does not define the operation, one that does resumes it; a stored input shows that it owns its work. */
async function reconcileAfter<Tx>(
  runtime: Runtime<Tx>,
  record: LatchkeyRecord,
  because: Parameters<typeof reconcileGivenUp>[1],
): Promise<number | null> {
  const operation = runtime.operations.get(record.operation);
  if (operation !== undefined) return reconcileGivenUp(operation, because);
  const journal = await runtime.store.journal.read(record, record.id);
  return because === "lease-ended" && journal !== null && journal.input !== null ? 0 : null;
}

async function resumable<Tx>(
  runtime: Runtime<Tx>,
  runsHere: RunsHere,
  limit: number,
): Promise<readonly LatchkeyRecord[]> {
  const names = [...runtime.operations.values()]
    .filter((operation) => leasedOperation(operation) !== null && runsHere(operation))
    .map(({ name }) => name);
  if (names.length === 0 || limit <= 0) return [];
  return runtime.store.settlement.resumable(names, limit);
}

/** Errors of the work itself have been reported by its attempt. */
async function resumeOne<Tx>(runtime: Runtime<Tx>, record: LatchkeyRecord): Promise<boolean> {
  try {
    return (await resumeOwned(runtime, record)) !== null;
  } catch (error) {
    runtime.emit({ type: "service_error", service: "lease-rescuer", error });
    return true;
  }
}
