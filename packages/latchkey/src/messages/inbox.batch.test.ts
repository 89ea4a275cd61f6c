/** Messages that share transactions, on Postgres: what stays, what goes, and the verdict on each. */
import { AsyncLocalStorage } from "node:async_hooks";
import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "../../../../test/postgres/harness.ts";
import { isCommit, isCommitReply } from "../../../../test/support/postgres-messages.ts";
import { startProxy, type TcpProxy } from "../../../../test/support/tcp-proxy.ts";
import { deferred, until, within } from "../../../../test/support/until.ts";
import { wholeShapes } from "../../../../test/support/whole-shapes.ts";
import { MessageRefused } from "../errors.ts";
import { codecLimitMs } from "../execution/bounded-codec.ts";
import {
  type Codec,
  type CodecContext,
  createLatchkey,
  type LatchkeyEvent,
  type LatchkeyOptions,
  type OperationOptions,
} from "../index.ts";
import { type Clock, systemPorts } from "../ports.ts";
import { pgTransactions } from "../sql/pg.ts";
import { postgresStore } from "../stores/postgres.ts";
import type { Message, Verdict } from "./broker.ts";
import { createInbox, type MessageHandler } from "./inbox.ts";
import type { InboxOptions } from "./inbox-options.ts";

interface Order {
  readonly order: string;
}

type Handler = MessageHandler<TestTx, "transaction", Order>;

let url: string;
let proxy: TcpProxy;
let direct: pg.Pool;
beforeAll(async () => {
  url = await migratedDatabase();
  direct = openPool(url);
  await direct.query(
    "create table orders (name text unique deferrable initially deferred, by xid8 default pg_current_xact_id())",
  );
  proxy = await startProxy({
    to: { port: Number(new URL(url).port), host: new URL(url).hostname },
    protocol: "postgres",
  });
});
beforeEach(() =>
  direct.query("truncate orders, business, latchkey.records, latchkey.messages, latchkey.outbox cascade"),
);

const insert = "insert into orders (name) values ($1)";
const insertOrder: Handler = async ({ tx, input }) => void (await tx.query(insert, [input.order]));

interface Change {
  readonly options?: Partial<InboxOptions<Order>>;
  readonly operation?: OperationOptions<"transaction">;
  readonly service?: Partial<LatchkeyOptions<TestTx>>;
  readonly proxied?: boolean;
  readonly statementTimeoutMs?: number;
}

/** An inbox whose first message, `gate`, holds its transaction until `go`, so that the others gather. */
function setUp(
  handler: Handler = insertOrder,
  { options = {}, operation = {}, service = {}, proxied = false, statementTimeoutMs = 15_000 }: Change = {},
) {
  const through = new URL(url);
  if (proxied) Object.assign(through, { port: String(proxy.port), hostname: "127.0.0.1" });
  const pool = openPool(String(through));
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({
    store: postgresStore({ pool, transactions: pgTransactions({ pool, statementTimeoutMs }), notify: false }),
    onEvent: (event) => events.push(event),
    ...service,
  });
  const begun = deferred();
  const opened = deferred();
  const ran: string[] = [];
  const inbox = createInbox<TestTx, "transaction", Order>(
    latchkey as never,
    latchkey.operation("shipments.create", operation),
    { tenant: "shop", batchSize: 20, backoffMs: 1, ...options },
    async (context) => {
      ran.push(context.input.order);
      if (context.input.order === "gate") {
        begun.resolve();
        await opened.promise;
      }
      await handler(context);
    },
  );
  return {
    pool,
    latchkey,
    inbox,
    events,
    ran,
    go: opened.resolve,
    /** The verdicts of messages that come while the gate's transaction runs. */
    async gathered(messages: readonly Message[]): Promise<Verdict["because"][]> {
      const gate = inbox.consume(message("gate"));
      await within(begun.promise, "the gate's handler runs");
      const rest = messages.map((one) => inbox.consume(one));
      opened.resolve();
      const verdicts = await Promise.all([gate, ...rest]);
      return verdicts.slice(1).map(({ because }) => because);
    },
    of: (type: LatchkeyEvent["type"]) => events.filter((event) => event.type === type),
  };
}

function message(order: string, change: Partial<Message> = {}): Message {
  return {
    id: order,
    source: "orders",
    body: Buffer.from(JSON.stringify({ order })),
    contentType: "application/json",
    headers: {},
    redelivered: false,
    ...change,
  };
}

