/** The stores of a routed store, each with its own circuit breaker, and the ways to call several of them. */
import { StoreError } from "../errors.ts";
import { type Breaker, createBreaker, guardedStore } from "../execution/guards/guarded-store.ts";
import type { Clock } from "../ports.ts";
import type { Store } from "../stores/store.ts";
import type { CircuitSettings } from "../time/circuit-breaker.ts";

export interface Member<Tx> {
  /** The results of its calls move its circuit breaker. */
  readonly store: Store<Tx>;
  /**
   * Runs a call that begins new work.
   *
   * @throws {StoreError} `not_sent`, while the circuit breaker is open.
   */
  guard<T>(run: () => Promise<T>): Promise<T>;
  isOpen(): boolean;
}

export interface MembersOptions<Tx> {
  readonly route: (tenant: string) => Store<Tx>;
  readonly stores: () => readonly Store<Tx>[];
  /** @throws {TypeError} when a store does not fit the others. */
  readonly check: (store: Store<Tx>) => void;
  readonly clock: Clock;
  /** Null: no circuit breakers. */
  readonly circuit: CircuitSettings | null;
  readonly onError: (error: unknown, store: Store<Tx>) => void;
}

/** Keeps a hundred schemas on one pool from waiting for its connections all at once. */
const atOnceMax = 16;

export class Members<Tx> {
  readonly #options: MembersOptions<Tx>;
  readonly #known = new WeakMap<Store<Tx>, Member<Tx>>();
  /** Incremented by each round, so that no store is always first. */
  #turn = 0;

  constructor(options: MembersOptions<Tx>) {
    this.#options = options;
  }

  /** @throws {TypeError} when `route` returns a store that `stores` does not list. */
  of(tenant: string): Member<Tx> {
    const store = this.#options.route(tenant);
    const known = this.#known.get(store);
    if (known !== undefined) return known;
    if (!this.#options.stores().includes(store)) {
      throw new TypeError(
        "routedStore: route() returned a store that stores() does not list, so no worker would serve it",
      );
    }
    return this.#memberOf(store);
  }

  /** The first one also carries hints, and messages without a tenant. */
  all(): readonly Member<Tx>[] {
    const stores = [...new Set(this.#options.stores())];
    if (stores.length === 0) throw new TypeError("routedStore: stores() must list at least one store");
    return stores.map((store) => this.#memberOf(store));
  }

  first(): Member<Tx> {
    return this.all()[0] as Member<Tx>;
  }

  /** Calls all stores. Rejects when one does: for results that must be complete. */
  async every<T>(ask: (store: Store<Tx>) => Promise<T>): Promise<readonly T[]> {
    const { values, failures } = await settleAll(this.all(), ({ store }) => ask(store));
    const [failure] = failures;
    if (failure !== undefined) throw failure.error;
    return values.map(({ value }) => value);
  }

  /**
   * Looks in all stores for something that at most one has. Rejects if none of the others has it and one failed.
   *
   * @returns the result of the store that has it; otherwise that of any store
   */
  async find<T>(ask: (store: Store<Tx>) => Promise<T>, isIt: (value: T) => boolean): Promise<T> {
    const { values, failures } = await settleAll(this.all(), ({ store }) => ask(store));
    const found = values.find(({ value }) => isIt(value));
    if (found !== undefined) return found.value;
    const [failure] = failures;
    if (failure !== undefined) throw failure.error;
    return (values[0] as { readonly value: T }).value;
  }

  /**
   * Calls the stores that can be reached, for a worker, each time in another order. Errors go to `onError`; rejects when all
   * stores fail.
   */
  async reachable<T>(ask: (store: Store<Tx>) => Promise<T>): Promise<readonly T[]> {
    const rotated = this.rotated();
    const asked = await this.ask(rotated, (member) => ask(member.store));
    return rotated.flatMap((member) => (asked.has(member) ? [asked.get(member) as T] : []));
  }

  /**
   * The stores whose circuit breaker is not open, each time starting with another one. Those with an open one are probed
   * without making the others wait.
   *
   * @throws {StoreError} when all circuit breakers are open
   */
  rotated(): readonly Member<Tx>[] {
    const all = this.all();
    const [open, usable] = [all.filter((one) => one.isOpen()), all.filter((one) => !one.isOpen())];
    for (const { guard, store } of open) guard(() => store.verify()).catch(() => {});
    if (usable.length === 0) throw new StoreError("not_sent", { message: "No store can be used now" });
    const first = this.#turn % usable.length;
    this.#turn += 1;
    return [...usable.slice(first), ...usable.slice(0, first)];
  }

  /** The results of the stores that did not fail. @throws the first store's error if all failed. */
  async ask<T>(
    members: readonly Member<Tx>[],
    ask: (member: Member<Tx>) => Promise<T>,
  ): Promise<ReadonlyMap<Member<Tx>, T>> {
    const { values, failures } = await settleAll(members, ask);
    for (const { member, error } of failures) this.#options.onError(error, member.store);
    const [failure] = failures;
    if (values.length === 0 && failure !== undefined) throw failure.error;
    return new Map(values.map(({ member, value }) => [member, value]));
  }

  #memberOf(store: Store<Tx>): Member<Tx> {
    const known = this.#known.get(store);
    if (known !== undefined) return known;
    const { check, circuit, clock } = this.#options;
    check(store);
    let open = false;
    const breaker: Breaker | null =
      circuit === null
        ? null
        : createBreaker(store.name, circuit, clock, ({ type }) => {
            open = type === "circuit_opened";
          });
    const member: Member<Tx> = {
      store: breaker === null ? store : guardedStore(store, breaker),
      guard: breaker?.guard ?? ((run) => run()),
      isOpen: () => open,
    };
    this.#known.set(store, member);
    return member;
  }
}

interface Settled<Tx, T> {
  readonly values: readonly { readonly member: Member<Tx>; readonly value: T }[];
  readonly failures: readonly { readonly member: Member<Tx>; readonly error: unknown }[];
}

/** Results are in the order of the members. */
async function settleAll<Tx, T>(
  members: readonly Member<Tx>[],
  ask: (member: Member<Tx>) => Promise<T>,
): Promise<Settled<Tx, T>> {
  const values: { member: Member<Tx>; value: T }[] = [];
  const failures: { member: Member<Tx>; error: unknown }[] = [];
  for (let at = 0; at < members.length; at += atOnceMax) {
    const page = members.slice(at, at + atOnceMax);
    const settled = await Promise.allSettled(page.map(async (member) => ask(member)));
    for (const [index, one] of settled.entries()) {
      const member = page[index] as Member<Tx>;
      if (one.status === "fulfilled") values.push({ member, value: one.value });
      else failures.push({ member, error: one.reason });
    }
  }
  return { values, failures };
}
