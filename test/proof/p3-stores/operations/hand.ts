/** Processes over one store, one after the other: where one dies, the next begins. */
import type { Effect } from "../../../../packages/latchkey/src/effects/effect.ts";
import { createLatchkey, type Latchkey } from "../../../../packages/latchkey/src/latchkey.ts";
import type { Operation } from "../../../../packages/latchkey/src/operations/operation.ts";
import type { Store } from "../../../../packages/latchkey/src/stores/store.ts";
import { type Fault, faultyStore, type StorePort } from "../../../../packages/latchkey/src/testing/index.ts";
import { effectDispatcher } from "../../../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { leaseRescuer } from "../../../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../../../packages/latchkey/src/workers/outcome-reconciler.ts";
import { createPendingWork } from "../../../../packages/latchkey/src/workers/pending-work.ts";
import { recordCleaner } from "../../../../packages/latchkey/src/workers/record-cleaner.ts";
import { CountedRandom } from "../../p4-statements/process-ports.ts";
import type { Subject } from "../bench.ts";
import { Acts } from "./acts.ts";
import { type Charge, Downstream, type SendInput } from "./downstream.ts";
import { ProcessClock } from "./process-clock.ts";

export const services = ["rescuer", "reconciler", "dispatcher", "worker", "cleaner"] as const;
export type ServiceName = (typeof services)[number];

/** How the other side can be asked about its effect. */
export type EffectKind = "provider" | "close" | "reopen" | "lookup" | "none";

/** What happens to one call of a step on its store. */
export interface PlannedFault {
  /** From 1. */
  readonly call: number;
  readonly fault: Extract<Fault, string>;
}

export interface Process {
  readonly latchkey: Latchkey<unknown>;
  readonly operations: Map<string, Operation>;
  readonly effects: Map<string, Effect<SendInput, Charge>>;
  readonly services: Readonly<Record<ServiceName, { runOnce(): Promise<unknown> }>>;
}

interface Living extends Process {
  readonly clock: ProcessClock;
  readonly kill: () => void;
}

/** Everything that is done on one store. */
export class Hand {
  readonly on: Subject;
  readonly downstream: Downstream;
  readonly kind: EffectKind;
  acts = new Acts([]);
  /** The port that the planned fault of this step has met. */
  met: StorePort | null = null;
  readonly #nowMs: () => number;
  readonly #define: (hand: Hand, process: Process) => void;
  readonly #open = new Set<Promise<unknown>>();
  readonly #store: Store<unknown>;
  #process: Living | null = null;
  #begun = 0;
  #calls = 0;
  #planned: PlannedFault | null = null;
  #death = Promise.withResolvers<void>();

  constructor(
    on: Subject,
    kind: EffectKind,
    nowMs: () => number,
    define: (hand: Hand, process: Process) => void,
  ) {
    this.on = on;
    this.kind = kind;
    this.downstream = new Downstream(kind === "provider");
    this.#nowMs = nowMs;
    this.#define = define;
    // Without facts: they are written a second later, in the background, so chance would say which call the planned one is.
    const { transactions, journal, settlement, outbox, facts: _, ...calls } = on.store;
    this.#store = {
      ...this.#tracked(calls),
      transactions: transactions && this.#tracked(transactions),
      journal: this.#tracked(journal),
      settlement: this.#tracked(settlement),
      outbox: outbox && this.#tracked(outbox),
    };
  }

  /** One step: what it comes to, or that its process has died. */
  async step(
    acts: Acts,
    planned: PlannedFault | null,
    act: (process: Process) => Promise<unknown>,
  ): Promise<unknown> {
    this.acts = acts;
    this.#calls = 0;
    this.#planned = planned;
    this.met = null;
    this.#death = Promise.withResolvers();
    this.#process ??= this.#begin();
    const died = this.#death.promise.then(() => ({ kind: "died" }));
    const result = await Promise.race([act(this.#process), died]);
    // Its connections are ended before anybody else comes.
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
    return result;
  }

  /** The process ends here: what awaits this never goes on. */
  die(): Promise<never> {
    this.#end();
    return new Promise(() => {});
  }

  close(): void {
    this.#end();
  }

  #end(): void {
    this.#process?.clock.stop();
    this.#process?.kill();
    this.#process = null;
    this.#death.resolve();
  }

  #begin(): Living {
    this.#begun += 1;
    const clock = new ProcessClock(this.#nowMs);
    const { store, kill } = faultyStore(this.#store, (call) => this.#faultOf(call.port));
    const ports = { clock, random: new CountedRandom(this.#begun) };
    const latchkey = createLatchkey<unknown>({ store, ports, circuitBreaker: false, logSecret: "p3" });
    const process: Living = {
      latchkey,
      operations: new Map(),
      effects: new Map(),
      services: servicesOf(latchkey),
      clock,
      kill,
    };
    this.#define(this, process);
    return process;
  }

  #faultOf(port: StorePort): Fault {
    if (port === "sendHint") return "proceed";
    this.#calls += 1;
    if (this.#planned?.call !== this.#calls) return "proceed";
    const { fault } = this.#planned;
    this.met = port;
    const doomed = this.#process;
    // By then the call is on its way, or never will be.
    if (fault.startsWith("crash")) setImmediate(() => this.#process === doomed && this.#end());
    return fault;
  }

  /** Calls that are under way, whoever waits for them. */
  #tracked<Port extends object>(port: Port): Port {
    const entries = Object.entries(port).map(([name, member]: [string, unknown]) => {
      if (typeof member !== "function") return [name, member];
      return [name, (...given: unknown[]) => this.#track(member(...given))];
    });
    return Object.fromEntries(entries);
  }

  #track<T>(running: T): T {
    if (!(running instanceof Promise)) return running;
    this.#open.add(running);
    const over = () => this.#open.delete(running);
    running.then(over, over);
    return running;
  }
}

function servicesOf(latchkey: Latchkey<unknown>): Process["services"] {
  return {
    // One at a time: where one of several dies, how far the others have come is chance; and which of two that are due
    // at the same moment comes first.
    rescuer: leaseRescuer(latchkey, { batchSize: 1 }),
    reconciler: outcomeReconciler(latchkey, { triesMax: 3, batchSize: 1 }),
    dispatcher: effectDispatcher(latchkey, { batchSize: 16 }),
    worker: createPendingWork(latchkey.runtime, { intervalMs: 1_000, concurrency: 1 }),
    cleaner: recordCleaner(latchkey),
  };
}
