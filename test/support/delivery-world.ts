/** One store with an outbox, a provider with a ledger, and as many processes as a test wants. */

import { type Codec, identityCodec } from "../../packages/latchkey/src/codec.ts";
import type { EffectOptions } from "../../packages/latchkey/src/index.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { EnqueueOptions } from "../../packages/latchkey/src/operations/attempt.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import type { FaultPlan } from "../../packages/latchkey/src/testing/faulty-store/fault.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/faulty-store.ts";
import { effectDispatcher } from "../../packages/latchkey/src/workers/effect-dispatcher.ts";
import type { ServiceOptions } from "../../packages/latchkey/src/workers/service.ts";
import {
  type Charge,
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type EffectKind,
  type SendFault,
} from "./downstream-ledger.ts";
import { type ManualPorts, manualPorts } from "./manual-ports.ts";

export type ChargeOptions = Partial<EffectOptions<ChargeInput, Charge, MemoryTransaction>>;

export interface ProcessOptions {
  /** A separate clock, for a process that is frozen while time passes. */
  readonly ports?: ManualPorts;
  /** The result of each call to the store. Default: nothing unusual. */
  readonly plan?: FaultPlan;
  /** The result of each send. Default: it proceeds. */
  readonly send?: () => SendFault | Promise<SendFault>;
  readonly effect?: ChargeOptions;
  /** The store as this process sees it. */
  readonly wrap?: (store: Store<MemoryTransaction>) => Store<MemoryTransaction>;
  readonly codec?: Codec;
  readonly dispatcher?: ServiceOptions;
}

export function deliveryWorld(kind: EffectKind) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const ledger = new DownstreamLedger({ deduplicates: kind === "provider" });
  const events: LatchkeyEvent[] = [];

  /** Starts a process; `kill` ends it: nothing that it does afterwards has an effect. */
  const start = (options: ProcessOptions = {}) => {
    const { plan = () => "proceed", send, effect = {}, dispatcher = {}, codec = identityCodec } = options;
    const faulty = faultyStore(store, plan);
    const latchkey = createLatchkey<MemoryTransaction>({
      store: options.wrap?.(faulty.store) ?? faulty.store,
      codec,
      ports: options.ports ?? ports,
      circuitBreaker: false,
      onEvent: (event) => events.push(event),
    });
    const charge = latchkey.effect<ChargeInput, Charge>("charge", {
      ...chargeEffect(ledger, kind, send, faulty.kill),
      ...effect,
    });
    return { latchkey, charge, kill: faulty.kill, dispatcher: effectDispatcher(latchkey, dispatcher) };
  };

  let orders = 0;
  const shop = start();
  const order = shop.latchkey.operation("order");
  const orderedShop = start({ effect: { delivery: { ordered: true } } });
  const orderedOrder = orderedShop.latchkey.operation("order");
  const commit = async (
    { latchkey, charge }: typeof shop,
    operation: typeof order,
    amount: number,
    options: EnqueueOptions,
  ) => {
    orders += 1;
    const request = { tenant: "t", key: `k${orders}`, input: { amount } };
    await latchkey.run(operation, request, async ({ tx, attempt }) => {
      await tx.insert("orders", { amount });
      attempt.enqueue(charge, { amount }, options);
    });
  };
  /** Commits an order, and with it a charge of `amount`. */
  const enqueue = (amount: number, options: EnqueueOptions = {}) => commit(shop, order, amount, options);
  const enqueueOrdered = (amount: number, aggregate: string) =>
    commit(orderedShop, orderedOrder, amount, { aggregate });
  const { outbox } = store;
  if (outbox === null) throw new Error("The memory store has an outbox");
  const inState = (state: "pending" | "claimed" | "started" | "delivered" | "dead") =>
    outbox.list({ state, effect: null, tenant: null, limit: 1_000, after: null });
  /** All that are neither delivered nor dead. */
  const open = async () =>
    (await Promise.all([inState("pending"), inState("claimed"), inState("started")])).flat();
  return { ports, store, outbox, ledger, events, start, enqueue, enqueueOrdered, inState, open };
}

export type DeliveryWorld = ReturnType<typeof deliveryWorld>;
