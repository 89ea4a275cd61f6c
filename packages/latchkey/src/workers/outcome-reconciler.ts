import { guardOf, type UnknownRecord } from "../engine/record.ts";
import { noteLookUp } from "../execution/facts.ts";
import type { Runtime } from "../execution/runtime.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { ClaimedUnknown } from "../stores/settlement.ts";
import { workerPauseMs } from "../time/retry-pause.ts";
import { askAbout, type Found } from "./look-up-outcome.ts";
import {
  createService,
  type LookingService,
  resolveServiceOptions,
  type Served,
  type Service,
  type ServiceOptions,
} from "./service.ts";

export interface ReconcileReport {
  /** Unknown records that were due. */
  readonly found: number;
  /** Those of them that were settled. */
  readonly settled: number;
  /** To be looked up again later. */
  readonly postponed: number;
  /** Left to a person. */
  readonly deadLettered: number;
}

export interface ReconcilerOptions extends ServiceOptions {
  /** How many look-ups a record gets before it is left to a person. Default 20: about 9 hours. */
  readonly triesMax?: number;
}

const reconcilerOptionNames = {
  intervalMs: true,
  batchSize: true,
  triesMax: true,
} as const satisfies OptionNames<ReconcilerOptions>;
const defaults = { intervalMs: 5_000, batchSize: 20 };
/** Three times two look-ups with their default limits. */
const claimMs = 60_000;

/**
 * The outcome reconciler: looks up the outcome of unknown records and settles them once it is certain. The others stay unknown,
 * are looked up again after growing pauses, and are finally left to a person.
 */
export function outcomeReconciler<Tx>(
  latchkey: Served<Tx>,
  options: ReconcilerOptions = {},
): Service<ReconcileReport> {
  return createReconciler(latchkey.runtime, options);
}

/** The same, for a worker. */
export function createReconciler<Tx>(
  runtime: Runtime<Tx>,
  options: ReconcilerOptions,
): LookingService<ReconcileReport> {
  checkOptions("outcome-reconciler", options, reconcilerOptionNames);
  const { triesMax = 20, ...others } = options;
  const { intervalMs, batchSize } = resolveServiceOptions("outcome-reconciler", others, defaults);
  if (!Number.isSafeInteger(triesMax) || triesMax <= 0) {
    throw new TypeError(`outcome-reconciler: triesMax must be a positive whole number (got ${triesMax})`);
  }
  const begin = async () => {
    const names = [...runtime.operations.keys()];
    const claimed =
      names.length === 0 ? [] : await runtime.store.settlement.claimUnknowns(names, batchSize, claimMs);
    return claimed.map((claim) => reconcile(runtime, claim, triesMax));
  };
  const service = createService(runtime, {
    name: "outcome-reconciler",
    intervalMs,
    runOnce: async () => reportOf(await Promise.all(await begin())),
    hasMore: (report) => report.found >= batchSize,
  });
  const underWay = new Set<Promise<unknown>>();
  return {
    ...service,
    intervalMs,
    nothing: reportOf([]),
    async look() {
      // One batch at a time: records claimed beyond it would only wait.
      const runs = underWay.size > 0 ? [] : await begin();
      const begun = runs.map((run) => {
        const over = run.then((end) => reportOf([end])).finally(() => underWay.delete(over));
        underWay.add(over);
        return over;
      });
      return { done: {}, begun, mayHaveMore: false, waitMs: null };
    },
    onCapacity() {},
    async stop() {
      await service.stop();
      await Promise.all(underWay);
    },
  };
}

function reportOf(ends: readonly End[]): ReconcileReport {
  const count = (end: End) => ends.filter((one) => one === end).length;
  return {
    found: ends.length,
    settled: count("settled"),
    postponed: count("postponed"),
    deadLettered: count("dead_letter"),
  };
}

type End = "settled" | "postponed" | "dead_letter" | "met";

/** Never rejects, so that one failure does not delay the others. The claim runs out, and the record is tried again. */
async function reconcile<Tx>(runtime: Runtime<Tx>, claim: ClaimedUnknown, triesMax: number): Promise<End> {
  const { record } = claim;
  const about = { ...runtime.about(record.operation, record), recordId: record.id };
  try {
    const found = await askInSpan(runtime, claim).then(
      (one) => noted(runtime, record, one),
      (error: unknown): Found => {
        runtime.emit({ ...about, type: "reconcile_failed", error });
        noteLookUp(runtime, record, "failed");
        return { kind: "ask_later" };
      },
    );
    return await act(runtime, claim, found, triesMax);
  } catch (error) {
    runtime.emit({ ...about, type: "reconcile_failed", error });
    return "met";
  }
}

function noted<Tx>(runtime: Runtime<Tx>, record: UnknownRecord, found: Found): Found {
  if (found.kind === "settle") noteLookUp(runtime, record, found.settlement.event, found.proof);
  else if (found.kind === "person") noteLookUp(runtime, record, found.kind, found.because);
  else if (found.kind === "ask_later") noteLookUp(runtime, record, found.kind);
  return found;
}

/** Looks up in a new trace, linked to the attempt that began the unknown life. */
function askInSpan<Tx>(runtime: Runtime<Tx>, { record, tries }: ClaimedUnknown): Promise<Found> {
  const { tracing } = runtime;
  if (tracing === null) return askAbout(runtime, record);
  const attributes = {
    "latchkey.operation": record.operation,
    "latchkey.record.id": record.id,
    "latchkey.state": record.state,
    "latchkey.tries": tries,
  };
  const links = [record.trace];
  const start = {
    name: `look up ${record.operation}`,
    kind: "internal",
    attributes,
    links,
    root: true,
  } as const;
  return tracing.inSpan(start, async (span) => {
    const found = await askAbout(runtime, record);
    span.set({ "latchkey.found": found.kind });
    return found;
  });
}

async function act<Tx>(
  runtime: Runtime<Tx>,
  { record, tries }: ClaimedUnknown,
  found: Found,
  triesMax: number,
): Promise<End> {
  const about = { ...runtime.about(record.operation, record), recordId: record.id };
  const { settlement } = runtime.store;
  const spent = tries >= triesMax;
  switch (found.kind) {
    case "gone":
      return "met";
    case "settle": {
      // The look-ups keep giving this result, and resuming has not helped.
      if (spent && found.mayRepeat) break;
      const note = {
        id: runtime.ports.random.uuid(runtime.ports.clock.wallMs()),
        actor: "outcome-reconciler",
        proof: found.proof,
        reason: null,
      };
      const done = await settlement.settle(record, guardOf(record), found.settlement, note);
      if (!done) return "met";
      const { actor, proof } = note;
      runtime.emit({ ...about, type: "settled", event: found.settlement.event, actor, proof });
      runtime.emit({ ...about, type: "reconcile_resolved", tries });
      return "settled";
    }
    case "ask_later": {
      if (spent) break;
      const afterMs = workerPauseMs(tries);
      if (!(await settlement.postpone(record, guardOf(record), afterMs))) return "met";
      runtime.emit({ ...about, type: "reconcile_scheduled", tries, afterMs });
      return "postponed";
    }
    case "person":
      break;
    default:
      return found satisfies never;
  }
  if (!(await settlement.postpone(record, guardOf(record), null))) return "met";
  const because = found.kind === "person" ? found.because : "tries-spent";
  runtime.emit({ ...about, type: "dead_letter", because });
  return "dead_letter";
}
