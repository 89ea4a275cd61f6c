/**
 * The cap on how many keys a tenant has at once. Tenants are counted in the background, and the keys that this process has
 * begun since are added, so no request waits for a count. The next count includes the keys of other processes.
 */
import type { CancelTimer, Clock } from "../../ports.ts";
import type { Store } from "../../stores/store.ts";

const countEveryMs = 30_000;
/** Delay of the first count of a tenant in this process. */
const firstCountAfterMs = 100;
/** Above this number, tenants below the cap are forgotten, and counted again when they return. */
const tenantsMax = 10_000;
const pageMax = 100;

interface Tenant {
  /** Null: not known, and no key is refused. */
  counted: number | null;
  /** Keys that this process has begun, and not given back, since its last count began. */
  begun: number;
  /** Monotonic time before which none of the counted records is forgotten; null: not known. */
  roomAtMs: number | null;
  isDue: boolean;
  /** At least one count of the tenant has begun. */
  wasAsked: boolean;
}

export class ActiveKeyCap {
  readonly #store: Pick<Store<unknown>, "countActiveKeys">;
  readonly #max: number;
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  /** The most recent tenants are last. */
  readonly #tenants = new Map<string, Tenant>();
  #timer: { readonly atMs: number; readonly cancel: CancelTimer } | null = null;
  #round: Promise<void> | null = null;
  #stopped = false;

  constructor(
    store: Pick<Store<unknown>, "countActiveKeys">,
    max: number,
    clock: Clock,
    onError: (error: unknown) => void,
  ) {
    this.#store = store;
    this.#max = max;
    this.#clock = clock;
    this.#onError = onError;
  }

  /** Takes a place for one new key. Null: there was one; otherwise, the milliseconds until there may be one. */
  take(name: string): number | null {
    const tenant = this.#tenantOf(name);
    tenant.isDue = true;
    this.#schedule(tenant.wasAsked ? countEveryMs : firstCountAfterMs);
    if (this.#isFull(tenant)) return this.#waitMs(tenant);
    tenant.begun += 1;
    return null;
  }

  /** For a key that was not stored after all. */
  giveBack(name: string): void {
    const tenant = this.#tenants.get(name);
    if (tenant !== undefined) tenant.begun = Math.max(0, tenant.begun - 1);
  }

  /** Waits for a running count. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#round;
  }

  #isFull({ counted, begun }: Tenant): boolean {
    return (counted ?? 0) + begun >= this.#max;
  }

  #tenantOf(name: string): Tenant {
    const known = this.#tenants.get(name);
    const tenant = known ?? { counted: null, begun: 0, roomAtMs: null, isDue: true, wasAsked: false };
    this.#tenants.delete(name);
    this.#tenants.set(name, tenant);
    if (known === undefined) this.#evict();
    return tenant;
  }

  /** Full tenants are not dropped: an unknown tenant would be let through. */
  #evict(): void {
    if (this.#tenants.size <= tenantsMax) return;
    let oldest: string | undefined;
    for (const [name, tenant] of this.#tenants) {
      oldest ??= name;
      if (this.#isFull(tenant)) continue;
      this.#tenants.delete(name);
      return;
    }
    if (oldest !== undefined) this.#tenants.delete(oldest);
  }

  /** The time until a count will first see a free place; earlier changes are not seen. */
  #waitMs({ roomAtMs }: Tenant): number {
    const nowMs = this.#clock.monotonicMs();
    const nextMs = this.#timer === null ? countEveryMs : this.#timer.atMs - nowMs;
    const missingMs = Math.max(0, (roomAtMs ?? nowMs) - nowMs - nextMs);
    return nextMs + Math.ceil(missingMs / countEveryMs) * countEveryMs;
  }

  #schedule(delayMs: number): void {
    const atMs = this.#clock.monotonicMs() + delayMs;
    if (this.#stopped || this.#round !== null || (this.#timer !== null && this.#timer.atMs <= atMs)) return;
    this.#timer?.cancel();
    const count = () => {
      this.#timer = null;
      this.#round = this.#count().finally(() => {
        this.#round = null;
        this.#scheduleNext();
      });
    };
    this.#timer = { atMs, cancel: this.#clock.startTimer(delayMs, count, "background") };
  }

  #scheduleNext(): void {
    const waiting = [...this.#tenants.values()].filter((tenant) => this.#mustCount(tenant));
    if (waiting.length === 0) return;
    this.#schedule(waiting.every(({ wasAsked }) => wasAsked) ? countEveryMs : firstCountAfterMs);
  }

  /** A full tenant is counted as long as it is full, so that its next request is answered from a recent count. */
  #mustCount(tenant: Tenant): boolean {
    return tenant.isDue || this.#isFull(tenant);
  }

  async #count(): Promise<void> {
    const due = [...this.#tenants].filter(([, tenant]) => this.#mustCount(tenant)).map(([name]) => name);
    for (let at = 0; at < due.length && !this.#stopped; at += pageMax) {
      await this.#countPage(due.slice(at, at + pageMax));
    }
  }

  async #countPage(names: readonly string[]): Promise<void> {
    const before = names.map((name) => this.#began(name));
    const askedAtMs = this.#clock.monotonicMs();
    try {
      const counts = (await this.#store.countActiveKeys?.(names, this.#max)) ?? [];
      const found = new Map(counts.map((count) => [count.tenant, count]));
      for (const [at, name] of names.entries()) {
        const { count = null, roomAfterMs = null } = found.get(name) ?? {};
        this.#note(name, before[at] ?? 0, count, roomAfterMs === null ? null : askedAtMs + roomAfterMs);
      }
    } catch (error) {
      // As with every limit: if it cannot be determined, nothing is refused.
      for (const [at, name] of names.entries()) this.#note(name, before[at] ?? 0, null, null);
      this.#onError(error);
    }
  }

  #began(name: string): number {
    const tenant = this.#tenants.get(name);
    if (tenant === undefined) return 0;
    tenant.isDue = false;
    tenant.wasAsked = true;
    return tenant.begun;
  }

  /** @param before how many it had begun when the count began: the count includes them, or they were given back */
  #note(name: string, before: number, counted: number | null, roomAtMs: number | null): void {
    const tenant = this.#tenants.get(name);
    if (tenant === undefined) return;
    tenant.counted = counted;
    tenant.roomAtMs = roomAtMs;
    tenant.begun = Math.max(0, tenant.begun - before);
  }
}
