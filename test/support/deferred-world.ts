/** Deferred operations: processes that accept and run them, over one memory store, one provider and one clock. */

import type { Codec } from "../../packages/latchkey/src/codec.ts";
import type { Effect, EffectOptions } from "../../packages/latchkey/src/effects/effect.ts";
import { leaseTerms } from "../../packages/latchkey/src/execution/lease/admit-lease.ts";
import type { OwnedRunResult } from "../../packages/latchkey/src/execution/run-function.ts";
import { runClaimed } from "../../packages/latchkey/src/execution/steps/execute-owned.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Limits } from "../../packages/latchkey/src/operations/limits.ts";
import type { OwnedOperationOptions } from "../../packages/latchkey/src/operations/owned-operation.ts";
import type { DeferredAttempt, RunAnswer } from "../../packages/latchkey/src/operations/owned-work.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import type { FaultPlan } from "../../packages/latchkey/src/testing/faulty-store/fault.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/faulty-store.ts";
import { effectDispatcher } from "../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { leaseRescuer } from "../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../packages/latchkey/src/workers/outcome-reconciler.ts";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type SendFault,
} from "./downstream-ledger.ts";
import { type ManualClock, manualPorts } from "./manual-ports.ts";

export type Tx = MemoryTransaction;
export type Attempt = DeferredAttempt<Tx>;
type Notice = { readonly to: string };
type Options = Partial<OwnedOperationOptions<ChargeInput, Tx, "deferred">>;

export const key = { tenant: "t", scope: "report", key: "k" };
export const request = { tenant: "t", key: "k", input: { amount: 5 } };
export const leaseMs = 3_000;
export const hour = 60 * 60 * 1_000;

interface Made {
  readonly charge: Effect<ChargeInput, Charge>;
  readonly notify: Effect<Notice, Receipt>;
}
export type Work = (attempt: Attempt, made: Made, input: ChargeInput) => Promise<RunAnswer>;
interface Receipt {
  readonly receipt: string;
}

export interface Setting {
  readonly plan?: FaultPlan;
  readonly wrap?: (store: Store<Tx>) => Store<Tx>;
  readonly options?: Options;
  readonly codec?: Codec;
  readonly limits?: Limits;
  readonly notify?: Partial<EffectOptions<Notice, Receipt, Tx>>;
  readonly send?: () => SendFault;
  readonly kind?: "provider" | "none";
}

/** Processes over one store, one provider and one clock. */
export function setUp(common: Setting = {}) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: true });
  const events: LatchkeyEvent[] = [];
  const hints: string[] = [];
  const start = (work: Work, more: Setting = {}) => {
    const setting = { ...common, ...more };
    const faulty = faultyStore<Tx>(setting.wrap?.(memory) ?? memory, setting.plan ?? (() => "proceed"));
    const latchkey = createLatchkey<Tx>({
      store: faulty.store,
      ports,
      circuitBreaker: false,
      ...(setting.codec === undefined ? {} : { codec: setting.codec }),
      ...(setting.limits === undefined ? {} : { limits: setting.limits }),
      onEvent: (event) => events.push(event),
    });
    latchkey.runtime.hints.listen((hint) => hints.push(hint));
    const made: Made = {
      charge: latchkey.effect(
        "charge",
        chargeEffect(ledger, setting.kind ?? "provider", setting.send ?? (() => "proceed"), faulty.kill),
      ),
      notify: latchkey.effect<Notice, Receipt>("notify", {
        deduplication: "provider",
        dedupeWindowMs: hour,
        execute: async ({ to }) => ({ receipt: `to ${to}` }),
        onDelivered: async ({ result, answer }) => answer({ status: 201, body: result }),
        ...setting.notify,
      }),
    };
    const operation = latchkey.operation("report", {
      execution: "deferred",
      leaseMs,
      attemptsMax: 3,
      version: "1",
      run: (input: ChargeInput, attempt) => work(attempt, made, input),
      ...setting.options,
    });
    const submit = (input = request.input) => latchkey.run(operation, { ...request, input });
    const claim = () => {
      const tokens = [latchkey.runtime.ports.random.token()];
      return faulty.store.claimPending([{ operation: "report", tokens, terms: leaseTerms(operation) }]);
    };
    /** What a worker does with what is pending. */
    const workOff = async () => {
      const claimedAtMs = ports.clock.monotonicMs();
      for (const record of await claim()) {
        await runClaimed(latchkey.runtime, record, claimedAtMs).catch(() => {});
      }
    };
    const services = {
      rescuer: leaseRescuer(latchkey),
      reconciler: outcomeReconciler(latchkey),
      dispatcher: effectDispatcher(latchkey),
    };
    return { latchkey, operation, submit, claim, workOff, kill: faulty.kill, ...made, ...services };
  };
  const record = async () => (await memory.read(key)).record;
  /** Runs `task` while time passes, at most for `ms`. */
  const inTime = async <T>(task: Promise<T>, ms = 30_000): Promise<T> => {
    task.catch(() => {});
    await ports.clock.advance(ms);
    const late = new Promise<never>((_, reject) =>
      setImmediate(() => reject(new Error("It did not end in time"))),
    );
    return Promise.race([task, late]);
  };
  /** Runs the workers of a process for some rounds, a second apart, however long each round takes. */
  const workOn = async (process: ReturnType<typeof start>, rounds: number) => {
    const { workOff, rescuer, reconciler, dispatcher } = process;
    const jobs = [workOff, rescuer.runOnce, reconciler.runOnce, dispatcher.runOnce];
    for (let round = 0; round < rounds; round++) {
      for (const job of jobs) await workedOff(job, ports.clock);
      await ports.clock.advance(1_000);
    }
  };
  const typesOf = (...wanted: string[]) =>
    events.map(({ type }) => type).filter((type) => wanted.includes(type));
  return { ports, memory, ledger, events, hints, start, record, inTime, workOn, typesOf };
}

/** Lets time pass until `job` ends, with a limit: what it waits for may be dead. */
async function workedOff(job: () => Promise<unknown>, clock: ManualClock): Promise<void> {
  let over = false;
  const end = () => {
    over = true;
  };
  void job().then(end, end);
  for (let waited = 0; !over && waited < 12_000; waited += 500) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!over) await clock.advance(500);
  }
}

/** Phase, call, last phase. */
export const threeSteps: Work = async (attempt, { charge }, { amount }) => {
  await attempt.phase("order", async (tx) => tx.insert("orders", { amount }));
  const { id } = await attempt.call("charged", charge, { amount });
  return attempt.finish("settled", async (tx) => {
    await tx.insert("settled", { id });
    return { status: 201, body: { chargeId: id } };
  });
};

export const quick: Work = async (_, __, input) => ({ status: 201, body: { input } });
export const never = () => new Promise<never>(() => {});

export function recordIdOf(result: OwnedRunResult): string {
  if (result.kind !== "accepted") throw new Error(`${result.kind}, not accepted`);
  return result.recordId;
}
