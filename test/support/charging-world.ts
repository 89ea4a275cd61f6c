/** Operations in steps that charge: several processes over one memory store, one provider and one clock. */

import type { Codec } from "../../packages/latchkey/src/codec.ts";
import type { Effect, EffectOptions } from "../../packages/latchkey/src/effects/effect.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { OwnedOperationOptions } from "../../packages/latchkey/src/operations/owned-operation.ts";
import type { Run, RunAnswer, StepAttempt } from "../../packages/latchkey/src/operations/owned-work.ts";
import type { Random } from "../../packages/latchkey/src/ports.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { leaseRescuer } from "../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../packages/latchkey/src/workers/outcome-reconciler.ts";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type EffectKind,
  type SendFault,
} from "./downstream-ledger.ts";
import { manualPorts } from "./manual-ports.ts";

export type Tx = MemoryTransaction;
export type Options = Partial<OwnedOperationOptions<ChargeInput, Tx, "lease">>;
export type Attempt = StepAttempt<Tx>;
export const key = { tenant: "t", scope: "charge", key: "k" };
export const request = { tenant: "t", key: "k", input: { amount: 5 } };
export const leaseMs = 3_000;

export interface Setting {
  readonly kind?: EffectKind;
  readonly effect?: Partial<EffectOptions<ChargeInput, Charge>>;
  readonly options?: Options;
  readonly codec?: Codec;
  readonly wrap?: (store: Store<Tx>) => Partial<Store<Tx>>;
  readonly random?: Partial<Random>;
}

/** Several processes over one store, one provider and one clock. */
export function setUp(setting: Setting = {}) {
  const { kind = "provider" } = setting;
  const ports = manualPorts(setting.random);
  const memory = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: kind === "provider" });
  const events: LatchkeyEvent[] = [];
  const sends: SendFault[] = [];
  const start = (run: Run<ChargeInput, Tx, "lease">, more: Setting = {}) => {
    const wrap = more.wrap ?? setting.wrap;
    const latchkey = createLatchkey<Tx>({
      store: { ...memory, ...wrap?.(memory) },
      ports,
      ...(setting.codec === undefined ? {} : { codec: setting.codec }),
      onEvent: (event) => events.push(event),
      logSecret: "secret",
    });
    const effect = {
      ...chargeEffect(ledger, kind, () => sends.shift() ?? "proceed"),
      ...setting.effect,
      ...more.effect,
    };
    const charge: Charging = latchkey.effect("charge", effect);
    const operation = latchkey.operation("charge", {
      execution: "lease",
      leaseEnd: "resume",
      leaseMs,
      version: "1",
      run,
      ...setting.options,
      ...more.options,
    });
    const submit = () => latchkey.run(operation, request);
    return {
      latchkey,
      charge,
      operation,
      submit,
      rescuer: leaseRescuer(latchkey),
      reconciler: outcomeReconciler(latchkey),
    };
  };
  const record = async () => (await memory.read(key)).record;
  const journal = async () => {
    const there = await record();
    return there === null ? null : memory.journal.read(key, there.id);
  };
  const types = () => events.map(({ type }) => type);
  /** Runs `task` while time passes. */
  const inTime = async <T>(task: Promise<T>, ms = 30_000): Promise<T> => {
    const settled = task.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    await ports.clock.advance(ms);
    const ended = await Promise.race([settled, new Promise<null>((resolve) => setImmediate(resolve, null))]);
    if (ended === null) throw new Error("It did not end in time");
    if ("error" in ended) throw ended.error;
    return ended.value;
  };
  return { ports, memory, ledger, events, sends, start, record, journal, types, inTime };
}

export type Charging = Effect<ChargeInput, Charge>;
export type Work = (attempt: Attempt, charge: Charging, input: ChargeInput) => Promise<RunAnswer>;

/** A process whose `run` receives its own effect. */
export function processOf(world: ReturnType<typeof setUp>, work: Work, more: Setting = {}) {
  const started = world.start((input, attempt) => work(attempt, started.charge, input), more);
  return started;
}

/** Phase, call, last phase. */
export const threeSteps: Work = async (attempt, effect, { amount }) => {
  const orderId = await attempt.phase("order", async (tx) => {
    await tx.insert("orders", { amount });
    return "order-1";
  });
  const charge = await attempt.call("charged", effect, { amount });
  return attempt.finish("settled", async (tx) => {
    await tx.insert("settled", { orderId, charge: charge.id });
    return { status: 201, body: { orderId, chargeId: charge.id } };
  });
};

export const never = () => new Promise<never>(() => {});

/** A process whose writes no longer arrive once it has begun a step. */
export const gone: Setting = {
  wrap: (store) => ({ renew: never, end: never, journal: { ...store.journal, endCall: never } }),
};

/** Renewals never return. */
export const frozen = { wrap: () => ({ renew: () => new Promise<boolean>(() => {}) }) };