function afterMicrotasks(count: number, run: () => void): void {
  if (count === 0) run();
  else queueMicrotask(() => afterMicrotasks(count - 1, run));
}

const messages = (...orders: string[]) => orders.map((order) => message(order));

/** The names of committed orders, in groups that a transaction has written. */
async function committed(): Promise<string[][]> {
  const { rows } = await direct.query<{ names: string[] }>(
    "select array_agg(name order by name) as names from orders where name <> 'gate' group by by order by min(name)",
  );
  return rows.map(({ names }) => names);
}

async function records(): Promise<Record<string, string>> {
  const { rows } = await direct.query<{ key: string; state: string }>(
    "select key, state from latchkey.records where key <> 'gate' order by key",
  );
  return Object.fromEntries(rows.map(({ key, state }) => [key, state]));
}

const done = "completed";

describe("what has gathered while a transaction ran", () => {
  test("shares the next one, and each message has its record", async () => {
    const { gathered, pool } = setUp();
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "executed", "executed"]);
    expect(await committed()).toEqual([["a", "b", "c"]]);
    expect(await records()).toEqual({ a: done, b: done, c: done });
    await expectNoLeak(pool);
  });

  test("is at most batchSize, and runs in the order in which it came", async () => {
    const { gathered, ran } = setUp(insertOrder, { options: { batchSize: 2 } });
    await gathered(messages("c", "b", "a"));
    expect(await committed()).toEqual([["a"], ["b", "c"]]);
    expect(ran).toEqual(["gate", "c", "b", "a"]);
  });

  test("without batchSize every message has its own", async () => {
    const { gathered } = setUp(insertOrder, { options: { batchSize: false } });
    await gathered(messages("a", "b"));
    expect(await committed()).toEqual([["a"], ["b"]]);
  });

  test("what comes again has its own, too", async () => {
    const { gathered } = setUp();
    await gathered([message("a", { redelivered: true }), ...messages("b", "c")]);
    expect(await committed()).toEqual([["a"], ["b", "c"]]);
  });

  test("runs each handler where its message came from", async () => {
    const place = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const { inbox, go } = setUp(async (context) => {
      seen.push([context.input.order, place.getStore()]);
      await insertOrder(context);
    });
    const all = ["gate", "a", "b"].map((order) =>
      place.run(`of ${order}`, () => inbox.consume(message(order))),
    );
    go();
    await Promise.all(all);
    expect(seen).toEqual([
      ["gate", "of gate"],
      ["a", "of a"],
      ["b", "of b"],
    ]);
  });

  test("is given back when the inbox is closed before its turn", async () => {
    const { gathered, inbox, ran } = setUp(async (context) => {
      if (context.input.order === "gate") inbox.close();
      await insertOrder(context);
    });
    expect(await gathered(messages("a", "b"))).toEqual(["stopping", "stopping"]);
    expect(ran).toEqual(["gate"]);
    expect((await inbox.consume(message("late"))).because).toBe("stopping");
  });

  test("is given back when the inbox is closed while its batch runs; what has run is committed", async () => {
    const { gathered, inbox, ran } = setUp(async (context) => {
      await insertOrder(context);
      if (context.input.order === "a") inbox.close();
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "stopping", "stopping"]);
    expect(ran).toEqual(["gate", "a"]);
    expect(await committed()).toEqual([["a"]]);
    expect(await records()).toEqual({ a: done });
  });

  test("is given back when the inbox is closed and its batch is undone, instead of running again", async () => {
    const { gathered, inbox, ran, of } = setUp(async (context) => {
      await insertOrder(context);
      if (context.input.order !== "b") return;
      inbox.close();
      throw Object.assign(new Error("busy"), { code: "40001" });
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["stopping", "stopping", "stopping"]);
    expect(ran).toEqual(["gate", "a", "b"]);
    expect([await committed(), await records()]).toEqual([[], {}]);
    expect([...of("message_failed"), ...of("transaction_rerun")]).toEqual([]);
  });
});

