/** Writes the results of many deliveries in few calls: items added during a call go into the next one. */

import { StoreError } from "../errors.ts";
import { isStoreFailure } from "../execution/guards/store-failure.ts";
import type { Clock } from "../ports.ts";
import { withLimit } from "../time/time-limit.ts";

export interface Batches<Item> {
  /**
   * Returns whether the item's guard held. The item is sent at once if no call is in flight.
   *
   * @throws the errors of the store's call; {StoreError} `in_doubt` when it takes too long.
   */
  add(item: Item): Promise<boolean>;
}

interface Waiting<Item> {
  readonly item: Item;
  readonly resolve: (held: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** Keeps the statement of one call small. */
const itemsMax = 500;
/** A hanging call would hold up all items after it. */
const callLimitMs = 10_000;

/** @param write returns the ids whose guard held */
export function createBatches<Item extends { readonly id: string }>(
  clock: Clock,
  write: (items: readonly Item[]) => Promise<readonly string[]>,
): Batches<Item> {
  const queue: Waiting<Item>[] = [];
  let busy = false;
  const drain = async () => {
    busy = true;
    // Items added in the same turn of the event loop go together.
    await Promise.resolve();
    while (queue.length > 0) {
      const batch = queue.splice(0, itemsMax);
      // The clock is the application's, and may throw.
      await writeBatch(batch).catch((error: unknown) => {
        for (const { reject } of batch) reject(error);
      });
    }
    busy = false;
  };
  const writeBatch = async (batch: readonly Waiting<Item>[]): Promise<void> => {
    const written = await withLimit(clock, callLimitMs, () => write(batch.map(({ item }) => item)));
    if (written.kind === "returned") {
      const held = new Set(written.value);
      for (const { item, resolve } of batch) resolve(held.has(item.id));
      return;
    }
    const error = written.kind === "threw" ? written.error : new StoreError("in_doubt");
    if (batch.length > 1 && !isStoreFailure(error)) {
      // One of them cannot be written: halving finds it, so that it does not fail the others.
      const middle = Math.ceil(batch.length / 2);
      await writeBatch(batch.slice(0, middle));
      return writeBatch(batch.slice(middle));
    }
    for (const { reject } of batch) reject(error);
  };
  return {
    add(item) {
      const added = new Promise<boolean>((resolve, reject) => queue.push({ item, resolve, reject }));
      if (!busy) void drain();
      return added;
    },
  };
}

/** Separate batches for each part of a store that consists of several. */
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
