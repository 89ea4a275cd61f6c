/**
 * A three-step operation (phase, call, phase) in a process that something happens to, and what others make of it
 * afterwards. The provider's ledger is outside and cannot be talked into anything.
 */
import {
  type Clock,
  createLatchkey,
  type LatchkeyRecord,
  leaseRescuer,
  type OwnedRunResult,
  outcomeReconciler,
  type Service,
  type StepAttempt,
} from "../../packages/latchkey/src/index.ts";
import type { Journal } from "../../packages/latchkey/src/stores/journal.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import { type FaultPlan, faultyStore, type StorePort } from "../../packages/latchkey/src/testing/index.ts";
import { manualPorts } from "../../packages/latchkey/src/testing/manual-ports.ts";
import {
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type EffectKind,
  type SendFault,
} from "../support/downstream-ledger.ts";

export const leaseMs = 3_000;
const key = { tenant: "t", scope: "charge", key: "k" };

export interface OwnedSetting {
  readonly kind: EffectKind;
  readonly leaseEnd: "resume" | "reconcile";
  /** The last phase completes the attempt. */
  readonly finishes: boolean;
  /** Changes the store for everybody: a mistake to be found. */
  readonly plant?: (store: Store<MemoryTransaction>) => Partial<Store<MemoryTransaction>>;
}

export interface ProcessOptions {
  readonly plan?: FaultPlan;
  readonly send?: (number: number) => SendFault | Promise<SendFault>;
  /** The process's own clock, for one that is frozen. Default: the world's. */
  readonly clock?: Clock;
}

export class OwnedWorld {
  readonly setting: OwnedSetting;
  readonly ports = manualPorts();
  readonly memory = memoryStore({ ports: this.ports });
  readonly ledger: DownstreamLedger;
  /** What clients were told. */
  readonly results: OwnedRunResult[] = [];
  /** Inputs by downstream key: every send of one key carries the same. */
  readonly sent = new Map<string, string>();
  changedInputs = 0;
  /** How often a phase's work was committed, by its name. */
  readonly phases = () => ({
    orders: this.memory.rows("orders").length,
    ends: this.memory.rows("ends").length,
  });

  constructor(setting: OwnedSetting) {
    this.setting = setting;
    this.ledger = new DownstreamLedger({ deduplicates: setting.kind === "provider" });
  }

  /** A process: its store calls go by `plan`, its sends by `send`. */
  process({ plan = () => "proceed", send = () => "proceed", clock }: ProcessOptions = {}) {
    const { kind, leaseEnd, plant } = this.setting;
    const store = { ...this.memory, ...plant?.(this.memory) };
    const faulty = faultyStore<MemoryTransaction>(store, plan);
    const latchkey = createLatchkey<MemoryTransaction>({
      store: faulty.store,
      ports: { random: this.ports.random, clock: clock ?? this.ports.clock },
      circuitBreaker: false,
    });
    let sends = 0;
    const options = chargeEffect(this.ledger, kind, () => send(++sends), faulty.kill);
    const effect = latchkey.effect("charge", {
      ...options,
      execute: (input, call) => {
        const text = JSON.stringify(input);
        if ((this.sent.get(call.key) ?? text) !== text) this.changedInputs += 1;
        this.sent.set(call.key, text);
        return options.execute(input, call);
      },
    });
    const operation = latchkey.operation("charge", {
      execution: "lease",
      leaseEnd,
      leaseMs,
      attemptsMax: 10,
      version: "1",
      run: async ({ amount }: ChargeInput, attempt: StepAttempt<MemoryTransaction>) => {
        const orderId = await attempt.phase("order_recorded", async (tx) => {
          await tx.insert("orders", { amount });
          return attempt.id;
        });
        const { id } = await attempt.call("charged", effect, { amount });
        const answer = { status: 201, body: { orderId, chargeId: id } };
        const end = async (tx: MemoryTransaction) => tx.insert("ends", { orderId, id });
        if (this.setting.finishes) return attempt.finish("settled", (tx) => end(tx).then(() => answer));
        await attempt.phase("settled", end);
        return answer;
      },
    });
    const submit = async () => {
      const request = { tenant: key.tenant, key: key.key, input: { amount: 5 } };
      const result = await latchkey.run(operation, request);
      this.results.push(result);
      return result;
    };
    const workers: readonly Pick<Service<unknown>, "runOnce">[] = [
      leaseRescuer(latchkey),
      outcomeReconciler(latchkey),
    ];
    return { submit, workers, kill: faulty.kill, latchkey };
  }

  async record(): Promise<LatchkeyRecord | null> {
    return (await this.memory.read(key)).record;
  }

  async journal(): Promise<Journal | null> {
    const record = await this.record();
    return record && this.memory.journal.read(key, record.id);
  }

  audit() {
    return this.memory.settlement.audit(key);
  }

  /** Lets `task` run while time goes on, for at most `ms`; null: it has not ended by then. */
  async within<T>(task: Promise<T>, ms: number): Promise<T | Error | null> {
    const ended = task.catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
    let left = ms;
    for (;;) {
      const done = await Promise.race([ended, new Promise<null>((resolve) => setImmediate(resolve, null))]);
      if (done !== null || left <= 0) return done;
      const step = Math.min(left, 100);
      left -= step;
      await this.ports.clock.advance(step);
    }
  }

  /** Workers run for this long, each of their rounds a second after the one before. */
  async work(process: ReturnType<OwnedWorld["process"]>, rounds: number): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      for (const worker of process.workers) await this.within(worker.runOnce(), 10_000);
      await this.ports.clock.advance(1_000);
    }
  }
}

/** What happened before a call, after it, on its way there or back. */
export const mishaps = ["crash_before", "crash_after", "request_lost", "reply_lost"] as const;
export type Mishap = (typeof mishaps)[number];

/** Plans one mishap for the call with this number; renewals are not counted. */
export function mishapAt(
  number: number,
  mishap: Mishap,
): { readonly plan: FaultPlan; readonly met: () => StorePort | null } {
  let calls = 0;
  let met: StorePort | null = null;
  const plan: FaultPlan = ({ port }) => {
    if (port === "renew") return "proceed";
    calls += 1;
    if (calls !== number) return "proceed";
    met = port;
    return mishap;
  };
  return { plan, met: () => met };
}
