/** What the clock tells somebody who asks about what is not theirs, and what a replay gives whoever may no longer ask. */

import { afterAll, expect, test } from "vitest";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { startFixture } from "../support/fixture.ts";
import { releaseAll } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";

afterAll(releaseAll);

const pairs = 60;

/** How often a left value is below a right one; 0.5 where they cannot be distinguished (Mann and Whitney's U, as a share). */
function shareBelow(left: readonly number[], right: readonly number[]): number {
  let below = 0;
  for (const one of left) {
    for (const other of right) below += one < other ? 1 : one === other ? 0.5 : 0;
  }
  return below / (left.length * right.length);
}

async function timed(ask: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await ask();
  return performance.now() - from;
}

test.runIf(isThorough)(
  "a key or an operation of another tenant's takes as long as one that does not exist",
  async () => {
    const database = await freshDatabase();
    const fixture = await startFixture({ http: "fetch", store: database.url });
    const owner = { tenant: "owner", body: { item: "book", amount: 1 } };
    const [reports, keys] = [[] as string[], [] as string[]];
    for (let index = 0; index < pairs; index++) {
      keys.push(`theirs-${index}`);
      await fixture.post("/orders", `theirs-${index}`, owner);
      if (index < 20) {
        const accepted = await fixture.post("/reports", `report-${index}`, owner);
        reports.push(String(accepted.lines("Location")[0]));
      }
    }
    expect(reports[0]).toMatch(/^\/operations\//u);
    const elsewhere = (index: number) =>
      `/operations/${`${index}`.padStart(8, "0")}-0000-7000-8000-000000000000`;
    const otherTenant = { tenant: "stranger" };
    const of = {
      theirs: [] as number[],
      nobodys: [] as number[],
      key: [] as number[],
      newKey: [] as number[],
    };
    for (let index = 0; index < pairs; index++) {
      const report = reports[index % reports.length] ?? "";
      of.theirs.push(await timed(() => fixture.request(report, otherTenant)));
      of.nobodys.push(await timed(() => fixture.request(elsewhere(index), otherTenant)));
      const post = (key: string) => fixture.post("/orders", key, { ...owner, ...otherTenant });
      of.key.push(await timed(() => post(keys[index] ?? "")));
      of.newKey.push(await timed(() => post(`mine-${index}`)));
    }
    for (const share of [shareBelow(of.theirs, of.nobodys), shareBelow(of.key, of.newKey)]) {
      // Chance alone has a deviation of 0.053 for so many pairs: four of them. What a look would cost is far outside.
      expect(share).toBeGreaterThan(0.29);
      expect(share).toBeLessThan(0.71);
    }
    await database.drop().catch(() => {});
  },
);

test("a caller whose permission is withdrawn gets no replay", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("order", { execution: "lease" });
  const protect = fetchProtect(latchkey, { tenant: () => "acme" });
  let starts = 0;
  const order = protect(operation, async () => {
    starts += 1;
    return Response.json({ secret: "canary" }, { status: 201 });
  });
  const allowed = new Set(["ada"]);
  // As a service has it: who may not ask is turned away before Latchkey sees it.
  const service = async (request: Request) =>
    allowed.has(request.headers.get("x-user") ?? "") ? order(request) : new Response(null, { status: 403 });
  const ask = () =>
    service(
      new Request("http://service/orders", {
        method: "POST",
        headers: { "Idempotency-Key": "k", "x-user": "ada" },
        body: "{}",
      }),
    );
  expect((await ask()).status).toBe(201);
  expect((await ask()).headers.get("Idempotent-Replayed")).toBe("true");
  allowed.clear();
  const refused = await ask();
  expect([refused.status, await refused.text()]).toEqual([403, ""]);
  expect(starts).toBe(1);
});
