/** The decisions of a served route, without a framework. */
import { expect, test } from "vitest";
import { StoreError } from "../../errors.ts";
import { createLatchkey, type Latchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { LatchkeyEvent } from "../../telemetry/events.ts";
import type { HttpOptions } from "./http-options.ts";
import type { Incoming } from "./incoming.ts";
import { createServing } from "./serving.ts";

const single = { singleTenant: true } as const;

function define(latchkey: Latchkey<MemoryTransaction>, run: (input: string) => Promise<{ body: string }>) {
  return latchkey.operation("owned", { execution: "lease", version: "1", run });
}

function incoming(log: string[], headers: Readonly<Record<string, string>>): Incoming {
  return {
    method: "POST",
    target: "/run",
    header(name) {
      log.push(name.toLowerCase());
      const value = headers[name.toLowerCase()];
      return { lines: value === undefined ? [] : [value], joined: false };
    },
    readBody() {
      log.push("body");
      return { kind: "bytes", bytes: new Uint8Array(0) };
    },
  };
}

test("the input is made after every other check, and before anything is stored", async () => {
  const log: string[] = [];
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store: memoryStore(), onEvent: (event) => events.push(event) });
  const options: HttpOptions<string> = {
    tenant: () => {
      log.push("tenant");
      return "t";
    },
    principal: () => {
      log.push("principal");
      return null;
    },
    requestAge: { header: "X-First-Sent", maxMs: 1_000 },
  };
  const submit = createServing(latchkey, options)(define(latchkey, async (body) => ({ body })));
  const outcome = await submit("request", incoming(log, { "idempotency-key": "k" }), () => {
    log.push("input");
    expect(events).toEqual([]);
    return "given";
  });
  expect(log).toEqual([
    "tenant",
    "principal",
    "idempotency-key",
    "x-first-sent",
    "body",
    "content-type",
    "content-range",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "input",
  ]);
  expect(outcome).toMatchObject({ kind: "latchkey", reply: { status: 200 } });
});

test("a route needs an operation of the same latchkey, and valid options", () => {
  const [here, there] = [createLatchkey({ store: memoryStore() }), createLatchkey({ store: memoryStore() })];
  const operation = define(there, async (body) => ({ body }));
  expect(() => createServing(here, single)(operation)).toThrow(TypeError);
  expect(() => createServing(there, single)(operation, { bodyLimitBytes: 0 })).toThrow(TypeError);
  expect(() => createServing(there, {} as HttpOptions<string>)).toThrow(TypeError);
});

test("work is refused while the store is down, and continues later with the same key", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  let runs = 0;
  const operation = define(latchkey, async (body) => {
    runs += 1;
    if (runs === 1) throw new StoreError("rolled_back");
    return { body };
  });
  const submit = createServing<string, MemoryTransaction>(latchkey, single)(operation);
  const ask = () => submit("request", incoming([], { "idempotency-key": "k" }), () => "given");
  expect((await ask()).reply.status).toBe(503);
  expect((await ask()).reply.status).toBe(200);
});
