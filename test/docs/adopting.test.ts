/** What docs/adopting.md and docs/upgrading.md say beside their snippets, which are only compiled. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import express from "express";
import pg from "pg";
import { afterEach, expect, test } from "vitest";
import {
  expressProtect,
  expressRecord,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { createLatchkey, type Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import {
  migratePostgres,
  migratePostgresSql,
  postgresStore,
} from "../../packages/latchkey/src/stores/postgres.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { listen } from "../support/listen.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

test("Drizzle applies the printed SQL as a migration of its own, and the tables are whole", async () => {
  const database = await freshDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  closing.push(database.drop, () => pool.end());
  const folder = scratchDirectory("us");
  closing.push(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, "meta"));
  const entries = [{ idx: 0, version: "7", when: 1, tag: "0000_latchkey", breakpoints: true }];
  writeFileSync(
    join(folder, "meta/_journal.json"),
    JSON.stringify({ version: "7", dialect: "postgresql", entries }),
  );
  writeFileSync(join(folder, "0000_latchkey.sql"), migratePostgresSql());
  for (let round = 0; round < 2; round++) await migrate(drizzle(pool), { migrationsFolder: folder });
  await postgresStore({ pool }).verify();
  expect((await migratePostgres(pool)).applied).toEqual([]);
});

test("serving migrates nothing: without tables it is refused at the start, and at the first request", async () => {
  const database = await freshDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  closing.push(database.drop, () => pool.end());
  const store = postgresStore({ pool });
  await expect(store.verify()).rejects.toMatchObject({ code: "schema-invalid" });
  const latchkey = createLatchkey({ store });
  const work = latchkey.run(latchkey.operation("run"), { tenant: "t", key: "k", input: 1 }, async () => 1);
  await expect(work).rejects.toMatchObject({ code: "schema-invalid" });
  const tables = await pool.query("select from pg_namespace where nspname = 'latchkey'");
  expect(tables.rows).toEqual([]);
});

test("a code that needs other tables than there are refuses at the start", async () => {
  const database = await freshDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  closing.push(database.drop, () => pool.end());
  await migratePostgres(pool);
  await pool.query("update latchkey.settings set value = '9' where name = 'schema_version'");
  await expect(postgresStore({ pool }).verify()).rejects.toMatchObject({ code: "schema-invalid" });
});

test("a renamed operation does not know the keys of its old name", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const request = { tenant: "t", key: "k", input: 1 };
  const run = (name: string) =>
    latchkey.run(latchkey.operation(name, { execution: "lease" }), request, async () => name);
  expect(await run("orders.create")).toMatchObject({ kind: "executed" });
  expect(await run("orders.new")).toMatchObject({ kind: "executed" });
});

test("a result is what is left of it after one trip through JSON; what has no JSON fails", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("run", { execution: "lease" });
  const dated = await latchkey.run(operation, { tenant: "t", key: "k", input: 1 }, async () => ({
    at: new Date(0),
  }));
  expect(dated).toMatchObject({ kind: "executed", value: { at: "1970-01-01T00:00:00.000Z" } });
  const big = latchkey.run(operation, { tenant: "t", key: "l", input: 1 }, async () => 1n);
  await expect(big).rejects.toThrow(TypeError);
});

async function serve(app: express.Express) {
  const { url, close } = await listen(app);
  closing.push(close);
  return (target: string, key: string | null, method = "POST") => send(url, { target, key, method });
}

const single = { singleTenant: true } as const;

function recorded(latchkey: Latchkey<unknown>): express.Express {
  const record = expressRecord(latchkey, { ...single, markIgnored: true });
  return express().use(
    express.json({ verify: keepRawBody }),
    record(latchkey.operation("app", { execution: "lease", key: "optional" })),
  );
}

test("a recorded app: one key for two routes is misuse, a throw leaves an unknown outcome, other methods pass", async () => {
  const app = recorded(createLatchkey({ store: memoryStore() }));
  app.post("/orders", (_req, res) => void res.status(201).end("made"));
  app.post("/invoices", (_req, res) => void res.status(201).end("made"));
  app.post("/broken", () => {
    throw new Error("on purpose");
  });
  app.put("/orders", (_req, res) => void res.end("put"));
  app.use(((_error, _req, res, _next) => void res.status(500).end()) as express.ErrorRequestHandler);
  const call = await serve(app);
  const key = newKey();
  expect((await call("/orders", key)).status).toBe(201);
  expect((await call("/orders", key)).header("idempotent-replayed")).toBe("true");
  expect((await call("/invoices", key)).json().code).toBe("key-misuse");
  const broken = newKey();
  expect((await call("/broken", broken)).status).toBe(500);
  expect((await call("/broken", broken)).json().code).toBe("outcome-unknown");
  expect((await call("/orders", newKey(), "PUT")).header("idempotency-status")).toBe("ignored");
});

test("an old middleware's answer is taken over, and replayed from then on", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const protect = expressProtect(latchkey, single);
  const old = new Map([["old-key", { status: 201, body: { id: 7 } }]]);
  let asked = 0;
  const app = express();
  const handler = protect(
    latchkey.operation("orders.create", { execution: "transaction", writes: "none" }),
    (req: express.Request, res: express.Response) => {
      asked += 1;
      const kept = old.get(req.get("idempotency-key") ?? "");
      if (kept !== undefined) return res.status(kept.status).json(kept.body);
      return res.status(201).json({ id: 8 });
    },
  );
  app.post("/orders", handler);
  const call = await serve(app);
  expect((await call("/orders", "old-key")).json()).toEqual({ id: 7 });
  old.clear();
  const replay = await call("/orders", "old-key");
  expect(replay.json()).toEqual({ id: 7 });
  expect(replay.header("idempotent-replayed")).toBe("true");
  expect(asked).toBe(1);
});
