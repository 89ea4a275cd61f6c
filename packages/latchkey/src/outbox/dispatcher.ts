/** The deliveries in flight in one dispatcher: it claims as many effects as it has capacity for, and starts them. */

import { type AnyEffect, semaphoreOf } from "../effects/run-effect.ts";
import type { Semaphore } from "../effects/semaphore.ts";
import type { Runtime } from "../execution/runtime.ts";
import type { EffectClaim, EffectWant, OutboxSupport } from "../stores/outbox.ts";
import type { TransactionSupport } from "../stores/transactions.ts";
import { type Batches, createBatches, createPartedBatches } from "./batches.ts";
import { type Claimed, claimAll } from "./claim.ts";
import { crashSuspectsOf, isSuspect } from "./crash-suspects.ts";
import { deliver } from "./deliver.ts";
import { type Deliveries, type DeliveryResult, leaseMsOf, startsWithClaim, stateBefore } from "./delivery.ts";
import { fairShare } from "./fair-share.ts";
import { type Rate, rateOf } from "./rate.ts";
import { createStoreTime } from "./store-time.ts";

/** The state kept for one definition. */
interface DispatchedEffect {
  readonly effect: AnyEffect;
  readonly semaphore: Semaphore | null;
  readonly rate: Rate | null;
  inFlight: number;
  hasBacklog: boolean;
}

/** One claim for each permit that is released would cost more than everything else; a rate releases its permits gradually. */
function shouldClaim(dispatched: DispatchedEffect | undefined, share: number): boolean {
  if (dispatched === undefined || !dispatched.hasBacklog) return false;
  return dispatched.rate !== null || share * 3 >= dispatched.inFlight;
}

/**
 * Whether a returned send passes its permits to the next one before its result is written. Only with `provider`: if the process
 * dies and loses the results, the sends are repeated, which is harmless there.
 */
function leavesOnReturn({ settings }: AnyEffect): boolean {
  return settings.deduplication === "provider" && settings.onDelivered === null;
}

interface Want extends EffectWant {
  readonly starts: boolean;
  readonly dispatched: DispatchedEffect;
  /** How many of its permits no delivery has: those of the semaphore, and as many of the rate. */
  unused: number;
}