describe("duplicates", () => {
  test("of a message in the same batch, and of one that is finished, do not run", async () => {
    const { inbox, gathered, ran } = setUp();
    await inbox.consume(message("old"));
    const verdicts = await gathered(messages("a", "a", "old", "b"));
    expect(verdicts).toEqual(["executed", "duplicate", "duplicate", "executed"]);
    expect(ran).toEqual(["old", "gate", "a", "b"]);
  });

  test("that say something else are dead letters", async () => {
    const { inbox, gathered } = setUp();
    await inbox.consume(message("old"));
    const other = Buffer.from(JSON.stringify({ order: "other" }));
    const verdicts = await gathered([
      ...messages("a"),
      message("a", { body: other }),
      message("old", { body: other }),
    ]);
    expect(verdicts).toEqual(["executed", "key-misuse", "key-misuse"]);
    expect(await committed()).toEqual([["a"], ["old"]]);
  });

  test("of what runs elsewhere are held, and the others commit", async () => {
    const over = deferred();
    const elsewhere = setUp(async (context) => {
      await insertOrder(context);
      await over.promise;
    });
    const running = elsewhere.inbox.consume(message("a"));
    await until(() => elsewhere.ran.length === 1);
    const { gathered, ran } = setUp(insertOrder, { options: { holdMs: 1 } });
    expect(await gathered(messages("a", "b"))).toEqual(["in-progress", "executed"]);
    expect(ran).toEqual(["gate", "b"]);
    over.resolve();
    expect((await running).because).toBe("executed");
  });
});

describe("a message whose handler fails", () => {
  test("is undone by itself, its effects too, and counted; the others commit", async () => {
    const { latchkey, gathered, of } = setUp(async ({ tx, input, attempt }) => {
      await tx.query(insert, [input.order]);
      attempt.enqueue(mail, input.order);
      if (input.order === "b") throw new Error("it does not work");
    });
    const mail = latchkey.effect<string, null>("mail", { deduplication: "none", execute: async () => null });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(await committed()).toEqual([["a", "c"]]);
    expect(await records()).toEqual({ a: done, c: done });
    const { rows } = await direct.query(
      "select r.key from latchkey.outbox o join latchkey.records r on r.id = o.record_id order by 1",
    );
    expect(rows).toEqual([{ key: "a" }, { key: "c" }, { key: "gate" }]);
    expect((await direct.query("select count(*)::int as n from latchkey.outbox")).rows).toEqual([{ n: 3 }]);
    expect(of("message_failed")).toMatchObject([{ failures: 1, errorCode: "handler-threw" }]);
    expect(of("transaction_rerun")).toEqual([]);
  });

  test("is a dead letter in the end, or at once where it is refused", async () => {
    const { inbox, gathered } = setUp(
      async (context) => {
        await insertOrder(context);
        if (context.input.order === "b") throw new Error("never");
        if (context.input.order === "c") throw new MessageRefused();
      },
      { options: { failuresMax: 2 } },
    );
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "refused"]);
    expect((await inbox.consume(message("b", { redelivered: true }))).because).toBe("failed");
    expect(await committed()).toEqual([["a"]]);
  });

  test.each(["throws its error", "swallows its error"])("with a statement's error, and %s", async (how) => {
    const { gathered, of } = setUp(async (context) => {
      await insertOrder(context);
      if (context.input.order !== "b") return;
      const failing = context.tx.query("insert into business values ($1, 2)", ["one"]);
      await (how === "throws its error" ? failing : failing.catch(() => {}));
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(await committed()).toEqual([["a", "c"]]);
    expect(of("message_failed")).toHaveLength(1);
    expect(of("transaction_rerun")).toEqual([]);
  });

  test("when all fail, each is counted once and runs once", async () => {
    const { gathered, ran, of } = setUp(async ({ input, ...context }) => {
      await insertOrder({ input, ...context });
      if (input.order !== "gate") throw new Error("no");
    });
    expect(await gathered(messages("a", "b"))).toEqual(["handler-failed", "handler-failed"]);
    expect(ran).toEqual(["gate", "a", "b"]);
    expect(of("message_failed")).toHaveLength(2);
    expect(await committed()).toEqual([]);
  });
});

