/** Writes of many deliveries in few calls: what comes while a call is under way goes with the next one. */

import { StoreError } from "../errors.ts";
import { isStoreFailure } from "../execution/guards/store-failure.ts";
import type { Clock } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";

export interface Batches<Item> {
  /**
   * Whether the item's guard held. It is sent at once when no call is under way.
   *
   * @throws what the store's call throws; {StoreError} `in_doubt` when it takes too long.
   */
  add(item: Item): Promise<boolean>;
}

interface Waiting<Item> extends PromiseWithResolvers<boolean> {
  readonly item: Item;
}

/** So that one call's statement stays small. */
const itemsMax = 500;
/** A call that hangs would hold up all that come after it. */
const callLimitMs = 10_000;

/** @param write answers the ids whose guard held */
export function createBatches<Item extends { readonly id: string }>(
  clock: Clock,
  write: (items: readonly Item[]) => Promise<readonly string[]>,
): Batches<Item> {
  const queue: Waiting<Item>[] = [];
  let busy = false;
  const drain = async () => {
    busy = true;
    // Those that are added in the same turn go together.
    await Promise.resolve();
    while (queue.length > 0) await settleAll(queue.splice(0, itemsMax));
    busy = false;
  };
  const settleAll = async (batch: readonly Waiting<Item>[]): Promise<void> => {
    const written = await withLimit(clock, callLimitMs, () => write(batch.map(({ item }) => item)));
    if (written.kind === "returned") {
      const held = new Set(written.value);
      for (const { item, resolve } of batch) resolve(held.has(item.id));
      return;
    }
    const error = written.kind === "threw" ? written.error : new StoreError("in_doubt");
    if (batch.length > 1 && !isStoreFailure(error)) {
      // One of them cannot be written: it is found by halves, and costs itself alone.
      const middle = Math.ceil(batch.length / 2);
      await settleAll(batch.slice(0, middle));
      return settleAll(batch.slice(middle));
    }
    for (const { reject } of batch) reject(error);
  };
  return {
    add(item) {
      const waiting = { item, ...Promise.withResolvers<boolean>() };
      queue.push(waiting);
      if (!busy) void drain();
      return waiting.promise;
    },
  };
}

/** Batches of their own for each part of a store that is several. */
export function createPartedBatches<Item extends { readonly id: string }>(
  partOf: (id: string) => unknown,
  create: () => Batches<Item>,
): Batches<Item> {
  const parts = new Map<unknown, Batches<Item>>();
  return {
    add(item) {
      const part = partOf(item.id);
      const batches = parts.get(part) ?? create();
      parts.set(part, batches);
      return batches.add(item);
    },
  };
}
