import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import {
  call,
  done,
  key,
  problem,
  type Refund,
  refundSchema,
  serve,
  shop,
  tenant,
  text,
} from "../../../../test/support/mcp-shop.ts";
import { createGate } from "../../../latchkey-conformance/src/http-conformance/case.ts";
import { NotExecuted } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { acp } from "../operations/policies/acp.ts";
import { memoryStore } from "../stores/memory.ts";
import { mcpProtect, mcpServe } from "./mcp.ts";

type Untyped = (...given: readonly unknown[]) => unknown;

describe.each(["modern", "legacy"] as const)("tools of an MCP server, %s protocol", (era) => {
  test("a repeated call does not run again, and gets the first result, marked", async () => {
    const { agent, runs } = shop(done);
    const client = await agent("acme", era);
    const first = await call(client, key);
    const replay = await call(client, key);
    expect(first).toMatchObject({ content: [{ text: "refunded 5 of o1" }], _meta: { own: 1 } });
    expect(first._meta).not.toHaveProperty("idempotent-replayed");
    expect(replay.content).toEqual(first.content);
    expect(replay._meta).toMatchObject({ own: 1, "idempotent-replayed": true });
    expect(runs).toEqual([{ order: "o1", cents: 5 }]);
  });
});

describe("the key", () => {
  test("may have either name, or both with the same value", async () => {
    const { agent, runs } = shop(done);
    const client = await agent();
    await call(client, key);
    const replay = await call(client, { idempotencyKey: "k1" });
    expect(replay._meta).toMatchObject({ "idempotent-replayed": true });
    expect(runs).toHaveLength(1);
  });

  test("different keys under two names are invalid, and so is a number or a placeholder", async () => {
    const { agent, runs } = shop(done);
    const client = await agent();
    for (const meta of [
      { ...key, idempotencyKey: "k2" },
      { idempotencyKey: 7 },
      { idempotencyKey: "null" },
    ]) {
      const refused = await call(client, meta);
      expect(refused.isError).toBe(true);
      expect(problem(refused)).toEqual({ code: "invalid-key", retryable: false, safe_new_key: true });
    }
    expect(runs).toEqual([]);
  });

  test("a call without one is refused, and the text says where to put it", async () => {
    const { agent, runs } = shop(done);
    const refused = await call(await agent(), {});
    expect(refused.isError).toBe(true);
    expect(text(refused)).toContain('_meta as "idempotency-key"');
    expect(problem(refused)).toEqual({ code: "missing-key", retryable: false, safe_new_key: true });
    expect(runs).toEqual([]);
  });

  test('with withoutKey "run", a call without one runs every time and stores nothing', async () => {
    const { agent, runs } = shop(done, { withoutKey: "run" });
    const client = await agent();
    for (const meta of [{}, {}, key, key]) expect(text(await call(client, meta))).toBe("refunded 5 of o1");
    expect(runs).toHaveLength(3);
  });

  test("without one, a transaction runs every time, too, and its records are forgotten at once", async () => {
    const ports = manualPorts();
    const { clock } = ports;
    const latchkey = createLatchkey({ store: memoryStore({ ports }), ports });
    const operation = latchkey.operation("refund", { writes: "none" });
    const protect = mcpProtect(latchkey, { tenant, withoutKey: "run" });
    let runs = 0;
    const agent = serve((server) => {
      const tool = protect(operation, async (refund: Refund) => {
        runs += 1;
        return done(refund);
      });
      server.registerTool("refund", { inputSchema: refundSchema }, tool);
    });
    const client = await agent();
    for (const meta of [{}, {}, key, key]) await call(client, meta);
    expect(runs).toBe(3);
    await clock.advance(1_000);
    const { recordCleaner } = await latchkey.work();
    expect(recordCleaner).toMatchObject({ forgotten: 2 });
  });

  test("may have other names, or be an argument; a chosen part of the arguments is compared", async () => {
    const named = shop(done, { metaNames: ["x-key"], replayMeta: "again", problemMeta: "why" });
    const client = await named.agent();
    await call(client, { "x-key": "k" });
    expect((await call(client, { "x-key": "k" }))._meta).toMatchObject({ again: true });
    expect((await call(client, key))._meta).toMatchObject({ why: { code: "missing-key" } });
    const inOrder = shop(done, { key: ({ order }) => order, input: ({ cents }) => cents });
    const other = await inOrder.agent();
    await call(other, {}, { order: "o9" });
    expect((await call(other, {}, { order: "o9" }))._meta).toMatchObject({ "idempotent-replayed": true });
    expect(problem(await call(other, {}, { order: "o9", cents: 6 }))).toMatchObject({ code: "key-misuse" });
  });

  test("is unique within the authenticated account", async () => {
    const { agent, runs } = shop(done);
    await call(await agent("acme"), key);
    const other = await call(await agent("other"), key, { cents: 7 });
    expect(text(other)).toBe("refunded 7 of o1");
    expect(runs).toHaveLength(2);
  });

  test("of another person in the account is refused", async () => {
    let person = "ada";
    const { agent, runs } = shop(done, { principal: () => person });
    const client = await agent();
    await call(client, key);
    person = "bob";
    expect(problem(await call(client, key))).toMatchObject({ code: "key-misuse", safe_new_key: false });
    expect(runs).toHaveLength(1);
  });

  test.each(["", "throw"])("nothing runs without a tenant (%j)", async (given) => {
    const tenantOf = () => {
      if (given === "throw") throw new Error("secret of the authentication");
      return given;
    };
    const { agent, runs } = shop(done, { tenant: tenantOf });
    const refused = await call(await agent(), key);
    expect(refused.isError).toBe(true);
    expect(text(refused)).toContain("tenant function threw or returned nothing");
    expect(runs).toEqual([]);
  });
});