describe("savepoints of the handler's own", () => {
  test("work as ever, also under one name", async () => {
    const { gathered } = setUp(async ({ tx, input }) => {
      await tx.query("savepoint mine");
      await tx.query(insert, [`${input.order} undone`]);
      await tx.query("rollback to savepoint mine");
      await tx.query(insert, [input.order]);
      await tx.query("savepoint mine");
      await tx.query(insert, [`${input.order} kept`]);
      if (input.order === "b") throw new Error("all of it goes");
      await tx.query("release savepoint mine");
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    const { rows } = await direct.query("select name from orders where name not like 'gate%' order by 1");
    expect(rows.map(({ name }) => name)).toEqual(["a", "a kept", "c", "c kept"]);
  });

  test("by a name that looks like Latchkey's do not keep half of a failed message", async () => {
    const names = ["latchkey_handler", "latchkey_part", "latchkey_message"];
    const { gathered } = setUp(async ({ tx, input }) => {
      await tx.query(insert, [input.order]);
      for (const name of names) await tx.query(`savepoint ${name}`);
      if (input.order === "b") throw new Error("all of it goes");
    });
    await gathered(messages("a", "b", "c"));
    expect(await committed()).toEqual([["a", "c"]]);
  });
});

describe("what ends the transaction for all", () => {
  test.each(["40001", "40P01"])(
    "a failure of class %s: all that ran run again, each by itself",
    async (code) => {
      let failures = 1;
      const { gathered, of, ran } = setUp(async (context) => {
        await insertOrder(context);
        if (context.input.order === "b" && failures-- > 0)
          await context.tx.query(`do $$ begin raise exception 'busy' using errcode = '${code}'; end $$`);
      });
      expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "executed", "executed"]);
      expect(ran.toSorted()).toEqual(["a", "a", "b", "b", "c", "gate"]);
      expect(of("transaction_rerun")).toMatchObject([{ because: "batch" }, { because: "batch" }]);
      expect(of("message_failed")).toEqual([]);
      expect((await committed()).flat().sort()).toEqual(["a", "b", "c"]);
    },
  );

  test("what comes after such a message is still at most batchSize", async () => {
    const { gathered } = setUp(
      async ({ tx, input }) => {
        await tx.query(insert, [input.order]);
        if (input.order === "a") await tx.query("set local statement_timeout = 5000");
      },
      { options: { batchSize: 3 } },
    );
    await gathered(messages("a", "b", "c", "d", "e"));
    expect(await committed()).toEqual([["a"], ["b", "c", "d"], ["e"]]);
  });

  test("a failure before it counts only if it comes again: it may have met what is gone", async () => {
    const first = new Set(["b", "c"]);
    const { gathered, of } = setUp(async ({ tx, input }) => {
      await tx.query(insert, [input.order]);
      if (!first.delete(input.order)) return;
      if (input.order === "b") throw new Error("a neighbour's row is in its way");
      throw Object.assign(new Error("busy"), { code: "40001" });
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "executed", "executed"]);
    expect(of("message_failed")).toEqual([]);
    expect((await committed()).flat().sort()).toEqual(["a", "b", "c"]);
  });

  test("a constraint that is checked at COMMIT: only the message that breaks it fails", async () => {
    await direct.query(insert, ["b"]);
    const { gathered, of } = setUp();
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(of("message_failed")).toMatchObject([{ errorCode: "sqlstate-23505" }]);
    expect(await committed()).toEqual([["a"], ["b"], ["c"]]);
  });

  test("a statement that was not waited for, and fails behind its message", async () => {
    const { gathered, of } = setUp(async ({ tx, input }) => {
      await tx.query(insert, [input.order]);
      if (input.order === "a") tx.query("insert into business values ('one', 2)").catch(() => {});
    });
    expect(await gathered(messages("a", "b"))).toEqual(["handler-failed", "executed"]);
    expect(await committed()).toEqual([["b"]]);
    expect(of("message_failed")).toHaveLength(1);
  });

  test("a message whose time is over fails; the others run again", async () => {
    const { gathered, ran } = setUp(
      async (context) => {
        await insertOrder(context);
        if (context.input.order === "b") await new Promise(() => {});
      },
      { operation: { transactionLimitMs: 2_000 } },
    );
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(ran.toSorted()).toEqual(["a", "a", "b", "c", "gate"]);
    expect((await committed()).flat()).toEqual(["a", "c"]);
  });

  test("a handler that commits: what has run in its transaction is unknown and does not run again", async () => {
    const clients: pg.PoolClient[] = [];
    const { pool, gathered, ran } = setUp(async (context) => {
      await insertOrder(context);
      if (context.input.order === "b")
        for (const client of clients) await client.query("commit").catch(() => {});
    });
    pool.on("acquire", (client) => clients.push(client));
    const verdicts = await gathered(messages("a", "b", "c"));
    expect(verdicts).toEqual(["outcome-unknown", "outcome-unknown", "executed"]);
    expect(ran).toEqual(["gate", "a", "b", "c"]);
    expect(await records()).toEqual({ a: "unknown", b: "unknown", c: done });
    await expectNoLeak(pool);
  });

  test.each([
    ["SET LOCAL", (order: string) => `set local app.of = '${order}'`],
    ["behind a comment", (order: string) => `/* orders.ts:7 */ set local app.of = '${order}'`],
    ["behind a line of comment", (order: string) => `-- orders.ts\nset local app.of = '${order}'`],
    ["behind another statement", (order: string) => `select 1; /* 7 */ set local app.of = '${order}'`],
    ["in a block", (order: string) => `do $$ begin perform set_config('app.of', '${order}', true); end $$`],
    ["in a procedure", (order: string) => `call set_app('${order}')`],
  ])("a setting that a message makes is not there for the next one: %s", async (_, set) => {
    await direct.query(
      "create or replace procedure set_app(name text) language sql as $$ select set_config('app.of', name, true) $$",
    );
    const seen: unknown[] = [];
    const { gathered } = setUp(async (context) => {
      const { rows } = await context.tx.query("select current_setting('app.of', true) as of");
      seen.push(rows[0].of || null);
      await context.tx.query(set(context.input.order));
      await insertOrder(context);
    });
    await gathered(messages("a", "b"));
    expect(seen).toEqual([null, null, null]);
    expect(await committed()).toEqual([["a"], ["b"]]);
  });

  test("the tx of a message is of no use after it", async () => {
    const kept: TestTx[] = [];
    const errors: unknown[] = [];
    const { gathered } = setUp(async (context) => {
      await insertOrder(context);
      for (const tx of kept) await tx.query(insert, ["stray"]).catch(({ code }) => errors.push(code));
      kept.push(context.tx);
    });
    await gathered(messages("a", "b"));
    expect(errors).toEqual(["tx-revoked", "tx-revoked", "tx-revoked"]);
    expect(await committed()).toEqual([["a", "b"]]);
  });
});

