/** One process of the world: a latchkey of its own, behind its own connection to the one store. */
import type { Effect } from "../../../packages/latchkey/src/effects/effect.ts";
import { TransactionBatches } from "../../../packages/latchkey/src/execution/transaction/batches.ts";
import type { Latchkey } from "../../../packages/latchkey/src/latchkey.ts";
import type { Operation } from "../../../packages/latchkey/src/operations/operation.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { effectDispatcher } from "../../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { leaseRescuer } from "../../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../../packages/latchkey/src/workers/outcome-reconciler.ts";
import { createPendingWork } from "../../../packages/latchkey/src/workers/pending-work.ts";
import { recordCleaner } from "../../../packages/latchkey/src/workers/record-cleaner.ts";
import type { SendInput } from "./downstream.ts";
import type { TimerOwner } from "./world-clock.ts";

export const serviceNames = ["rescuer", "reconciler", "dispatcher", "worker", "cleaner"] as const;
export type ServiceName = (typeof serviceNames)[number];

/** More than there ever is to do: how workers share what is too little is not looked at here. */
const roomFor = 16;

interface Runnable {
  runOnce(): Promise<unknown>;
}

export type WorldEffect = Effect<SendInput, { readonly id: number }>;

export class Process implements TimerOwner {
  readonly name: string;
  readonly calm: boolean;
  alive = true;
  frozen = false;
  /** Which services are in the middle of a round. */
  readonly running = new Set<ServiceName>();
  readonly operations = new Map<string, Operation>();
  readonly effects = new Map<string, WorldEffect>();
  readonly #batches = new Map<string, TransactionBatches<MemoryTransaction>>();
  readonly #services = new Map<ServiceName, Runnable>();
  #made: { readonly latchkey: Latchkey<MemoryTransaction>; readonly kill: () => void } | null = null;

  /** @param calm all that it does gets through at once */
  constructor(name: string, calm: boolean) {
    this.name = name;
    this.calm = calm;
  }

  get latchkey(): Latchkey<MemoryTransaction> {
    if (this.#made === null) throw new TypeError("The process has not begun");
    return this.#made.latchkey;
  }

  begin(latchkey: Latchkey<MemoryTransaction>, kill: () => void): void {
    this.#made = { latchkey, kill };
  }

  /** It sends nothing any more. */
  kill(): void {
    this.#made?.kill();
  }

  effect(name: string): WorldEffect {
    const effect = this.effects.get(name);
    if (effect === undefined) throw new TypeError(`There is no effect ${name}`);
    return effect;
  }

  /** Where requests of this operation share transactions. */
  batches(operation: Operation, size: number): TransactionBatches<MemoryTransaction> {
    const { name } = operation;
    const batches = this.#batches.get(name) ?? new TransactionBatches(this.latchkey.runtime, operation, size);
    this.#batches.set(name, batches);
    return batches;
  }

  service(name: ServiceName): Runnable {
    const known = this.#services.get(name) ?? this.#serviceOf(name);
    this.#services.set(name, known);
    return known;
  }

  #serviceOf(name: ServiceName): Runnable {
    const { latchkey } = this;
    switch (name) {
      case "rescuer":
        return leaseRescuer(latchkey);
      case "reconciler":
        return outcomeReconciler(latchkey, { triesMax: 3 });
      case "dispatcher":
        return effectDispatcher(latchkey, { batchSize: roomFor });
      case "worker":
        return createPendingWork(latchkey.runtime, { intervalMs: 1_000, concurrency: roomFor });
      case "cleaner":
        return recordCleaner(latchkey);
      default:
        return name satisfies never;
    }
  }
}
