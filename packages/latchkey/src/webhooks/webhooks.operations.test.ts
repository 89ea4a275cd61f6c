import { describe, expect, test } from "vitest";
import { dayMs, overFetch } from "../../../../test/support/webhook-receiver.ts";
import { stripeSender } from "../../../../test/support/webhook-senders.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import { type WebhookOptions, webhookReceiver } from "./webhooks.ts";

type Untyped = (...given: readonly unknown[]) => unknown;

test("an operation that owns its work stores the event, answers at once, and a worker runs it once", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const events: unknown[] = [];
  const operation = latchkey.operation("receive", {
    execution: "deferred",
    version: "1",
    retentionMs: 5 * dayMs,
    run: async (event: { id: string }) => {
      events.push(event.id);
      return { status: 204, body: undefined };
    },
  });
  const source = stripeSender.source() as WebhookOptions<{ id: string }>["source"];
  const receiver = webhookReceiver(latchkey, operation, { source, singleTenant: true });
  const post = await overFetch(receiver);
  for (let time = 0; time < 2; time++) {
    expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 200 });
  }
  expect(events).toEqual([]);
  await latchkey.work();
  expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 200, replayed: "true" });
  expect(events).toEqual(["evt_1"]);
});

describe("construction", () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const long = { retentionMs: 5 * dayMs } as const;
  const operation = latchkey.operation("op", long);
  const run = async () => ({ body: null });
  const owned = latchkey.operation("owned", { ...long, execution: "lease", version: "1", run });
  const unprotected = latchkey.operation("open", {
    ...long,
    execution: "lease",
    onStoreFailure: "run-unprotected",
  });
  const byPath = latchkey.operation("by-path", { ...long, keyScope: "path" });
  const source = stripeSender.source();
  const handler = async () => {};
  const make = (more: object, on: object = operation, ...handlers: unknown[]) =>
    (webhookReceiver as Untyped)(latchkey, on, { source, singleTenant: true, ...more }, ...handlers);

  test.each<[string, () => unknown, string]>([
    ["no source", () => make({ source: undefined }, operation, handler), "stripeWebhooks"],
    ["no tenant", () => make({ singleTenant: undefined }, operation, handler), "set either `tenant"],
    ["two tenants", () => make({ tenant: () => "a" }, operation, handler), "set either `tenant"],
    ["a limit of 0", () => make({ bodyLimitBytes: 0 }, operation, handler), "bodyLimitBytes"],
    ["no handler", () => make({}), "pass a handler"],
    ["a handler for owned work", () => make({}, owned, handler), "leave out the handler"],
    ["an operation that may run unprotected", () => make({}, unprotected, handler), "may run unprotected"],
    ["keys by path", () => make({}, byPath, handler), 'set keyScope to "operation"'],
    [
      "a foreign operation",
      () => make({}, createLatchkey({ store: memoryStore() }).operation("op", long), handler),
      "another latchkey",
    ],
  ])("refuses %s", (_, construct, message) => {
    expect(construct).toThrow(TypeError);
    expect(construct).toThrow(message);
  });
});
