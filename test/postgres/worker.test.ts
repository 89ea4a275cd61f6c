/** Workers over real Postgres: what was enqueued is delivered once, and its finish commits with it. */
import { expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import { migratedDatabase, openPool } from "./harness.ts";

const count = 300;

async function fleet() {
  const url = await migratedDatabase();
  const sent: number[] = [];
  const problems: LatchkeyEvent[] = [];
  const start = () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    onRelease(() => store.close());
    const latchkey = createLatchkey({
      store,
      onEvent: (event) => {
        if ("error" in event) problems.push(event);
      },
    });
    const receipt = latchkey.effect<number, { id: string }>("receipt", {
      deduplication: "none",
      delivery: { ordered: true },
      execute: async (input) => {
        sent.push(input);
        return { id: `r_${input}` };
      },
      onDelivered: async ({ result }, tx) => {
        await tx.query("insert into business (row) values ($1)", [result.id]);
      },
    });
    const order = latchkey.operation("order");
    const report = latchkey.operation("report", {
      execution: "deferred",
      version: "1",
      run: async (input: number, attempt) => {
        await attempt.phase("counted", async (tx) => {
          await tx.query("insert into business (row) values ($1)", [`report ${input}`]);
          attempt.enqueue(receipt, 10_000 + input, { aggregate: `report ${input}` });
        });
        return { status: 201, body: { input } };
      },
    });
    return { pool, latchkey, receipt, order, report };
  };
  return { start, sent, problems };
}

test("several workers: every effect once, in the order of its aggregate, and every deferred operation", async () => {
  const { start, sent, problems } = await fleet();
  const shop = start();
  const workers = [start(), start(), start()].map(({ latchkey }) => latchkey.startWorker());
  for (let index = 0; index < count; index++) {
    const request = { tenant: "t", key: `o${index}`, input: index };
    await shop.latchkey.run(shop.order, request, async ({ tx, attempt }) => {
      await tx.query("insert into business (row) values ($1)", [`order ${index}`]);
      attempt.enqueue(shop.receipt, index, { aggregate: `a${index % 7}` });
    });
    if (index % 30 === 0) {
      const asked = await shop.latchkey.run(shop.report, { tenant: "t", key: `d${index}`, input: index });
      expect(asked.kind).toBe("accepted");
    }
  }
  const rows = async (prefix: string): Promise<readonly string[]> => {
    const text = "select row from business where starts_with(row, $1)";
    const found = await shop.pool.query<{ row: string }>(text, [prefix]);
    return found.rows.map(({ row }) => row);
  };
  await until(async () => (await rows("r_")).length >= count + 10, { timeoutMs: 20_000 });
  expect((await workers[0]?.health())?.ok).toBe(true);
  for (const worker of workers) await worker.stop();
  const receipts = await rows("r_");
  expect(new Set(receipts).size).toBe(receipts.length);
  expect(sent).toHaveLength(count + 10);
  for (let aggregate = 0; aggregate < 7; aggregate++) {
    const own = sent.filter((input) => input < 10_000 && input % 7 === aggregate);
    expect(own).toEqual(own.toSorted((left, right) => left - right));
  }
  expect(await rows("report")).toHaveLength(10);
  expect(await shop.latchkey.run(shop.report, { tenant: "t", key: "d0", input: 0 })).toMatchObject({
    kind: "replay",
    status: 201,
  });
  expect(problems).toEqual([]);
});
