/** Many requests at once: what duplicates that wait cost the database, and how often deadlocks make handlers run again. */
import { beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { until } from "../support/until.ts";
import { committedRows, expectNoLeak, migratedDatabase, openPool, type TestTx } from "./harness.ts";

let url = "";
beforeAll(async () => {
  url = await migratedDatabase();
});

/** A process of the service, with a pool whose use is counted. */
function openProcess() {
  const pool = openPool(url);
  let acquired = 0;
  pool.on("acquire", () => {
    acquired += 1;
  });
  const latchkey = createLatchkey<TestTx>({ store: postgresStore({ pool }) });
  return { pool, latchkey, acquired: () => acquired };
}

const never = () => Promise.reject(new Error("It ran twice"));

describe.each(["transaction", "lease"] as const)("300 duplicates of a running request (%s)", (execution) => {
  const submit = (process: ReturnType<typeof openProcess>, key: string, work: () => Promise<string>) => {
    const operation = process.latchkey.operation(`crowd-${execution}`, {
      ...{ execution, waitMs: 60_000 },
      ...(execution === "transaction" && { writes: "none" }),
    } as OperationOptions<"lease">);
    return (times: number) =>
      Array.from({ length: times }, () =>
        process.latchkey.run(operation, { tenant: "t", key, input: null }, work),
      );
  };

  test("look at it together, and all get its answer", async () => {
    const [there, here] = [openProcess(), openProcess()];
    const gate = Promise.withResolvers<string>();
    let started = false;
    const [first] = submit(there, execution, () => {
      started = true;
      return gate.promise;
    })(1);
    await until(() => started);
    const duplicates = submit(here, execution, never)(300);
    await until(() => here.acquired() >= 5, { what: "they have looked five times" });
    gate.resolve("done");
    await first;
    const results = await Promise.all(duplicates);
    expect(results.filter((result) => result.kind === "replay" && result.value === "done")).toHaveLength(300);
    // One at a time would have been 300 for the first look alone.
    expect(here.acquired()).toBeLessThan(60);
    await expectNoLeak(here.pool);
  });
});

test("transactions that deadlock again and again: all are served, each once, and few handlers run often", async () => {
  const { pool, latchkey } = openProcess();
  await pool.query("create table accounts as select n as id, 0 as balance from generate_series(1, 6) n");
  const transfer = latchkey.operation("transfer");
  let runs = 0;
  const requests = Array.from({ length: 48 }, (_, index) =>
    latchkey.run(transfer, { tenant: "t", key: `transfer-${index}`, input: null }, async ({ tx }) => {
      runs += 1;
      const first = index % 6;
      const second = (first + 1 + (index % 5)) % 6;
      await tx.query("update accounts set balance = balance - 1 where id = $1", [first + 1]);
      await tx.query("update accounts set balance = balance + 1 where id = $1", [second + 1]);
      await tx.query("insert into business values ($1)", [`transfer-${index}`]);
    }),
  );
  const results = await Promise.all(requests);
  expect(results.every(({ kind }) => kind === "executed")).toBe(true);
  const transfers = (await committedRows(pool)).filter((row) => row.startsWith("transfer-"));
  expect(new Set(transfers).size).toBe(48);
  expect(transfers).toHaveLength(48);
  // With pauses of at most 40 ms there were 208 reruns.
  expect(runs).toBeLessThan(48 + 104);
  await expectNoLeak(pool);
});
