import { reconcileGivenUp } from "../attempt/admission.ts";
import { resumeOwned } from "../attempt/execute-owned.ts";
import { withLimit } from "../attempt/limit.ts";
import type { Runtime } from "../attempt/runtime.ts";
import { giveUpReason } from "../engine/decide.ts";
import { guardOf, type LatchkeyRecord } from "../engine/record.ts";
import { leasedOperation } from "../owned-operation.ts";
import type { EndedLease } from "../stores/store.ts";
import {
  createService,
  resolveServiceOptions,
  type Served,
  type Service,
  type ServiceOptions,
} from "./service.ts";

export interface RescueReport {
  /** Dead attempts found that nobody may take over. */
  readonly found: number;
  /** Of these, settled as `unknown`. The others were taken over or ended in the meantime. */
  readonly rescued: number;
  /** Records whose work was gone on with here, whatever came of it; some may still be running. */
  readonly resumed: number;
}

const defaults = { intervalMs: 10_000, batchSize: 100 };
/** Each one runs an operation, all at the same time; so many at most in one process. */
const resumedAtOnce = 10;

/**
 * The lease-rescuer: settles as `unknown` the attempts whose lease has ended and that nobody may take over, so that
 * they are seen without waiting for the client's next try; and goes on, in this process, with those of operations that are
 * defined here and own their work.
 */
export function leaseRescuer<Tx>(latchkey: Served<Tx>, options: ServiceOptions = {}): Service<RescueReport> {
  const { runtime } = latchkey;
  const { intervalMs, batchSize } = resolveServiceOptions("lease-rescuer", options, defaults);
  const atOnce = Math.min(batchSize, resumedAtOnce);
  /** What goes on is waited for no longer than one interval: other attempts die meanwhile. */
  const goingOn = new Set<Promise<unknown>>();
  const service = createService(runtime, {
    name: "lease-rescuer",
    intervalMs,
    async runOnce(signal) {
      const ended = await runtime.store.endedLeases(batchSize);
      let rescued = 0;
      for (const lease of ended) {
        if (signal.aborted) break;
        if (await tried(runtime, () => rescue(runtime, lease))) rescued += 1;
      }
      const started = await resumable(runtime, atOnce - goingOn.size);
      const runs = started.map((record) => {
        const run = resumeOne(runtime, record).finally(() => goingOn.delete(run));
        goingOn.add(run);
        return run;
      });
      const ran = await withLimit(runtime.ports.clock, intervalMs, () => Promise.all(runs));
      const resumed = ran.kind === "returned" ? ran.value.filter((done) => done).length : runs.length;
      return { found: ended.length, rescued, resumed };
    },
    hasMore: ({ found, rescued, resumed }) => (rescued > 0 && found >= batchSize) || resumed >= atOnce,
  });
  return {
    ...service,
    async stop() {
      await service.stop();
      await Promise.all(goingOn);
    },
  };
}

/** One record that cannot be written must not keep the others waiting. */
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
  // The store lists only leases past their end, so the third reason is what is left.
  const because = giveUpReason(record, ended, record.leaseEndsAt) ?? "past-expiry";
  const afterMs = await reconcileAfter(runtime, record, because);
  const done = await runtime.store.giveUp(record, guardOf(record), because, afterMs);
  if (done) {
    const about = runtime.about(record.operation, record);
    runtime.emit({ ...about, type: "lease_rescued", recordId: record.id, because });
  }
  return done;
}

/** A process that does not know the operation leaves it to one that does: what owns its work has an input. */
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

async function resumable<Tx>(runtime: Runtime<Tx>, limit: number): Promise<readonly LatchkeyRecord[]> {
  const names = [...runtime.operations.values()]
    .filter((operation) => leasedOperation(operation) !== null)
    .map(({ name }) => name);
  if (names.length === 0 || limit <= 0) return [];
  return runtime.store.settlement.resumable(names, limit);
}

/** What the work throws has been reported as its attempt's. */
async function resumeOne<Tx>(runtime: Runtime<Tx>, record: LatchkeyRecord): Promise<boolean> {
  try {
    return (await resumeOwned(runtime, record)) !== null;
  } catch (error) {
    runtime.emit({ type: "service_error", service: "lease-rescuer", error });
    return true;
  }
}
