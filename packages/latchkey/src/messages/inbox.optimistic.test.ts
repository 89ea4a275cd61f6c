/** An inbox whose operation has `admission: "optimistic"`, on Postgres: a message takes two round trips and still runs once. */
import type pg from "pg";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "../../../../test/postgres/harness.ts";
import { startProxy, type TcpProxy } from "../../../../test/support/tcp-proxy.ts";
import { deferred, within } from "../../../../test/support/until.ts";
import { createLatchkey } from "../index.ts";
import { postgresStore } from "../stores/postgres.ts";
import type { Message } from "./broker.ts";
import { createInbox, type Inbox, type MessageHandler } from "./inbox.ts";

interface Order {
  readonly order: string;
}

type Handler = MessageHandler<TestTx, "transaction", Order>;

let url: string;
let direct: pg.Pool;
let proxy: TcpProxy;
beforeAll(async () => {
  url = await migratedDatabase();
  direct = openPool(url);
  await direct.query("create table orders (name text)");
  proxy = await startProxy({ to: { port: Number(new URL(url).port), host: new URL(url).hostname } });
});
beforeEach(() => direct.query("truncate orders, latchkey.records, latchkey.messages"));

const insertOrder: Handler = async ({ tx, input }) =>
  void (await tx.query("insert into orders (name) values ($1)", [input.order]));

/** Each call is another process for the library: it knows nothing of what the others have seen. */
function startProcess(
  handler: Handler = insertOrder,
  to = url,
): { readonly inbox: Inbox; readonly pool: pg.Pool } {
  const pool = openPool(to, { max: 3 });
  const latchkey = createLatchkey({ store: postgresStore({ pool, notify: false }) });
  const operation = latchkey.operation("shipments.create", { admission: "optimistic" });
  const options = { tenant: "shop", backoffMs: 1 };
  return {
    pool,
    inbox: createInbox<TestTx, "transaction", Order>(latchkey as never, operation, options, handler),
  };
}

function message(order: string, change: Partial<Message> = {}): Message {
  const body = Buffer.from(JSON.stringify({ order }));
  return {
    id: order,
    source: "orders",
    body,
    contentType: "application/json",
    headers: {},
    redelivered: false,
    ...change,
  };
}

async function committed(): Promise<string[]> {
  const { rows } = await direct.query<{ name: string }>("select name from orders order by name");
  return rows.map(({ name }) => name);
}

test("a message whose handler sends one statement takes two round trips", async () => {
  const { inbox, pool } = startProcess(insertOrder, proxy.url(url));
  await inbox.consume(message("first"));
  proxy.delay({ down: 5 });
  const { flights } = proxy.counts();
  expect(await inbox.consume(message("second"))).toMatchObject({ because: "executed" });
  expect(proxy.counts().flights - flights).toBe(2);
  await proxy.pass();
  await expectNoLeak(pool);
  await pool.end();
});

test("a message that another process has finished is a duplicate, and nothing of its handler stays", async () => {
  const [one, other] = [startProcess(), startProcess()];
  expect(await one.inbox.consume(message("a"))).toMatchObject({ because: "executed" });
  expect(await other.inbox.consume(message("a"))).toEqual({ settle: "ack", because: "duplicate" });
  expect(await one.inbox.consume(message("a", { redelivered: true }))).toMatchObject({
    because: "duplicate",
  });
  expect(await committed()).toEqual(["a"]);
  for (const { pool } of [one, other]) {
    await expectNoLeak(pool);
    await pool.end();
  }
});

test("copies that come while the first one runs are held, and acknowledged as duplicates", async () => {
  const begun = deferred();
  const opened = deferred();
  const one = startProcess(async (context) => {
    await insertOrder(context);
    begun.resolve();
    await opened.promise;
  });
  const other = startProcess();
  const first = one.inbox.consume(message("a"));
  await within(begun.promise, "the first handler has written");
  const copies = [one, other].map(({ inbox }) => inbox.consume(message("a")));
  opened.resolve();
  expect(await first).toMatchObject({ because: "executed" });
  expect(await Promise.all(copies)).toEqual(copies.map(() => ({ settle: "ack", because: "duplicate" })));
  expect(await committed()).toEqual(["a"]);
  for (const { pool } of [one, other]) {
    await expectNoLeak(pool);
    await pool.end();
  }
});

test("a handler that fails leaves nothing but the count, and its message runs again", async () => {
  let failing = true;
  const { inbox, pool } = startProcess(async (context) => {
    await insertOrder(context);
    if (failing) throw new Error("no courier");
  });
  expect(await inbox.consume(message("a"))).toMatchObject({ settle: "give_back", because: "handler-failed" });
  expect(await committed()).toEqual([]);
  failing = false;
  expect(await inbox.consume(message("a", { redelivered: true }))).toMatchObject({ because: "executed" });
  expect(await committed()).toEqual(["a"]);
  await expectNoLeak(pool);
  await pool.end();
});