export class Dispatcher<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #outbox: OutboxSupport;
  readonly #size: number;
  readonly #wake: () => void;
  readonly #all: Deliveries<Tx>;
  readonly #dispatched = new Map<string, DispatchedEffect>();
  #underWay = 0;
  /** Resolves when no delivery is in flight; null if `whenIdle` has not been called since. */
  #idle: PromiseWithResolvers<void> | null = null;
  /** How many of the deliveries in flight have returned and released their permits. */
  #unwritten = 0;
  #turn = 0;
  #stopping = false;
  #looking = false;

  /** @param wake called when effects that exceeded the capacity may now be claimed */
  constructor(
    runtime: Runtime<Tx>,
    outbox: OutboxSupport,
    transactions: TransactionSupport<Tx>,
    { size, wake }: { readonly size: number; readonly wake: () => void },
  ) {
    this.#runtime = runtime;
    this.#outbox = outbox;
    this.#size = size;
    this.#wake = wake;
    const { clock } = runtime.ports;
    const starts = new Map<number, Batches<EffectClaim>>();
    const batched = <Item extends { readonly id: string }>(
      write: (items: readonly Item[]) => Promise<readonly string[]>,
    ) =>
      outbox.partOf === undefined
        ? createBatches(clock, write)
        : createPartedBatches(
            (id) => outbox.partOf?.(id),
            () => createBatches(clock, write),
          );
    this.#all = {
      runtime,
      outbox,
      transactions,
      ends: batched((ends) => outbox.end(ends)),
      starts(leaseMs) {
        const batches = starts.get(leaseMs) ?? batched((claims) => outbox.start(claims, leaseMs));
        starts.set(leaseMs, batches);
        return batches;
      },
      storeTime: createStoreTime(clock, (key) => runtime.store.read(key)),
      suspects: crashSuspectsOf(runtime, clock),
      stopping: () => this.#stopping,
    };
  }

  /** When true, no delivery begins: effects that are still claimed are given back. */
  setStopping(stopping: boolean): void {
    this.#stopping = stopping;
  }

  /** Resolves when no delivery is in flight. */
  async whenIdle(): Promise<void> {
    if (this.#underWay === 0) return;
    this.#idle ??= Promise.withResolvers();
    await this.#idle.promise;
  }

  /** True while there is enough capacity for a claim and an effect may be due. */
  get hasMore(): boolean {
    const effects = this.#known();
    return this.#shares(effects).some((share, at) => share > 0 && shouldClaim(effects[at], share));
  }

  /** How long until capacity or a turn is available for an effect that may be due; null if nothing waits. */
  get waitMs(): number | null {
    const waits = [this.#rateWaitMs, this.#all.suspects.untilBackMs()].filter((waitMs) => waitMs !== null);
    return waits.length === 0 ? null : Math.min(...waits);
  }

  /** How long until a rate permits an effect that may be due; null if no rate blocks one. */
  get #rateWaitMs(): number | null {
    const waits = this.#known()
      .filter(({ hasBacklog }) => hasBacklog)
      .map(({ rate }) => rate?.untilCapacityMs() ?? 0)
      .filter((waitMs) => waitMs > 0);
    return waits.length === 0 ? null : Math.min(...waits);
  }

  /**
   * Claims once, and starts to deliver the claimed effects.
   *
   * @param most per definition; several claims that overlap with each other's sends are faster than one large claim
   * @throws {StoreError} when the store cannot be used.
   */
  async claim(most = this.#size): Promise<readonly Promise<DeliveryResult>[]> {
    if (this.#stopping) return [];
    const byLease = Map.groupBy(this.#wants(most), ({ dispatched }) => leaseMsOf(dispatched.effect));
    const pages = [...byLease].map(([leaseMs, wants]) => this.#claimPage(leaseMs, wants));
    const begun: Promise<DeliveryResult>[] = [];
    let failure: { readonly error: unknown } | null = null;
    for (const page of await Promise.allSettled(pages)) {
      if (page.status === "fulfilled") begun.push(...page.value);
      else failure = { error: page.reason };
    }
    if (failure !== null && begun.length === 0) throw failure.error;
    return begun;
  }

  async #claimPage(leaseMs: number, wants: readonly Want[]): Promise<readonly Promise<DeliveryResult>[]> {
    const runtime = this.#runtime;
    try {
      const asked = wants.map(({ effect, limit, starts }) => ({ effect, limit, starts }));
      const claimed = await claimAll({ runtime, outbox: this.#outbox, leaseMs }, asked);
      for (const { dispatched, effect, limit } of wants) {
        dispatched.hasBacklog = claimed.filter(({ row }) => row.effect === effect).length >= limit;
      }
      return claimed.flatMap((one) => this.#begin(one, wants) ?? []);
    } finally {
      for (const { dispatched, unused } of wants) this.#giveBack(dispatched, unused, unused);
    }
  }

  #begin({ row, ownedUntilMs }: Claimed, wants: readonly Want[]): Promise<DeliveryResult> | null {
    const want = wants.find(({ effect }) => effect === row.effect);
    // The store returned more rows than requested: this one waits until its lease ends.
    if (want === undefined || want.unused === 0) return null;
    want.unused -= 1;
    const { dispatched } = want;
    const { effect } = dispatched;
    const before = stateBefore(row);
    let unbegun = 1;
    let isFree = false;
    const onReturn = () => {
      if (isFree || !leavesOnReturn(effect)) return;
      isFree = true;
      this.#giveBack(dispatched, 1, unbegun);
      this.#unwritten += 1;
      if (dispatched.hasBacklog) this.#look();
    };
    const leave = () => {
      if (isFree) this.#unwritten -= 1;
      else this.#giveBack(dispatched, 1, unbegun);
      this.#ended();
    };
    const onFailure = (error: unknown): never => {
      leave();
      throw error;
    };
    const delivery = deliver({
      all: this.#all,
      row,
      before,
      unsent: row.state === "started",
      effect,
      ownedUntilMs,
      onSend() {
        unbegun = 0;
        dispatched.rate?.begin();
      },
      onReturn,
    }).then((result) => {
      leave();
      const goesOn = result === "reopened" || (row.ordered && result === "delivered");
      // For the next look, which also makes sure that effects that were given back are claimed again in time.
      const waits = result === "given_back" && isSuspect(before);
      if (goesOn || waits) this.#wake();
      else if (dispatched.hasBacklog) this.#look();
      return result;
    }, onFailure);
    this.#underWay += 1;
    return delivery;
  }

  #ended(): void {
    this.#underWay -= 1;
    if (this.#underWay > 0) return;
    this.#idle?.resolve();
    this.#idle = null;
  }

  /** Many deliveries end at once: their capacity is counted once. */
  #look(): void {
    if (this.#looking) return;
    this.#looking = true;
    queueMicrotask(() => {
      this.#looking = false;
      // If a rate blocks, the next look waits for it.
      if (this.hasMore || this.#rateWaitMs !== null) this.#wake();
    });
  }

  #wants(most: number): readonly Want[] {
    const effects = this.#known();
    const shares = this.#shares(effects);
    this.#turn += 1;
    const wants: Want[] = [];
    for (const [at, dispatched] of effects.entries()) {
      const { effect, semaphore, rate } = dispatched;
      const share = Math.min(most, shares[at] ?? 0);
      const limit = semaphore?.takeFree(share) ?? share;
      if (limit === 0) continue;
      rate?.take(limit);
      dispatched.inFlight += limit;
      const starts = startsWithClaim(effect);
      wants.push({ effect: effect.name, limit, starts, dispatched, unused: limit });
    }
    return wants;
  }

  #shares(effects: readonly DispatchedEffect[]): readonly number[] {
    const capacities = effects.map(({ semaphore, rate, inFlight, hasBacklog }) => ({
      own: Math.min(this.#size, semaphore?.free() ?? this.#size, rate?.capacity() ?? this.#size),
      inFlight,
      hasBacklog,
    }));
    // As many more may wait for their results to be written.
    return fairShare(Math.min(this.#size, 2 * this.#size - this.#unwritten), capacities, this.#turn);
  }

  /** @param unbegun how many of these deliveries did not begin a send: a send keeps its permit of the rate for its second */
  #giveBack(dispatched: DispatchedEffect, count: number, unbegun: number): void {
    dispatched.inFlight -= count;
    dispatched.semaphore?.giveBack(count);
    dispatched.rate?.giveBack(unbegun);
  }

  /** Effects may be defined after the dispatcher is created. */
  #known(): readonly DispatchedEffect[] {
    for (const [name, effect] of this.#runtime.effects) {
      if (this.#dispatched.has(name)) continue;
      const rate = rateOf(effect, this.#runtime.ports.clock);
      const semaphore = semaphoreOf(effect);
      this.#dispatched.set(name, { effect, semaphore, rate, inFlight: 0, hasBacklog: false });
    }
    return [...this.#dispatched.values()];
  }
}