describe("a first statement that was not waited for", () => {
  const notAwaited = (tx: TestTx, order: string) =>
    void tx.query(`insert into orders (name) values ('${order}')`).catch(() => {});

  test.each(["40001", "40P01"])("and a failure of class %s: it is undone with the batch", async (code) => {
    let failures = 1;
    const { pool, gathered } = setUp(async ({ tx, input }) => {
      if (input.order !== "b" || failures-- <= 0) return void (await tx.query(insert, [input.order]));
      notAwaited(tx, "stray");
      throw Object.assign(new Error("busy"), { code });
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "executed", "executed"]);
    expect((await committed()).flat().toSorted()).toEqual(["a", "b", "c"]);
    await expectNoLeak(pool);
  });

  test("is undone with its own message", async () => {
    const { gathered } = setUp(async ({ tx, input }) => {
      notAwaited(tx, input.order);
      if (input.order === "b") throw new Error("it does not work");
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(await committed()).toEqual([["a", "c"]]);
  });

  test("is committed with its own message, whatever becomes of the next one", async () => {
    const { gathered } = setUp(async ({ tx, input }) => {
      if (input.order === "a") return notAwaited(tx, "a");
      await tx.query(insert, [input.order]);
      if (input.order === "b") throw new Error("it does not work");
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(await committed()).toEqual([["a", "c"]]);
  });

  test("is committed with the last message, too", async () => {
    const { pool, gathered } = setUp(async ({ tx, input }) => {
      if (input.order === "b") return notAwaited(tx, "b");
      await tx.query(insert, [input.order]);
    });
    expect(await gathered(messages("a", "b"))).toEqual(["executed", "executed"]);
    expect(await committed()).toEqual([["a", "b"]]);
    await expectNoLeak(pool);
  });

  test.each([
    ["sends nothing", null],
    ["does the same with parameters", insert],
  ])("and is sent as its handler answers, when the next message %s: each keeps its own", async (_, next) => {
    // How many microtasks lie between the handler's answer and the moment from which statements are refused is not fixed.
    for (let microtasks = 0; microtasks < 12; microtasks++) {
      const [a, b, c] = [`a${microtasks}`, `b${microtasks}`, `c${microtasks}`] as const;
      const own: readonly string[] = [a, b, c];
      const accepted: string[] = [];
      const note = (sent: Promise<unknown>, order: string) =>
        void sent.then(() => accepted.push(order)).catch(() => {});
      const { pool, gathered } = setUp(
        async ({ tx, input: { order } }) => {
          if (order === a)
            afterMicrotasks(microtasks, () =>
              note(tx.query(`insert into orders values ('${order}')`), order),
            );
          if (order === b && next !== null) note(tx.query(next, [order]), order);
          if (order !== c) return;
          await tx.query(insert, [order]);
          throw new Error("it does not work");
        },
        { options: { tenant: `shop-${microtasks}` }, operation: { writes: "none" } },
      );
      expect(await gathered(messages(...own))).toEqual(["executed", "executed", "handler-failed"]);
      const names = (await committed()).flat();
      expect(names.filter((name) => own.includes(name))).toEqual(accepted.toSorted());
      await expectNoLeak(pool);
    }
  });

  test("and waits for a lock: its batch does not wait as long as a transaction may", async () => {
    await direct.query(insert, ["locked"]);
    const holder = await direct.connect();
    await holder.query("begin");
    await holder.query("update orders set name = name where name = 'locked'");
    const { inbox, gathered } = setUp(
      async ({ tx, input }) => {
        await Promise.resolve();
        if (input.order !== "b") return void (await tx.query(insert, [input.order]));
        tx.query("update orders set name = $1 where name = 'locked'", ["b"]).catch(() => {});
        throw new Error("it does not work");
      },
      {
        statementTimeoutMs: 500,
        operation: { transactionLimitMs: 3_600_000 },
        options: { holdMs: 1 },
      },
    );
    // The server waits for the lock even when its client has gone, so what began in this transaction is still in progress.
    const verdicts = await gathered(messages("a", "b", "c")).finally(async () => {
      await holder.query("rollback");
      holder.release();
    });
    expect(verdicts).toEqual(["in-progress", "in-progress", "in-progress"]);
    await until(async () => (await inbox.consume(message("a"))).because !== "in-progress");
    expect((await committed()).flat().toSorted()).toEqual(["a", "locked"]);
  });
});

describe("a connection that is lost", () => {
  test("in the middle of the batch: no message counts as failed, and all run again", async () => {
    const { gathered, of } = setUp(insertOrder, { proxied: true });
    let inserts = 0;
    const hold = proxy.holdWhen(
      ({ sql }) => of("executed").length === 1 && /insert into orders/.test(sql ?? "") && ++inserts === 2,
    );
    const verdicts = gathered(messages("a", "b", "c"));
    await hold.held();
    hold.drop();
    expect(await verdicts).toEqual(["executed", "executed", "executed"]);
    expect(of("message_failed")).toEqual([]);
    expect((await committed()).flat().sort()).toEqual(["a", "b", "c"]);
  });

  test("at the batch's COMMIT, unsent: nothing is acknowledged, and all run again", async () => {
    const { gathered, ran, of } = setUp(insertOrder, { proxied: true });
    const hold = proxy.holdWhen((one) => of("executed").length === 1 && isCommit(one));
    const verdicts = gathered(messages("a", "b"));
    await hold.held();
    expect([of("executed").length, await committed()]).toEqual([1, []]);
    hold.drop();
    expect(await verdicts).toEqual(["executed", "executed"]);
    expect(ran.toSorted()).toEqual(["a", "a", "b", "b", "gate"]);
    expect((await committed()).flat()).toEqual(["a", "b"]);
  });

  test("at the COMMIT of a closed inbox, unsent: the messages are given back, and none is reported as run again", async () => {
    const { inbox, gathered, ran, of } = setUp(insertOrder, { proxied: true });
    const hold = proxy.holdWhen((one) => of("executed").length === 1 && isCommit(one));
    const verdicts = gathered(messages("a", "b"));
    await hold.held();
    inbox.close();
    hold.drop();
    expect(await verdicts).toEqual(["stopping", "stopping"]);
    expect(ran).toEqual(["gate", "a", "b"]);
    expect([await committed(), of("transaction_rerun")]).toEqual([[], []]);
  });

  test("before COMMIT's answer: one look-up decides for all", async () => {
    const { pool, gathered, of } = setUp(insertOrder, { proxied: true });
    const hold = proxy.holdReplyWhen((one) => of("executed").length === 1 && isCommitReply(one));
    const verdicts = gathered(messages("a", "b", "c", "d"));
    await hold.held();
    let acquired = 0;
    pool.on("acquire", () => {
      acquired += 1;
    });
    hold.drop();
    expect(await verdicts).toEqual(Array(4).fill("executed"));
    expect(acquired).toBe(1);
    await expectNoLeak(pool);
  });

  test("before COMMIT's answer: the records say that it happened, and nothing runs again", async () => {
    const { gathered, ran, of } = setUp(insertOrder, { proxied: true });
    const hold = proxy.holdReplyWhen((one) => of("executed").length === 1 && isCommitReply(one));
    const verdicts = gathered(messages("a", "b"));
    await hold.held();
    expect(of("executed")).toHaveLength(1);
    hold.drop();
    expect(await verdicts).toEqual(["executed", "executed"]);
    expect(ran).toEqual(["gate", "a", "b"]);
    expect(await committed()).toEqual([["a", "b"]]);
    const resolved = { resolved: "committed" };
    expect(of("commit_in_doubt")).toMatchObject([resolved, resolved]);
  });
});

describe("a message that cannot be looked up", () => {
  const longTenant = systemPorts.random.token().repeat(64);
  const tenant = ({ id }: Message) => (id === "b" ? longTenant : "shop");

  test("because its tenant is too long, fails alone; the others run", async () => {
    const { pool, gathered, ran, of } = setUp(insertOrder, { options: { tenant } });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(ran.toSorted()).toEqual(["a", "c", "gate"]);
    expect(of("message_failed")).toHaveLength(1);
    expect(of("transaction_rerun")).toEqual([]);
    await expectNoLeak(pool);
  });

  test("is the only dead letter", async () => {
    const { gathered, of } = setUp(insertOrder, { options: { tenant, failuresMax: 1 } });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "failed", "executed"]);
    expect(of("message_dead")).toHaveLength(1);
    const { rows } = await direct.query("select tenant = $1 as long from latchkey.messages", [longTenant]);
    expect(rows).toEqual([{ long: true }]);
  });

  test("in a batch that is closed before: nothing counts as failed", async () => {
    const { gathered, inbox, of } = setUp(
      async (context) => {
        if (context.input.order === "gate") inbox.close();
        await insertOrder(context);
      },
      { options: { tenant } },
    );
    expect(await gathered(messages("a", "b"))).toEqual(["stopping", "stopping"]);
    expect(of("message_failed")).toEqual([]);
  });

  test("because a later version has written its record, fails alone; the others run", async () => {
    const { gathered, of } = setUp();
    // This process has not seen the message finish, so it is looked up in the batch.
    await setUp().inbox.consume(message("b"));
    await direct.query(
      "alter table latchkey.records drop constraint records_state, drop constraint records_whole_shape",
    );
    await direct.query("update latchkey.records set state = 'of a later version'");
    try {
      expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
      expect(of("message_failed")).toHaveLength(1);
    } finally {
      await direct.query("truncate latchkey.records cascade");
      await direct.query(wholeShapes());
    }
  });
});

describe.each([
  ["in a batch", 20],
  ["in transactions of their own", false],
] as const)("what stays silent, for messages %s", (_, batchSize) => {
  /** Makes waiting for a codec short. */
  const portsWaiting = (limitMs: number) => ({
    ...systemPorts,
    clock: {
      ...systemPorts.clock,
      startTimer: ((delayMs, ...rest) =>
        systemPorts.clock.startTimer(
          delayMs === codecLimitMs ? limitMs : delayMs,
          ...rest,
        )) as Clock["startTimer"],
    },
  });
  const ports = portsWaiting(200);
  const silence = <T>() => new Promise<T>(() => {});
  const silentFor = (is: (context: CodecContext) => boolean): Codec => ({
    encode: (plain, context) => (is(context) ? silence() : plain),
    decode: (stored) => stored,
  });

  test("a limiter: the messages run, and the consumer can stop", async () => {
    let asked = 0;
    const consume = () => {
      asked += 1;
      return silence();
    };
    const service = { limits: { newKeys: { consume } } };
    const { pool, inbox, of } = setUp(insertOrder, { options: { batchSize }, service });
    const verdicts = messages("a", "b", "c", "d", "e").map((one) => inbox.consume(one));
    expect((await Promise.all(verdicts)).map(({ because }) => because)).toEqual(Array(5).fill("executed"));
    expect(of("limiter_error")).toMatchObject(Array(5).fill({ limit: "newKeys" }));
    if (batchSize !== false) expect(asked).toBeLessThan(5);
    inbox.close();
    await expectNoLeak(pool);
  });

  test("a codec for one of them: only that one fails", async () => {
    const codec = silentFor(({ key, part }) => key === "b" && part === "answer");
    const { pool, gathered, of } = setUp(insertOrder, { options: { batchSize }, service: { codec, ports } });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    expect(of("message_failed")).toMatchObject([{ errorCode: "codec-timeout" }]);
    expect((await committed()).flat().toSorted()).toEqual(["a", "c"]);
    await expectNoLeak(pool);
  });

  test("a codec for all: each fails, and the consumer can stop", async () => {
    const codec = silentFor(({ key, part }) => key !== "gate" && part === "answer");
    const { pool, inbox, gathered } = setUp(insertOrder, {
      options: { batchSize },
      service: { codec, ports },
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(Array(3).fill("handler-failed"));
    inbox.close();
    expect(await committed()).toEqual([]);
    await expectNoLeak(pool);
  });

  test("a codec for the first: the others wait for it side by side, not one after the other", async () => {
    const begun = Promise.withResolvers<void>();
    const codec: Codec = {
      encode: async (plain, { key, part }) => {
        if (part === "answer" && key === "a") await silence();
        if (part === "answer" && key === "b") await begun.promise;
        if (part === "answer" && key === "c") begun.resolve();
        return plain;
      },
      decode: (stored) => stored,
    };
    const { pool, gathered } = setUp(insertOrder, {
      options: { batchSize },
      service: { codec, ports: portsWaiting(3_000) },
    });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["handler-failed", "executed", "executed"]);
    await expectNoLeak(pool);
  });

  test("a codec for an effect's input", async () => {
    const codec = silentFor(({ key, part }) => key === "b" && part.startsWith("effect-input"));
    const { latchkey, pool, gathered } = setUp(
      async ({ tx, input, attempt }) => {
        await tx.query(insert, [input.order]);
        attempt.enqueue(mail, input.order);
      },
      { options: { batchSize }, service: { codec, ports } },
    );
    const mail = latchkey.effect<string, null>("mail", { deduplication: "none", execute: async () => null });
    expect(await gathered(messages("a", "b", "c"))).toEqual(["executed", "handler-failed", "executed"]);
    await expectNoLeak(pool);
  });

  test("a codec for summaries: they are missing, and the messages run", async () => {
    const codec = silentFor(({ part }) => part === "summary");
    const { pool, gathered, of } = setUp(insertOrder, {
      options: { batchSize },
      operation: { summary: { fields: ["order"] } },
      service: { codec, ports },
    });
    expect(await gathered(messages("a", "b"))).toEqual(["executed", "executed"]);
    expect(of("summary_failed")).toHaveLength(3);
    await expectNoLeak(pool);
  });
});

describe("is refused", () => {
  const pool = () => openPool(url);
  const make = (
    options: object,
    operation: object = {},
    store: object = postgresStore({ pool: pool(), notify: false }),
  ) => {
    const latchkey = createLatchkey({ store: store as never });
    return () =>
      createInbox(latchkey, latchkey.operation("op", operation), { tenant: "t", ...options }, async () => {});
  };

  test.each([1, 65, 2.5, 0, "many"])("a batchSize of %s", (batchSize) => {
    expect(make({ batchSize })).toThrow(/batchSize must be false, or a whole number from 2 to 64/);
  });

  test("for operations whose transactions cannot be shared", () => {
    expect(make({ batchSize: 2 }, { execution: "lease" })).toThrow(/only transactions are shared/);
    expect(make({ batchSize: 2 }, { isolation: "serializable" })).toThrow(/serializable/);
  });

  test("over a bridge without parts", () => {
    const { transactParts: _, ...bridge } = pgTransactions({ pool: pool() });
    const store = postgresStore({ pool: pool(), transactions: bridge, notify: false });
    expect(make({ batchSize: 2 }, {}, store)).toThrow(TypeError);
    expect(make({}, {}, store)).not.toThrow();
  });
});
