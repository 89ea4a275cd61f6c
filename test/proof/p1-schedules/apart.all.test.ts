/** That deliveries and operations are independent: their ends side by side and apart, and mistakes that join them. */
import { describe, expect, test } from "vitest";
import type { Plant } from "../harness/store-plants.ts";
import type { Bound } from "./bound.ts";
import { Explorer, Violation } from "./explore.ts";
import type { Shared } from "./shared.ts";
import { configurationNamed } from "./work.ts";

const bounds: readonly Bound[] = [
  { switches: 1, crashes: 0, leaseEnds: 0, lost: 0 },
  { switches: 0, crashes: 1, leaseEnds: 0, lost: 0 },
  { switches: 0, crashes: 0, leaseEnds: 1, lost: 0 },
  { switches: 0, crashes: 0, leaseEnds: 0, lost: 1 },
  { switches: 1, crashes: 0, leaseEnds: 1, lost: 0 },
];

/** Of all ends, one part of each; each once. */
async function endsOf(
  name: string,
  bound: Bound,
  part: (shared: Shared, outcomes: readonly unknown[]) => readonly unknown[],
): Promise<ReadonlySet<string>> {
  const { endTexts } = await new Explorer(configurationNamed(name), bound).run();
  const parts = endTexts.map((text) => {
    const [shared, outcomes] = JSON.parse(text) as [Shared, readonly unknown[]];
    return JSON.stringify(part(shared, outcomes));
  });
  return new Set(parts);
}

/** The record, its rows and calls, and what the clients, the rescuer and the reconciler came to. */
function operationIn({ rows, tables, audit, open, other }: Shared, outcomes: readonly unknown[]) {
  return [rows, tables, audit, open, other.charges.filter(({ isMail }) => !isMail), outcomes.slice(0, 4)];
}

/** The effect, without the names of the record and the operation that it belongs to. */
function deliveryIn({ effects, other, now }: Shared) {
  const rows = effects.map(({ effect, endedBy, dueAt, leaseEndsAt }) => {
    const { state, fence, sends, returns, generation, doubtfulSince, lastErrorCode, createdAt } = effect;
    const times = [dueAt - createdAt, leaseEndsAt && leaseEndsAt - now, doubtfulSince === null];
    return [state, fence.attempt, sends, returns, generation, lastErrorCode, endedBy, times];
  });
  return [rows, other.charges.filter(({ isMail }) => isMail).length];
}

const titled = bounds.map((bound) => [Object.values(bound).join(", "), bound] as const);

test.each(titled)("within %s an operation ends as it does when nobody dispatches", async (_, bound) => {
  const beside = await endsOf("steps-enqueue", bound, operationIn);
  const alone = await endsOf("steps-enqueue-undispatched", bound, operationIn);
  expect(beside.size).toBeGreaterThan(1);
  expect(beside).toEqual(alone);
});

test.each(titled)(
  "within %s a delivery ends beside steps as one does beside transactions",
  async (_, bound) => {
    const steps = await endsOf("steps-enqueue", bound, deliveryIn);
    const transactions = await endsOf("enqueue-provider", bound, deliveryIn);
    const nothing = JSON.stringify([[], 0]);
    const others = [...steps].filter((end) => end !== nothing && !transactions.has(end));
    expect(steps.size).toBeGreaterThan(1);
    expect(others).toEqual([]);
  },
);

const key = { tenant: "t", scope: "op", key: "k" } as const;

/** Claims only what belongs to a record that is there. */
const readsRecord: Plant = (store) => ({
  outbox: store.outbox && {
    ...store.outbox,
    claim: async (...given) => {
      const { record } = await store.read(key);
      const claimed = (await store.outbox?.claim(...given)) ?? [];
      return record === null ? [] : claimed;
    },
  },
});

/** Renews the lease of the attempt that it delivers for. */
const changesRecord: Plant = (store) => ({
  outbox: store.outbox && {
    ...store.outbox,
    end: async (...given) => {
      const { record } = await store.read(key);
      if (record?.state === "in_progress") await store.renew(key, record.id, record.fence, 60_000);
      return (await store.outbox?.end(...given)) ?? [];
    },
  },
});

/** Refuses a takeover while a send has begun, and in no world that is explored without a dispatcher. */
const readsOutbox: Plant = (store) => ({
  takeOver: async (...given) => {
    const filter = { state: "started", effect: null, tenant: null, limit: 1, after: null } as const;
    const started = (await store.outbox?.list(filter)) ?? [];
    return started.length > 0 ? null : store.takeOver(...given);
  },
});

describe("a store that joins them is found out", () => {
  test.each([
    [
      "a claim looks at the record",
      readsRecord,
      "steps-enqueue",
      "outbox.claim of dispatcher uses rows.record",
    ],
    [
      "the end of a delivery renews a lease",
      changesRecord,
      "steps-enqueue",
      "outbox.end of dispatcher uses rows.",
    ],
    [
      "a takeover looks at the outbox",
      readsOutbox,
      "steps-enqueue-undispatched",
      "takeOver of rescuer of round 2 uses effects.all",
    ],
  ] as const)("%s", async (_, plant, name, what) => {
    const bound = { switches: 0, crashes: 1, leaseEnds: 1, lost: 0 };
    const explorer = new Explorer({ ...configurationNamed(name), plant }, bound);
    const found = await explorer.run().catch((error: unknown) => error);
    expect(found).toBeInstanceOf(Violation);
    expect(String(found)).toContain(`apart: ${what}`);
  });
});
