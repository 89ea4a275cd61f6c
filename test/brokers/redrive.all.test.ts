/** A dead message is redriven through a real broker, while its consumer runs: it runs once, or is a dead letter again. */
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey, deadMessages, type Latchkey } from "../../packages/latchkey/src/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { committedRows, migratedDatabase, openPool } from "../postgres/harness.ts";
import type { Broker } from "../support/private-brokers.ts";
import { until } from "../support/until.ts";
import type { Order } from "./consumer-process.ts";
import { loadDriver } from "./drivers.ts";

const by = { operator: "ada", reason: "the bug is mended" };

const drivers = await Promise.all(Object.values(loadDriver).map((load) => load()));

describe.each(drivers)("$name", (driver) => {
  let broker: Broker | undefined;
  let pool: pg.Pool;
  beforeAll(async () => {
    broker = await driver.start();
    pool = openPool(await migratedDatabase());
  });
  afterAll(async () => {
    await pool?.end();
    await broker?.own?.stop();
  });

  test("redriven before the bug is mended it dies again, afterwards it runs once, however often", async ({
    skip,
  }) => {
    if (broker === undefined) return skip("there is no broker");
    const client = await driver.connect(broker.url, `redrive-${systemPorts.random.token()}`);
    await client.declare();
    const store = postgresStore({ pool, notify: false });
    const latchkey: Latchkey<pg.PoolClient> = createLatchkey({ store }) as never;
    const letters = deadMessages(latchkey);
    let mended = false;
    const consumer = await client.consume<pg.PoolClient, Order>(
      latchkey,
      latchkey.operation("shipments.create"),
      { tenant: "shop", backoffMs: 20, failuresMax: 2 },
      async ({ tx, input }) => {
        await tx.query("insert into business values ($1)", [input.order]);
        if (!mended) throw new Error("it does not work yet");
      },
    );
    const onlyLetter = (but: string | null) =>
      until(
        async () => {
          const [letter, ...more] = await letters.list();
          return more.length === 0 && letter !== undefined && letter.id !== but && letter;
        },
        { what: "it is dead" },
      );
    const again = async (id: string) => {
      const audit = await letters.redrive(id, by, ({ messageId, body }) =>
        client.publish([{ id: messageId, body: JSON.parse(Buffer.from(body).toString()) }]),
      );
      expect(audit).not.toBeNull();
    };
    await client.publish([{ id: "a", body: { order: "a" } }]);
    const first = await onlyLetter(null);
    if (first === false) throw new Error("it is dead");
    await again(first.id);
    const second = await onlyLetter(first.id);
    if (second === false) throw new Error("it is dead");
    expect(second, "counted anew").toMatchObject({ messageId: "a", failures: 2 });
    mended = true;
    await again(second.id);
    await until(() => consumer.counts().executed === 1, { what: "it has run" });
    await client.publish([{ id: "a", body: { order: "a" } }]);
    await until(() => consumer.counts().duplicates === 1, { what: "a copy is a duplicate" });
    await consumer.stop();
    expect([await committedRows(pool), await letters.list()]).toEqual([["a"], []]);
    expect(await client.left()).toBe(0);
    await client.close();
  });
});
