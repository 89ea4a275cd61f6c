/** Header lines that break out of their line, and keys by the hundred: through every adapter, and on Postgres. */
import { createLatchkey, type LatchkeyEvent, type Result } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { postgresStore } from "latchkey/postgres";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { AppUnderTest } from "../../packages/latchkey-conformance/src/http-conformance/case.ts";
import {
  requestBytes,
  send,
  sendBytes,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { apps } from "../http/apps.ts";
import { openPool, prepareDatabase } from "../postgres/harness.ts";
import { expressListener, recordedExpress } from "../registry/frameworks/express/suite.ts";
import { listen } from "../support/listen.ts";
import { releaseAll } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

afterAll(releaseAll);

type Route = Extract<AppUnderTest<unknown>["route"], { execution: "lease" }>;

function appOf<Tx>(
  latchkey: AppUnderTest<Tx>["latchkey"],
  handle: Route["handle"] = async () => ({ status: 201, body: "done" }),
): AppUnderTest<Tx> {
  const operation = latchkey.operation("run", { execution: "lease" });
  return {
    latchkey,
    settings: {},
    tenant: (header) => header("x-tenant") ?? null,
    principal: () => null,
    route: { method: "POST", path: "/run", execution: "lease", operation, handle },
  };
}

const hostile = [
  ["Location", "/a\r\nX-Injected: 1"],
  ["Location", "/a\nX-Injected: 1"],
  ["Location", "/a\r\n\r\n<p>X-Injected"],
  ["Link\r\nX-Injected", "1"],
  ["ETag", '"\0"'],
] as const;

describe.each([...apps, recordedExpress])("$name", ({ serve }) => {
  test("a header that was written into the store by hand cannot break out of its line", async () => {
    // Hono's server for Node prints what it could not send.
    const silenced = vi.spyOn(console, "error").mockImplementation(() => {});
    for (const [name, value] of hostile) {
      const real = createLatchkey<unknown>({ store: memoryStore() });
      const answer = {
        status: 200,
        headers: [[name, value] as const],
        body: Buffer.from("stored"),
        omitted: null,
      };
      const result: Result = { kind: "replay", recordId: "r", answer, expiresAt: 0 };
      const server = await serve(appOf({ ...real, execute: async () => result }));
      const exchange = sendBytes(server.url, requestBytes(["Idempotency-Key: k"], ""));
      await exchange.closed;
      const received = exchange.received().toString("latin1");
      expect(received).not.toMatch(/X-Injected/u);
      expect(received).toMatch(/^HTTP\/1\.1 500 /u);
      await server.close();
    }
    silenced.mockRestore();
  });
});

const keySecret = "0123456789abcdef0123456789abcdef";
const canary = "canary.4711@example.org";

describe("on Postgres", () => {
  async function openService(options: { keySecret?: string }) {
    const database = await freshDatabase();
    await prepareDatabase(database.url);
    const pool = openPool(database.url);
    const store = postgresStore({ pool });
    const events: LatchkeyEvent[] = [];
    const newKeys = new RateLimiterMemory({ points: 20, duration: 600 });
    const latchkey = createLatchkey({
      store,
      limits: { newKeys },
      onEvent: (event) => events.push(event),
      ...options,
    });
    /** Every row of every table of Latchkey's, as text. */
    const dump = async () => {
      const tables = await pool.query<{ name: string }>(
        "select quote_ident(tablename) as name from pg_tables where schemaname = 'latchkey'",
      );
      const rows = await Promise.all(
        tables.rows.map(({ name }) => pool.query(`select * from latchkey.${name} as t`)),
      );
      return rows.map((result) => result.rows);
    };
    const close = async () => {
      await store.close();
      await pool.end();
      await database.drop();
    };
    return { latchkey, pool, events, dump, close };
  }

  test.each([{ keySecret }, {}])(
    "with %j: keys are in the database only where they may be",
    async (options) => {
      const { latchkey, events, dump, close } = await openService(options);
      let fail = true;
      const app = appOf(latchkey, async () => {
        if (fail) throw new Error("failed on purpose");
        return { status: 201, body: "done" };
      });
      const server = await listen(expressListener(app));
      const call = { key: `"${canary}"` };
      const answers = [await send(server.url, call), await send(server.url, call)];
      fail = false;
      const second = { key: `"${canary}-2"` };
      const [first, ...others] = await Promise.all(
        Array.from({ length: 10 }, () => send(server.url, second)),
      );
      const replay = await send(server.url, second);
      expect(replay.header("idempotent-replayed")).toBe("true");
      answers.push(await send(server.url, { ...second, body: '{"amount":2}' }), replay, ...others);
      if (first !== undefined) answers.push(first);
      const within = latchkey.operation("within", { execution: "transaction", writes: "none" });
      const request = { tenant: "t", key: canary, input: 1 };
      for (const kind of ["executed", "replay"]) {
        expect(await latchkey.run(within, request, async () => "done")).toMatchObject({ kind });
      }
      await server.close();
      const kept = JSON.stringify(await dump(), (_name, value) =>
        value?.type === "Buffer" ? Buffer.from(value.data).toString("latin1") : value,
      );
      await close();
      expect(kept).toContain("tenant-1");
      expect(kept.includes(canary)).toBe(!("keySecret" in options));
      for (const answer of answers) expect(answer.body.toString()).not.toContain(canary);
      expect(JSON.stringify(events, errorsToo)).not.toContain(canary);
      const keys = new Set(events.flatMap((event) => ("keyHash" in event ? [event.keyHash] : [])));
      expect(keys.size, "each key has one name in the events").toBe(3);
    },
  );

  test("a tenant that sprays keys fills neither the store nor another tenant's limit", async () => {
    const { latchkey, pool, close } = await openService({});
    const server = await listen(expressListener(appOf(latchkey)));
    const sprayed = await Promise.all(
      Array.from({ length: 200 }, (_, index) => send(server.url, { key: `spray-${index}` })),
    );
    const statuses = sprayed.map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(20);
    expect(statuses.filter((status) => status === 429)).toHaveLength(180);
    expect((await send(server.url, { tenant: "tenant-2" })).status).toBe(201);
    const used = statuses.indexOf(201);
    expect((await send(server.url, { key: `spray-${used}` })).header("idempotent-replayed")).toBe("true");
    const { rows } = await pool.query<{ records: number }>(
      "select count(*)::integer as records from latchkey.records",
    );
    expect(rows[0]?.records).toBe(21);
    await server.close();
    await close();
  });
});

function errorsToo(_name: string, value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  return { ...value, message: value.message, stack: value.stack, cause: value.cause };
}
