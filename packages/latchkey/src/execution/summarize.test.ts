/** A request's summary, stored with its record: over HTTP and without, on every execution, on a real Postgres. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPlace, type Place } from "../../../../test/cli/arrange.ts";
import { encryptionCodec } from "../encryption.ts";
import { fetchProtect } from "../http/fetch/fetch.ts";
import type { LatchkeyOptions } from "../latchkey.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operations/operation.ts";
import { createOperator } from "../operator/index.ts";
import { memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

let made = 0;

function serviceOf(options: Partial<LatchkeyOptions<unknown>> = {}, ofOperation: OperationOptions = {}) {
  made += 1;
  const events: LatchkeyEvent[] = [];
  const store = options.store ?? place.store;
  const latchkey = createLatchkey<unknown>({
    strict: false,
    onEvent: (event) => events.push(event),
    ...options,
    store,
  });
  const tenant = `summaries-${made}`;
  const operation = latchkey.operation("payments.create", ofOperation as OperationOptions<"lease">);
  const handle = fetchProtect(latchkey, { tenant: () => tenant })(operation, async () =>
    Response.json({ ok: true }, { status: 201 }),
  );
  const post = (key: string, body: unknown, path = "/payments?token=secret") =>
    handle(
      new Request(`http://localhost${path}`, {
        method: "POST",
        headers: { "Idempotency-Key": `"${key}"`, "Content-Type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
  const operator = createOperator({ latchkey });
  const summaryOf = async (key: string) => {
    const found = await operator.inspect({ tenant, operation: "payments.create", key });
    return found.kind === "record" ? found.report.summary : found.kind;
  };
  return { latchkey, operation, post, summaryOf, events, tenant };
}

const body = { amount: 500, card: "4242 4242 4242 4242", customer: { id: "c-1", mail: "a@b.example" } };
const fields = ["amount", "customer.id", "missing"];

describe("the summary of a request", () => {
  test.each(["transaction", "lease"] as const)(
    "under %s: method, path without query, and the chosen fields",
    async (execution) => {
      const { post, summaryOf } = serviceOf({}, { execution, summary: { fields } });
      expect((await post("k", body)).status).toBe(201);
      const first = {
        value: { method: "POST", path: "/payments", fields: { amount: 500, "customer.id": "c-1" } },
      };
      expect(await summaryOf("k")).toEqual(first);
      await post("k", body);
      expect(await summaryOf("k"), "a replay changes nothing").toEqual(first);
    },
  );

  test("is stored for deferred work, from its input, before a worker has seen it", async () => {
    const { latchkey, tenant, summaryOf } = serviceOf();
    const later = latchkey.operation("payments.later", {
      execution: "deferred",
      version: "1",
      summary: { fields: ["amount"] },
      run: async () => ({ status: 201, headers: {}, body: null }),
    });
    const accepted = await latchkey.run(later, { tenant, key: "k", input: body });
    if (accepted.kind !== "accepted") throw new Error("it waits for a worker");
    const found = await createOperator({ latchkey }).inspect(accepted.recordId);
    expect(found.kind === "record" && found.report.summary).toEqual({
      value: { method: null, path: null, fields: { amount: 500 } },
    });
    expect(await summaryOf("k"), "of another operation").toBe("not_found");
  });

  test("is available when the outcome is unknown, which is when people need it", async () => {
    const { latchkey, operation, tenant, summaryOf } = serviceOf(
      {},
      { execution: "lease", summary: { fields } },
    );
    const request = { tenant, key: "k", input: body };
    await latchkey.run(operation, request, () => Promise.reject(new Error("no answer"))).catch(() => {});
    expect(await summaryOf("k")).toMatchObject({ value: { fields: { amount: 500 } } });
  });

  test("is off by default; the latchkey may turn it on for all, and an operation may differ", async () => {
    const off = serviceOf();
    await off.post("k", body);
    expect(await off.summaryOf("k")).toBeNull();
    const on = serviceOf({ summary: true });
    await on.post("k", body);
    expect(await on.summaryOf("k")).toEqual({ value: { method: "POST", path: "/payments", fields: {} } });
    const differs = serviceOf({ summary: true }, { summary: false });
    await differs.post("k", body);
    expect(await differs.summaryOf("k")).toBeNull();
  });

  test("is bounded: long texts are shortened, large values and what does not fit are left out", async () => {
    const names = Array.from({ length: 20 }, (_, at) => `f${at}`);
    const { post, summaryOf } = serviceOf({}, { summary: { fields: [...names.slice(1), "f0"] } });
    const long = "ü\u{1F511}".repeat(300);
    const large = Object.fromEntries(names.map((name) => [name, long]));
    await post("long", { ...large, f1: Array.from({ length: 500 }, () => 1) }, `/${"p".repeat(900)}`);
    const found = await summaryOf("long");
    if (found === null || typeof found === "string" || !("value" in found)) throw new Error("it is kept");
    expect(Buffer.byteLength(JSON.stringify(found.value))).toBeLessThanOrEqual(4_096);
    expect(found.value).toMatchObject({ truncated: true, fields: { f1: "…" } });
    const { path, fields: kept } = found.value as { path: string; fields: Record<string, string> };
    expect(path).toHaveLength(501);
    expect(kept.f0).toMatch(/…$/u);
    expect(kept.f0?.isWellFormed()).toBe(true);
  });

  test("passes the redaction, and is not stored if that removes it or fails", async () => {
    const asked: unknown[] = [];
    const redact = (value: unknown, about: unknown) => {
      asked.push(about);
      if (JSON.stringify(value).includes("boom")) throw new Error("cannot be redacted");
      return JSON.stringify(value).includes("hidden") ? undefined : { was: "redacted" };
    };
    const { post, summaryOf, events, tenant } = serviceOf({ redact }, { summary: { fields: ["amount"] } });
    await post("k", { amount: 1 });
    expect(await summaryOf("k")).toEqual({ value: { was: "redacted" } });
    expect(asked).toEqual([{ part: "summary", operation: "payments.create", tenant }]);
    await post("hidden", { amount: "hidden" });
    expect(await summaryOf("hidden")).toBeNull();
    expect((await post("boom", { amount: "boom" })).status, "no request fails for it").toBe(201);
    expect(await summaryOf("boom")).toBeNull();
    expect(events.filter(({ type }) => type === "summary_failed")).toMatchObject([
      { operation: "payments.create", error: { message: "cannot be redacted" } },
    ]);
  });

  test("is encrypted by the service's codec, bound to its record", async () => {
    const codec = encryptionCodec({ keys: { a: randomBytes(32) }, current: "a" });
    const { post, summaryOf, tenant } = serviceOf({ codec }, { summary: { fields: ["amount"] } });
    await post("k", { amount: "PLAINTEXT-CANARY" });
    expect(await summaryOf("k")).toMatchObject({ value: { fields: { amount: "PLAINTEXT-CANARY" } } });
    const { rows } = await place.pool.query("select summary from latchkey.records where tenant = $1", [
      tenant,
    ]);
    expect(Buffer.from(rows[0]?.summary).includes("CANARY")).toBe(false);
    const plain = createOperator({ latchkey: createLatchkey({ store: place.store }) });
    const without = await plain.inspect({ tenant, operation: "payments.create", key: "k" });
    expect(without.kind === "record" && without.report.summary).toEqual({ unreadable: expect.any(Number) });
  });

  test("a body that is not JSON has no fields, and the request runs", async () => {
    const { latchkey, operation, tenant, summaryOf } = serviceOf({}, { summary: { fields } });
    const handle = fetchProtect(latchkey, { tenant: () => tenant })(
      operation,
      async () => new Response("ok"),
    );
    const headers = { "Idempotency-Key": '"k"', "Content-Type": "text/plain" };
    const sent = new Request("http://localhost/x", { method: "PUT", headers, body: "{not json" });
    expect((await handle(sent)).status).toBe(200);
    expect(await summaryOf("k")).toEqual({ value: { method: "PUT", path: "/x", fields: {} } });
  });

  test.each([
    [{ summary: { fields: ["a", "a"] } }, /twice/],
    [{ summary: { fields: [""] } }, /member name/],
    [{ summary: { fields: Array.from({ length: 21 }, (_, at) => `f${at}`) } }, /at most 20/],
    [{ summary: { field: ["a"] } }, /there is no option "field"/],
  ])("refuses %j", (options: object, message) => {
    expect(() => serviceOf({ store: memoryStore() }, options)).toThrow(message);
    expect(() => serviceOf({ store: memoryStore(), ...options })).toThrow(message);
  });

  test("is refused with a store that has none", () => {
    const { summaries: _, ...store } = memoryStore();
    expect(() => serviceOf({ store }, { summary: true })).toThrow(/store memory keeps no summaries/u);
    expect(() => serviceOf({ store, summary: true })).toThrow(TypeError);
  });
});
