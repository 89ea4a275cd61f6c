/** The decisions of the status resource, without a framework. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../errors.ts";
import { createLatchkey, type LatchkeyOptions } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import { fetchServe, fetchStatus } from "../fetch/fetch.ts";
import type { HttpOptions } from "./http-options.ts";
import { createStatus } from "./status.ts";

const id = "01890000-0000-7000-8000-000000000000";

function service(options: Partial<LatchkeyOptions<MemoryTransaction>> = {}) {
  const events: LatchkeyEvent[] = [];
  const memory = memoryStore();
  const asked: string[] = [];
  const store = {
    ...memory,
    async readById(tenant: string, wanted: string) {
      asked.push(wanted);
      if (tenant === "down") throw new StoreError("not_sent");
      return memory.readById(tenant, wanted);
    },
  };
  const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event), ...options });
  const http: HttpOptions<string> = { tenant: (request) => request };
  const ask = createStatus(latchkey, http);
  return {
    events,
    asked,
    latchkey,
    async ask(tenant: string, target = `/operations/${id}`, method = "GET") {
      const { reply } = await ask(tenant, { method, target });
      const text = Buffer.from(reply.body).toString("utf8");
      return { status: reply.status, code: text === "" ? null : JSON.parse(text).code };
    },
  };
}

describe("the id", () => {
  test.each([`/operations/${id}`, `/${id}`, `/v1/a/b/${id}?wait=1`, `/operations/${id}?next=/other`])(
    "is the last segment of the path: %s",
    async (target) => {
      const { ask, asked } = service();
      expect(await ask("t", target)).toEqual({ status: 404, code: "not-found" });
      expect(asked).toEqual([id]);
    },
  );

  test.each([
    "",
    "/",
    "/operations/",
    `/operations/${id}/`,
    `/operations/${id.toUpperCase()}A`,
    `/x?id=/${id}`,
  ])("is not in %j, and the store is not asked", async (target) => {
    const { ask, asked } = service();
    expect(await ask("t", target)).toEqual({ status: 404, code: "not-found" });
    expect(asked).toEqual([]);
  });

  test("is not looked up for a tenant that a store could not distinguish from another", async () => {
    const { ask, asked } = service();
    expect(await ask("a\0b")).toEqual({ status: 404, code: "not-found" });
    expect(asked).toEqual([]);
  });
});

test("HEAD is answered without a body", async () => {
  expect(await service().ask("t", `/operations/${id}`, "HEAD")).toEqual({ status: 404, code: null });
});

test("a store that is down is reported, and no longer called once the circuit breaker is open", async () => {
  const { ask, asked, events } = service({ circuitBreaker: { failureThreshold: 2, openMs: 60_000 } });
  for (let round = 0; round < 4; round++) {
    expect(await ask("down")).toEqual({ status: 503, code: "store-unavailable" });
  }
  expect(asked.length).toBe(2);
  expect(events.filter(({ type }) => type === "store_error").length).toBe(4);
  expect(events.some(({ type }) => type === "circuit_opened")).toBe(true);
});

test("a limit is counted by tenant and reported; a limiter that fails lets requests pass", async () => {
  const counted: string[] = [];
  const consume = (tenant: string) => {
    counted.push(tenant);
    if (tenant === "broken") return Promise.reject(new Error("the limiter is away"));
    return tenant === "busy" ? Promise.reject({ msBeforeNext: 1 }) : Promise.resolve();
  };
  const { ask, asked, events } = service({ limits: { lookups: { consume } } });
  expect((await ask("busy")).code).toBe("too-many-keys");
  expect(asked).toEqual([]);
  expect((await ask("broken")).code).toBe("not-found");
  expect((await ask("t")).code).toBe("not-found");
  expect(counted).toEqual(["busy", "broken", "t"]);
  expect(events.map(({ type }) => type)).toEqual(["too_many_keys", "limiter_error"]);
});

test("the tenant is required and determined first", async () => {
  const { latchkey, asked } = service();
  expect(() => createStatus(latchkey, {} as never)).toThrow(TypeError);
  const ask = createStatus(latchkey, { tenant: () => null });
  await expect(ask("t", { method: "GET", target: `/operations/${id}` })).rejects.toMatchObject({
    code: "tenant-missing",
  });
  const named = createStatus(latchkey, { tenant: () => "Bearer token" });
  await expect(named("t", { method: "GET", target: `/operations/${id}` })).rejects.toMatchObject({
    code: "identity-is-credential",
  });
  expect(asked).toEqual([]);
});

test("one key on two paths has two status resources, each of its own request", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const refund = latchkey.operation("items.refund", {
    execution: "deferred",
    keyScope: "path",
    version: "1",
    run: async (path: string) => ({ status: 201, body: { refunded: path } }),
  });
  const options = { tenant: () => "t", statusPath: "/operations" };
  const handle = fetchServe(latchkey, options)(refund, (request) => new URL(request.url).pathname);
  const status = fetchStatus(latchkey, options);
  const post = (path: string) =>
    handle(new Request(`http://api${path}`, { method: "POST", headers: { "Idempotency-Key": "one" } }));
  const paths = ["/items/1/refunds", "/items/2/refunds"];
  const accepted = await Promise.all(paths.map(post));
  expect(accepted.map((answer) => answer.status)).toEqual([202, 202]);
  const places = accepted.map((answer) => `http://api${answer.headers.get("location")}`);
  expect(new Set(places).size).toBe(2);
  const look = () => Promise.all(places.map((place) => status(new Request(place))));
  expect((await look()).map((answer) => answer.status)).toEqual([202, 202]);
  await latchkey.work({ untilMs: 60_000 });
  const results = await Promise.all((await look()).map((answer) => answer.json()));
  expect(results).toEqual(paths.map((path) => ({ refunded: path })));
  expect((await Promise.all(paths.map(post))).map((answer) => answer.status)).toEqual([201, 201]);
});
