/** `countActiveKeys`: how many records a tenant has, up to a limit. Stores that cannot count pass. */
import assert from "node:assert/strict";
import type { Store } from "latchkey";
import {
  completion,
  day,
  endRunning,
  hour,
  minute,
  newKey,
  putForgettable,
  putInState,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";

type Count = NonNullable<Store<unknown>["countActiveKeys"]>;

let tenantsMade = 0;

/** A tenant that no other case uses. */
function newTenant(): string {
  tenantsMade += 1;
  return `counted-${tenantsMade}`;
}

function countCase(
  name: string,
  run: (count: Count, context: CaseContext, tenant: string) => Promise<void>,
): StoreCase {
  return {
    name: `active keys: ${name}`,
    async run(context) {
      const { other } = context;
      const count: Count | undefined = other.countActiveKeys?.bind(other);
      if (count !== undefined) await run(count, context, newTenant());
    },
  };
}

export const activeKeyCases: readonly StoreCase[] = [
  countCase("records of every state count, and only those of the tenant", async (count, context, tenant) => {
    for (const state of states) await putInState(context, state, newKey({ tenant }));
    const neighbour = `${tenant}-`;
    await putInState(context, "completed", newKey({ tenant: neighbour }));
    const none = newTenant();
    const counts = await count([tenant, neighbour, none], 100);
    assert.deepEqual(
      counts.map((one) => [one.tenant, one.count]).sort(),
      [
        [tenant, states.length],
        [neighbour, 1],
        [none, 0],
      ].sort(),
    );
  }),
  countCase("it counts up to the limit", async (count, context, tenant) => {
    for (let made = 0; made < 3; made += 1) await putInState(context, "retryable", newKey({ tenant }));
    for (const [limit, counted] of [
      [2, 2],
      [3, 3],
      [4, 3],
    ] as const) {
      const [found] = await count([tenant], limit);
      assert.equal(found?.count, counted, `up to ${limit}`);
    }
  }),
  countCase(
    "at the limit, records that are due to be forgotten do not count",
    async (count, context, tenant) => {
      await putForgettable(context, newKey({ tenant }));
      await putForgettable(context, newKey({ tenant }));
      await putInState(context, "completed", newKey({ tenant }));
      const [found] = await count([tenant], 2);
      assert.equal(found?.count, 1);
    },
  ),
  countCase(
    "there is room once the first record is forgotten, and not before",
    async (count, context, tenant) => {
      for (const retention of [hour, 2 * hour]) {
        await endRunning(
          context,
          newKey({ tenant }),
          completion("a", { retentionMs: minute, forgetAfterMs: retention }),
        );
      }
      const [below] = await count([tenant], 3);
      assert.equal(below?.roomAfterMs, null, "there must be room");
      const [full] = await count([tenant], 2);
      const afterMs = full?.roomAfterMs ?? 0;
      assert.ok(
        afterMs <= hour && afterMs > hour - minute,
        `the first must be forgotten within the hour, not after ${afterMs} ms`,
      );
      await context.advance(afterMs + 1);
      assert.equal((await count([tenant], 2))[0]?.count, 1);
    },
  ),
  countCase("records that do not end on their own make no room", async (count, context, tenant) => {
    for (const state of ["unknown", "retryable"] as const)
      await putInState(context, state, newKey({ tenant }));
    await context.advance(2 * day);
    assert.deepEqual(await count([tenant], 2), [{ tenant, count: 2, roomAfterMs: null }]);
  }),
];
