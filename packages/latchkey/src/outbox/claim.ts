/** Claims effects from the store, and handles claims that fail or come late. */

import { StoreError } from "../errors.ts";
import { isStoreFailure } from "../execution/guards/store-failure.ts";
import type { Runtime } from "../execution/runtime.ts";
import type { EffectWant, OutboxEffect, OutboxSupport } from "../stores/outbox.ts";
import { withLimit } from "../time/time-limit.ts";

export interface Claiming<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly outbox: OutboxSupport;
  readonly leaseMs: number;
}

export interface Claimed {
  readonly row: OutboxEffect;
  /** Monotonic time until which the claim is certain to hold. */
  readonly ownedUntilMs: number;
}

const claimLimitMs = 10_000;

/**
 * If the store is reachable but cannot claim a page, one of its rows may be the cause. Then each definition is claimed alone,
 * in ever smaller pages, so that such a row holds up only the rows behind it.
 *
 * @throws {StoreError} when the store cannot be used.
 */
export async function claimAll<Tx>(
  claiming: Claiming<Tx>,
  wants: readonly EffectWant[],
): Promise<readonly Claimed[]> {
  try {
    return await claimPage(claiming, wants);
  } catch (error) {
    if (isStoreFailure(error)) throw error;
    claiming.runtime.emit({ type: "service_error", service: "effect-dispatcher", error });
  }
  const smaller =
    wants.length > 1
      ? wants.map((want) => [want])
      : wants.filter(({ limit }) => limit > 1).map((want) => [{ ...want, limit: want.limit >> 1 }]);
  const claimed: Claimed[] = [];
  for (const page of smaller) claimed.push(...(await claimAll(claiming, page)));
  return claimed;
}

async function claimPage<Tx>(
  { runtime, outbox, leaseMs }: Claiming<Tx>,
  wants: readonly EffectWant[],
): Promise<readonly Claimed[]> {
  const { clock, random } = runtime.ports;
  const askedAtMs = clock.monotonicMs();
  const asking = outbox.claim(wants, random.token(), leaseMs);
  const ran = await withLimit(clock, claimLimitMs, () => asking);
  if (ran.kind === "timed_out") {
    asking.then((rows) => giveBack(outbox, rows)).catch(() => {});
    throw new StoreError("in_doubt", { message: `A claim took longer than ${claimLimitMs} ms` });
  }
  if (ran.kind === "threw") throw ran.error;
  return ran.value.map((row) => ({ row, ownedUntilMs: askedAtMs + leaseMs }));
}

/** A claim that returned after its limit has no dispatcher; without this its rows wait until their leases end. */
async function giveBack(outbox: OutboxSupport, rows: readonly OutboxEffect[]): Promise<void> {
  await outbox.end(
    rows.map(({ id, fence, state }) => ({ id, fence, event: "give_back", unsent: state === "started" })),
  );
}
