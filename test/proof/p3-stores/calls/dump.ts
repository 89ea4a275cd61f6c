/** Everything that a store can be asked for at the end of a sequence. */
import type { RecordKey, RecordState } from "../../../../packages/latchkey/src/engine/record.ts";
import type { EffectState } from "../../../../packages/latchkey/src/stores/outbox.ts";
import type { Subject } from "../bench.ts";
import { beginMs, operations } from "./world.ts";

export const states: readonly RecordState[] = [
  "pending",
  "in_progress",
  "completed",
  "failed",
  "retryable",
  "unknown",
  "expired",
];
const effectStates: readonly EffectState[] = ["pending", "claimed", "started", "delivered", "dead"];
const most = 1_000;

/** @param keys all that may be there */
export async function dump(
  { store, rows }: Subject,
  keys: readonly RecordKey[],
  nowMs: number,
): Promise<unknown> {
  const { settlement, journal, outbox } = store;
  const page = { tenant: null, limit: most, after: null };
  const calls = { from: beginMs, to: nowMs + 1, limit: most, after: null };
  return {
    records: await all(keys, async (key) => {
      const { record } = await store.read(key);
      return {
        record,
        journal: record && (await journal.read(key, record.id)),
        audit: await settlement.audit(key),
      };
    }),
    effects: await all(effectStates, async (state) => outbox?.list({ ...page, effect: null, state }) ?? []),
    calls: await all(["card", "post"], (effect) => journal.finishedCalls({ ...calls, effect })),
    ended: byId(await store.endedLeases(most), ({ record }) => record.id),
    resumable: byId(await settlement.resumable(operations, most), ({ id }) => id),
    rows: await rows(),
  };
}

function all<Item, T>(items: readonly Item[], ask: (item: Item) => Promise<T>): Promise<readonly T[]> {
  return Promise.all(items.map(ask));
}

function byId<T>(items: readonly T[], idOf: (item: T) => string): readonly T[] {
  return items.toSorted((left, right) => (idOf(left) < idOf(right) ? -1 : 1));
}