describe("what a model reads", () => {
  test("other arguments under the key are misuse, in any order", async () => {
    const { agent, runs } = shop(done);
    const client = await agent();
    await call(client, key);
    const refused = await call(client, key, { cents: 6 });
    expect(refused.isError).toBe(true);
    expect(text(refused)).toContain("other arguments");
    expect(problem(refused)).toEqual({ code: "key-misuse", retryable: false, safe_new_key: false });
    const swapped = { name: "refund", arguments: { cents: 5, order: "o1" }, _meta: key };
    expect((await client.callTool(swapped))._meta).toMatchObject({ "idempotent-replayed": true });
    expect(runs).toHaveLength(1);
  });

  test("five equal calls at once run once; the others are asked to retry", async () => {
    const gate = createGate();
    const { agent, runs } = shop(async (refund) => {
      await gate.pass();
      return done(refund);
    });
    const client = await agent();
    const first = call(client, key);
    await gate.arrived;
    for (const refused of await Promise.all([1, 2, 3, 4].map(() => call(client, key)))) {
      expect(text(refused)).toContain("same idempotency key");
      expect(problem(refused)).toMatchObject({
        code: "in-progress",
        retryable: true,
        safe_new_key: false,
        retry_after_ms: expect.any(Number),
      });
    }
    gate.open();
    expect(text(await first)).toBe("refunded 5 of o1");
    expect(runs).toHaveLength(1);
  });

  test("an error of a handler under a lease leaves the outcome open: the call does not run again", async () => {
    const { agent, runs } = shop(async () => {
      throw new Error("socket hang up");
    });
    const client = await agent();
    for (const detail of ["The tool failed: socket hang up.", ""]) {
      const refused = await call(client, key);
      expect(text(refused)).toContain(`${detail} This call may or may not have taken effect.`.trim());
      expect(text(refused)).toContain("Do not use a new key");
      expect(problem(refused)).toMatchObject({ code: "outcome-unknown", safe_new_key: false });
    }
    expect(runs).toHaveLength(1);
  });

  test("an error that proves that nothing happened is an ordinary error, and the call runs again", async () => {
    let failing = true;
    const { agent, runs } = shop(async (refund) => {
      if (failing) throw new NotExecuted({ message: "the bank is closed" });
      return done(refund);
    });
    const client = await agent();
    const failed = await call(client, key);
    expect([failed.isError, text(failed), problem(failed)]).toEqual([true, "the bank is closed", undefined]);
    failing = false;
    expect(text(await call(client, key))).toBe("refunded 5 of o1");
    expect(runs).toHaveLength(2);
  });

  test("if the store is unreachable, nothing runs, and the failure is reported", async () => {
    const { agent, runs, events, setStoreDown } = shop(done);
    const client = await agent();
    setStoreDown(true);
    expect(problem(await call(client, key))).toEqual({
      code: "store-unavailable",
      retryable: true,
      safe_new_key: false,
      retry_after_ms: 1000,
    });
    expect(events.map(({ type }) => type)).toContain("store_error");
    setStoreDown(false);
    expect(text(await call(client, key))).toBe("refunded 5 of o1");
    expect(runs).toHaveLength(1);
  });

  test("a result that was too large to store", async () => {
    const { agent } = shop(done, {}, { answerLimitBytes: 10 });
    const client = await agent();
    expect(text(await call(client, key))).toBe("refunded 5 of o1");
    expect(problem(await call(client, key))).toMatchObject({ code: "answer-not-stored" });
  });
});

describe("construction", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("op");
  const run = async () => ({ body: null });
  const owned = latchkey.operation("owned", { execution: "lease", version: "1", run });
  const js = (what: unknown) => what as Untyped;

  test.each<[string, () => unknown, string]>([
    ["no tenant", () => js(mcpProtect)(latchkey, {}), "on whose behalf"],
    ["both", () => js(mcpProtect)(latchkey, { tenant, singleTenant: true }), "on whose behalf"],
    ["no names", () => mcpProtect(latchkey, { tenant, metaNames: [] }), "metaNames"],
    ["what without key", () => js(mcpProtect)(latchkey, { tenant, withoutKey: "pass" }), "refuse or run"],
    ["owned", () => js(mcpProtect(latchkey, { tenant }))(owned, done), "use serve"],
    ["not owned", () => js(mcpServe(latchkey, { tenant }))(operation, done), "has no `run` to serve"],
    [
      "another latchkey's",
      () => js(mcpProtect(createLatchkey({ store: memoryStore() }), { tenant }))(operation, done),
      "another latchkey",
    ],
  ])("refuses %s", (_, make, message) => {
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
  });

  test("refuses keys that are unique to a path", () => {
    const shopping = createLatchkey({ store: memoryStore(), policy: acp });
    const byPath = shopping.operation("op");
    const protect = mcpProtect(shopping, { tenant });
    expect(() => js(protect)(byPath, done)).toThrow('keyScope "path"');
  });

  test("serves a single user with singleTenant", async () => {
    const protect = mcpProtect(latchkey, { singleTenant: true });
    const tool = protect(latchkey.operation("one", { writes: "none" }), async () => ({ content: [] }));
    expect(await tool({}, { mcpReq: { _meta: key } })).toEqual({ content: [] });
    // As version 1 of the SDK passes it.
    expect(await tool({}, { _meta: key })).toMatchObject({ _meta: { "idempotent-replayed": true } });
  });
});
