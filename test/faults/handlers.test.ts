/** Handlers that do what they should not, over Express and a real Postgres. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import express from "express";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expressProtect, keepRawBody } from "../../packages/latchkey/src/http/express/express.ts";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { migratePostgres, type PgTx, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { expectNoLeak } from "../postgres/harness.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { deferred, until, within } from "../support/until.ts";

type Tx = PgTx<pg.Pool>;
type Handler = (req: express.Request, res: express.Response, context: { tx: Tx }) => unknown;

let database: FreshDatabase;
let pool: pg.Pool;
let server: Server;
let origin = "";
let handler: Handler = () => {};
/** The raw client that the latest protected request works on. */
let acquired: pg.PoolClient | undefined;
let starts = 0;
let key = 0;

beforeAll(async () => {
  database = await freshDatabase();
  pool = new pg.Pool({ connectionString: database.url, max: 4 });
  await migratePostgres(pool);
  pool.on("acquire", (client) => {
    acquired = client;
  });
  await pool.query(
    "create table orders (id integer generated always as identity, name text not null, sold text unique)",
  );
  const latchkey = createLatchkey({ store: postgresStore({ pool }) });
  const protect = expressProtect(latchkey, { tenant: (_req: express.Request) => "t" });
  const app = express().use(express.json({ verify: keepRawBody }));
  const operation = latchkey.operation("orders.create", { transactionLimitMs: 2_000 });
  app.post(
    "/orders",
    protect(operation, (req, res, context) => {
      starts += 1;
      return handler(req, res, context);
    }),
  );
  app.use(((error, _req, res, _next) => {
    res.status(500).json({ error: error.code ?? error.message });
  }) satisfies express.ErrorRequestHandler);
  server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(async () => {
  server?.close();
  await expectNoLeak(pool);
  await pool?.end();
  await database?.drop();
});

beforeEach(() => {
  key += 1;
  starts = 0;
});

async function post(signal: AbortSignal | null = null) {
  const response = await fetch(`${origin}/orders`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": `key-${key}` },
    body: '{"a":1}',
    signal,
  });
  return {
    status: response.status,
    body: await response.text(),
    replayed: response.headers.has("idempotent-replayed"),
  };
}

const insert = (tx: Tx) => tx.query("insert into orders (name) values ($1) returning id", [`key-${key}`]);

async function orders(): Promise<number> {
  const { rows } = await pool.query("select count(*)::int as count from orders where name = $1", [
    `key-${key}`,
  ]);
  return rows[0].count;
}

const good: Handler = async (_req, res, { tx }) => {
  const { rows } = await insert(tx);
  res.status(201).json(rows[0]);
};

async function expectRetryRuns(): Promise<void> {
  handler = good;
  expect(await post()).toMatchObject({ status: 201, replayed: false });
  expect(await orders()).toBe(1);
}

describe("a handler that", () => {
  test("throws after an insert: nothing stays, the retry runs", async () => {
    handler = async (_req, _res, { tx }) => {
      await insert(tx);
      throw new Error("no stock");
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"no stock"}' });
    expect(await orders()).toBe(0);
    await expectRetryRuns();
  });

  test("answers and then throws: nothing stays, its answer is not sent", async () => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      res.status(201).json({ charged: true });
      throw new Error("afterthought");
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"afterthought"}' });
    await expectRetryRuns();
  });

  test("never answers: rolled back at its limit, the retry runs", async () => {
    handler = async (_req, _res, { tx }) => {
      await insert(tx);
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"attempt-limit"}' });
    expect(await orders()).toBe(0);
    await expectRetryRuns();
  });

  test("answers twice: the first answer counts", async () => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      res.status(201).json({ first: true });
      res.status(202).json({ second: true });
    };
    const first = await post();
    expect(first).toMatchObject({ status: 201, body: '{"first":true}' });
    expect(await post()).toEqual({ ...first, replayed: true });
    expect(await orders()).toBe(1);
  });

  test("uses tx after it has answered: refused, and the answer stands", async () => {
    const late = deferred<unknown>();
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      res.once("finish", () => {
        setImmediate(() => insert(tx).then(late.resolve, late.resolve));
      });
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 201 });
    expect(await within(late.promise, "the late use of tx")).toMatchObject({ code: "tx-revoked" });
    expect(await orders()).toBe(1);
  });

  test("ignores tx and writes through the pool: an error, because that write is not protected", async () => {
    handler = async (_req, res) => {
      await pool.query("select 1");
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"tx-unused"}' });
  });

  test.each(["commit", "rollback", "begin", "select 1; commit"])("sends %j itself: refused", async (sql) => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      await tx.query(sql);
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"transaction-control"}' });
    expect(await orders()).toBe(0);
    await expectRetryRuns();
  });

  test("gets a COMMIT past the guard: its writes stay, its outcome is unknown, and it never runs again", async () => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      await acquired?.query("commit");
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 409, body: expect.stringContaining("outcome-unknown") });
    expect(await orders()).toBe(1);
    handler = good;
    expect(await post()).toMatchObject({ status: 409, body: expect.stringContaining("outcome-unknown") });
    expect(starts).toBe(1);
  });

  test("loses its session in the middle: an error, nothing stays, the retry runs", async () => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      await pool.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction' and datname = current_database()",
      );
      res.status(201).json({});
    };
    const reply = await post();
    if (reply.status !== 201) expect(reply.status).toBeGreaterThanOrEqual(500);
    await until(async () => (await post()).status !== 409, { what: "the session is gone" });
    handler = good;
    expect(await post()).toMatchObject({ status: 201 });
    expect(await orders()).toBe(1);
  });

  test("swallows a SQL error and answers 2xx: an error, nothing stays", async () => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      await tx.query("select 1/0").catch(() => {});
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"transaction-aborted"}' });
    expect(await orders()).toBe(0);
    await expectRetryRuns();
  });

  test("turns a SQL error into a 4xx: sent, not stored, the retry runs", async () => {
    handler = async (_req, res, { tx }) => {
      await tx.query("select 1/0").catch(() => {});
      res.status(400).json({ refused: true });
    };
    expect(await post()).toMatchObject({ status: 400, replayed: false });
    expect(await post()).toMatchObject({ status: 400, replayed: false });
    expect(starts).toBe(2);
    await expectRetryRuns();
  });

  test("fires a query without awaiting it: it is part of the transaction, or all of it fails", async () => {
    handler = async (_req, res, { tx }) => {
      void insert(tx);
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 201 });
    expect(await orders()).toBe(1);
  });

  test("streams: the whole stream is the answer and is replayed byte for byte", async () => {
    handler = async (_req, res, { tx }) => {
      await insert(tx);
      res.status(200).type("text/plain");
      Readable.from(["one,", "two,", "three"]).pipe(res);
    };
    const first = await post();
    expect(first).toMatchObject({ status: 200, body: "one,two,three" });
    expect(await post()).toEqual({ ...first, replayed: true });
    expect(starts).toBe(1);
  });

  test("meets a serialization failure: it runs again on a clean response", async () => {
    let runs = 0;
    handler = async (_req, res, { tx }) => {
      runs += 1;
      await insert(tx);
      if (runs === 1) {
        res.status(299).set("x-first", "1");
        await tx.query("do $$ begin raise sqlstate '40001'; end $$");
      }
      res.json({ runs });
    };
    expect(await post()).toMatchObject({ status: 200, body: '{"runs":2}' });
    expect(await orders()).toBe(1);
  });

  test("violates a deferred constraint: COMMIT refuses, nothing stays", async () => {
    await pool.query("alter table orders drop constraint orders_sold_key");
    await pool.query(
      "alter table orders add constraint orders_sold_key unique (sold) deferrable initially deferred",
    );
    handler = async (_req, res, { tx }) => {
      await tx.query("insert into orders (name, sold) values ($1, 'x'), ($1, 'x')", [`key-${key}`]);
      res.status(201).json({});
    };
    expect(await post()).toMatchObject({ status: 500, body: '{"error":"23505"}' });
    expect(await orders()).toBe(0);
    await expectRetryRuns();
  });
});

test("a client that hangs up: the handler finishes, and the retry gets its answer", async () => {
  const started = deferred();
  const go = deferred();
  handler = async (_req, res, { tx }) => {
    started.resolve();
    await go.promise;
    await insert(tx);
    Readable.from(["piped ", "to nobody"]).pipe(res.status(201));
  };
  const abort = new AbortController();
  const lost = post(abort.signal).catch(() => "hung up");
  await started.promise;
  abort.abort();
  expect(await lost).toBe("hung up");
  go.resolve();
  const retry = await until(async () => {
    const reply = await post();
    return reply.status === 201 ? reply : undefined;
  });
  expect(retry).toEqual({ status: 201, body: "piped to nobody", replayed: true });
  expect(starts).toBe(1);
  expect(await orders()).toBe(1);
});
