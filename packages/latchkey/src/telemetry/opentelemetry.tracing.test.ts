/** Spans on a real OpenTelemetry SDK, of a service on the memory store. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { AlwaysOffSampler } from "@opentelemetry/sdk-trace-base";
import { beforeAll, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { api, ownSpan, recordSpans, type Spans } from "../../../../test/support/spans.ts";
import { createInbox, createLatchkey, EffectRefused, type Message, NotExecuted } from "../index.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import { effectDispatcher } from "../workers/effect-dispatcher.ts";
import { leaseRescuer } from "../workers/lease-rescuer.ts";
import { outcomeReconciler } from "../workers/outcome-reconciler.ts";
import { openTelemetryTracing, type TracingApi } from "./opentelemetry.ts";
import { formatTraceparent, parseTraceparent } from "./traceparent.ts";

type Tx = MemoryTransaction;

const canary = "canary-key-4711";
const secret = "canary-body-4712";
const tenant = "canary-tenant-4713";

let spans: Spans;
beforeAll(() => {
  spans = recordSpans();
});
beforeEach(() => spans.reset());

function world(wrap: (store: Store<Tx>) => Store<Tx> = (store) => store) {
  const ports = manualPorts();
  const memory = memoryStore({ ports });
  const latchkey = createLatchkey<Tx>({
    store: wrap(memory),
    ports,
    circuitBreaker: false,
    tracing: openTelemetryTracing({ api }),
  });
  const request = { tenant, key: canary, input: { secret } };
  return { ports, memory, latchkey, request };
}

const write = async ({ tx }: { readonly tx: Tx }) => tx.insert("orders", {});

describe("a request", () => {
  test.each(["transaction", "lease"] as const)(
    "under %s: the service's own spans hang below it, and a replay links to it",
    async (execution) => {
      const { latchkey, request } = world();
      const operation = latchkey.operation("payments.create", { execution, writes: "none" });
      await ownSpan("server", () =>
        latchkey.run(operation, request, () => ownSpan("own work", async () => ({ id: 1 }))),
      );
      const [server, first, own] = ["server", "execute payments.create", "own work"].map(spans.one);
      expect(first?.parentId).toBe(server?.spanId);
      expect(own?.parentId).toBe(first?.spanId);
      expect(first).toMatchObject({
        kind: SpanKind.INTERNAL,
        links: [],
        status: { code: SpanStatusCode.UNSET },
      });
      const recordId = first?.attributes["latchkey.record.id"];
      expect(first?.attributes).toEqual({
        "latchkey.operation": "payments.create",
        "latchkey.execution": execution,
        "latchkey.by": "request",
        "latchkey.decision": "execute",
        "latchkey.record.id": expect.stringMatching(/^[0-9a-f-]{36}$/u),
        "latchkey.attempt": 1,
        "latchkey.state": "completed",
        "http.response.status_code": 200,
      });
      spans.reset();

      await ownSpan("server", () => latchkey.run(operation, request, async () => ({ id: 2 })));
      const replay = spans.one("execute payments.create");
      expect(replay.parentId).toBe(spans.one("server").spanId);
      expect(replay.traceId).not.toBe(first?.traceId);
      expect(replay.links).toEqual([first?.spanId]);
      expect(replay.attributes).toMatchObject({
        "latchkey.decision": "replay",
        "latchkey.record.id": recordId,
        "latchkey.state": "completed",
        "http.response.status_code": 200,
      });
      spans.reset();

      await latchkey.run(operation, { ...request, input: {} }, async () => ({ id: 3 }));
      const misuse = spans.one("execute payments.create");
      expect(misuse.attributes).toMatchObject({
        "latchkey.decision": "key_misuse",
        "latchkey.because": "fingerprint",
      });
      expect([misuse.status.code, misuse.links]).toEqual([SpanStatusCode.UNSET, []]);
    },
  );

  test("that fails has the error's stable code, but not its text", async () => {
    const { latchkey, request } = world();
    const operation = latchkey.operation("op");
    const failing = (error: Error) =>
      expect(latchkey.run(operation, request, () => Promise.reject(error))).rejects.toBe(error);
    await failing(new Error(`no: ${secret}`));
    await failing(new NotExecuted({ message: secret }));
    await expect(latchkey.run(operation, request, async () => null)).rejects.toMatchObject({
      code: "tx-unused",
    });
    expect(spans.all().map(({ status, attributes }) => [status, attributes["error.type"]])).toEqual(
      ["handler-threw", "not-executed", "tx-unused"].map((message) => [
        { code: SpanStatusCode.ERROR, message },
        message,
      ]),
    );
    expect(spans.all().every(({ text }) => !text.includes("canary"))).toBe(true);
  });

  test("has a failed span if the store is down, or if its answer is a server error", async () => {
    let away = true;
    const { latchkey, request } = world((store) => ({
      ...store,
      read: (key) => (away ? Promise.reject(new Error("down")) : store.read(key)),
    }));
    const lease = latchkey.operation("op", { execution: "lease", leaseEnd: "rerun" });
    await expect(latchkey.run(lease, request, async () => null)).rejects.toThrow("down");
    away = false;
    const operation = latchkey.operation("owned", {
      writes: "none",
      version: "1",
      run: async () => ({ status: 503, body: null }),
    });
    await latchkey.run(operation, request);
    const [down, served] = spans.all();
    expect(down?.status).toEqual({ code: SpanStatusCode.ERROR, message: "handler-threw" });
    expect(served?.status).toEqual({ code: SpanStatusCode.ERROR, message: "503" });
    expect(served?.attributes).toMatchObject({ "http.response.status_code": 503, "error.type": "503" });
  });

  test("whose record another attempt began links to that attempt", async () => {
    const { latchkey, request } = world();
    const operation = latchkey.operation("steps", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      run: async (_: object, attempt) => {
        await attempt.phase("order", (tx) => tx.insert("orders", {}));
        if (attempt.fence.attempt === 1) throw new Error("not yet");
        return {};
      },
    });
    await expect(latchkey.run(operation, request)).rejects.toThrow("not yet");
    expect(await latchkey.run(operation, request)).toMatchObject({ kind: "executed" });
    expect(await latchkey.run(operation, request)).toMatchObject({ kind: "replay" });
    const [first, second, replay] = spans.named("execute steps");
    expect(first?.attributes).toMatchObject({ "latchkey.state": "retryable", "latchkey.attempt": 1 });
    expect(second?.attributes).toMatchObject({ "latchkey.state": "completed", "latchkey.attempt": 2 });
    expect([second?.links, replay?.links]).toEqual([[first?.spanId], [first?.spanId]]);
  });
});

describe("steps", () => {
  test("each phase and each send is a child span of its attempt, and the parent of the service's spans", async () => {
    const { latchkey, request, ports } = world();
    const faults = [new NotExecuted({ message: secret })];
    const charge = latchkey.effect<{ secret: string }, object>("charge", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      retry: { attempts: 3, backoffMs: 10 },
      execute: () =>
        ownSpan("POST", async () => {
          const fault = faults.pop();
          if (fault) throw fault;
          return { id: "ch_1" };
        }),
    });
    const operation = latchkey.operation("pay", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      run: async (input: { secret: string }, attempt) => {
        await attempt.phase("order", (tx) => ownSpan("insert", () => tx.insert("orders", {})));
        return { body: await attempt.call("charged", charge, input) };
      },
    });
    const running = latchkey.run(operation, request);
    await ports.clock.advance(1_000);
    expect(await running).toMatchObject({ kind: "executed" });
    const attempt = spans.one("execute pay");
    const phase = spans.one("phase order");
    const calls = spans.named("call charge");
    expect([phase, ...calls].map(({ parentId }) => parentId)).toEqual(Array(3).fill(attempt.spanId));
    expect(spans.one("insert").parentId).toBe(phase.spanId);
    expect(spans.named("POST").map(({ parentId }) => parentId)).toEqual(calls.map(({ spanId }) => spanId));
    expect(phase.attributes).toEqual({
      "latchkey.operation": "pay",
      "latchkey.record.id": attempt.attributes["latchkey.record.id"],
      "latchkey.step": "order",
    });
    expect(calls.map(({ attributes }) => attributes)).toMatchObject([
      {
        "latchkey.effect": "charge",
        "latchkey.step": "charged",
        "latchkey.send": 1,
        "latchkey.outcome": "not_executed",
        "error.type": "not-executed",
      },
      {
        "latchkey.effect": "charge",
        "latchkey.step": "charged",
        "latchkey.send": 2,
        "latchkey.outcome": "returned",
      },
    ]);
    expect(spans.all().every(({ text }) => !text.includes("canary"))).toBe(true);
  });

  test("a step that is already finished has no span", async () => {
    const { latchkey, request } = world();
    let runs = 0;
    const operation = latchkey.operation("pay", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      run: async (_: object, attempt) => {
        await attempt.phase("order", (tx) => tx.insert("orders", {}));
        runs += 1;
        if (runs === 1) throw new Error("not yet");
        return {};
      },
    });
    await expect(latchkey.run(operation, request)).rejects.toThrow("not yet");
    await latchkey.run(operation, request);
    expect(spans.named("phase order")).toHaveLength(1);
  });
});

describe("workers", () => {
  test("a delivery begins a new trace, linked to the attempt that enqueued it", async () => {
    const { latchkey, request, ports, memory } = world();
    const faults = [new NotExecuted(), new EffectRefused({ message: secret })];
    const receipt = latchkey.effect<{ secret: string }, object>("receipts.send", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      execute: () =>
        ownSpan("POST", async () => {
          const fault = faults.shift();
          if (fault) throw fault;
          return {};
        }),
    });
    const operation = latchkey.operation("pay");
    const pay = (key: string) =>
      latchkey.run(operation, { ...request, key }, async ({ tx, attempt }) => {
        await tx.insert("orders", {});
        attempt.enqueue(receipt, { secret });
      });
    await pay(canary);
    const attempt = spans.one("execute pay");
    const [effect] =
      (await memory.outbox?.list({ state: "pending", effect: null, tenant: null, limit: 1, after: null })) ??
      [];
    // The worker's loop may have been started inside any span.
    await ownSpan("somewhere else", () => effectDispatcher(latchkey).runOnce());
    const first = spans.one("process receipts.send");
    expect(first).toMatchObject({ kind: SpanKind.CONSUMER, parentId: null, links: [attempt.spanId] });
    expect(first.traceId).not.toBe(attempt.traceId);
    expect(first.status).toEqual({ code: SpanStatusCode.ERROR, message: "not-executed" });
    expect(spans.one("POST").parentId).toBe(first.spanId);
    const named = semanticConventions();
    expect(first.attributes).toEqual({
      [named("ATTR_MESSAGING_SYSTEM_NAME")]: "latchkey",
      [named("ATTR_MESSAGING_OPERATION_NAME")]: "process",
      [named("ATTR_MESSAGING_OPERATION_TYPE")]: named("MESSAGING_OPERATION_TYPE_VALUE_PROCESS"),
      [named("ATTR_MESSAGING_DESTINATION_NAME")]: "receipts.send",
      [named("ATTR_MESSAGING_MESSAGE_ID")]: effect?.id,
      [named("ATTR_ERROR_TYPE")]: "not-executed",
      "latchkey.operation": "pay",
      "latchkey.record.id": effect?.recordId,
      "latchkey.attempt": 1,
      "latchkey.delivery.result": "retried",
    });
    await ports.clock.advance(60_000);
    await pay("other");
    await effectDispatcher(latchkey).runOnce();
    const results = spans
      .named("process receipts.send")
      .map(({ attributes }) => attributes["latchkey.delivery.result"]);
    expect(results.toSorted()).toEqual(["dead", "delivered", "retried"]);
    expect(spans.all().every(({ text }) => !text.includes("canary"))).toBe(true);
  });

  test("deferred work and a resumed attempt begin new traces, linked to the request", async () => {
    const { latchkey, request, ports } = world();
    const operation = latchkey.operation("report", {
      execution: "deferred",
      version: "1",
      run: async (_: object, attempt) => {
        if (attempt.fence.attempt === 1) throw new Error("not yet");
        return {};
      },
    });
    await ownSpan("server", () => latchkey.run(operation, request));
    const asked = spans.one("execute report");
    expect(asked.attributes).toMatchObject({ "latchkey.decision": "accepted", "latchkey.state": "pending" });
    for (let round = 0; round < 2; round++) {
      const working = latchkey.work();
      await ports.clock.advance(60_000);
      await working;
    }
    const [, first, second] = spans.named("execute report");
    for (const span of [first, second]) {
      expect(span).toMatchObject({ parentId: null, links: [asked.spanId] });
      expect(span?.attributes).toMatchObject({ "latchkey.by": "worker", "latchkey.execution": "deferred" });
    }
    expect(first?.attributes["latchkey.state"]).toBe("retryable");
    expect(second?.attributes).toMatchObject({ "latchkey.state": "completed", "latchkey.attempt": 2 });
    spans.reset();
    await latchkey.run(operation, request);
    expect(spans.one("execute report").links).toEqual([asked.spanId]);
  });

  test("a look-up of the reconciler links to the attempt that began the unknown record", async () => {
    const { latchkey, request, ports } = world();
    let found: { found: object } | null = null;
    const charge = latchkey.effect<object, object>("charge", {
      deduplication: "lookup",
      execute: () => Promise.reject(new Error(secret)),
      lookup: () => ownSpan("GET", async () => found),
    });
    const operation = latchkey.operation("pay", {
      execution: "lease",
      leaseEnd: "resume",
      version: "1",
      run: async (_: object, attempt) => ({ body: await attempt.call("charged", charge, {}) }),
    });
    expect(await latchkey.run(operation, request)).toMatchObject({ kind: "unknown" });
    const attempt = spans.one("execute pay");
    expect(attempt.attributes).toMatchObject({ "latchkey.decision": "unknown", "latchkey.state": "unknown" });
    expect(spans.one("call charge").attributes).toMatchObject({ "latchkey.outcome": "in_doubt" });
    for (const found_ of [null, { found: { id: "ch_1" } }]) {
      found = found_;
      await ports.clock.advance(20_000);
      await ownSpan("somewhere else", () => outcomeReconciler(latchkey).runOnce());
    }
    const looks = spans.named("look up pay");
    expect(
      looks.map(({ attributes }) => [attributes["latchkey.found"], attributes["latchkey.tries"]]),
    ).toEqual([
      ["ask_later", 1],
      ["settle", 2],
    ]);
    for (const look of looks) expect(look).toMatchObject({ parentId: null, links: [attempt.spanId] });
    expect(spans.named("GET").map(({ parentId }) => parentId)).toEqual(looks.map(({ spanId }) => spanId));
    spans.reset();
    await leaseRescuer(latchkey).runOnce();
    expect(spans.one("execute pay")).toMatchObject({ parentId: null, links: [attempt.spanId] });
    expect(spans.all().every(({ text }) => !text.includes("canary"))).toBe(true);
  });
});

describe("a message", () => {
  const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const message = {
    id: canary,
    source: "orders",
    body: Buffer.from(JSON.stringify({ secret })),
    contentType: "application/json",
    headers: { traceparent: header },
    redelivered: false,
  };

  function inbox(handler: () => Promise<void>) {
    const { latchkey, ports } = world();
    const operation = latchkey.operation("shipments.create");
    const made = createInbox<Tx, "transaction", unknown>(latchkey, operation, { tenant }, async ({ tx }) => {
      await tx.insert("shipments", {});
      await handler();
    });
    return { ports, consume: (change: Partial<Message> = {}) => made.consume({ ...message, ...change }) };
  }

  test("has a span linked to its sender's, with its attempt as a child; a redelivery links to that attempt", async () => {
    const { consume } = inbox(() => ownSpan("own work", async () => {}));
    await ownSpan("client", () => consume({ system: "rabbitmq" }));
    const [client, processed, attempt] = ["client", "process orders", "execute shipments.create"].map(
      spans.one,
    );
    expect(processed).toMatchObject({ kind: SpanKind.CONSUMER, parentId: client?.spanId });
    expect(processed?.links).toEqual(["b7ad6b7169203331"]);
    const named = semanticConventions();
    expect(processed?.attributes).toEqual({
      [named("ATTR_MESSAGING_SYSTEM_NAME")]: named("MESSAGING_SYSTEM_NAME_VALUE_RABBITMQ"),
      [named("ATTR_MESSAGING_OPERATION_NAME")]: "process",
      [named("ATTR_MESSAGING_OPERATION_TYPE")]: named("MESSAGING_OPERATION_TYPE_VALUE_PROCESS"),
      [named("ATTR_MESSAGING_DESTINATION_NAME")]: "orders",
      "latchkey.operation": "shipments.create",
      "latchkey.verdict": "ack",
      "latchkey.because": "executed",
    });
    expect(attempt?.parentId).toBe(processed?.spanId);
    expect(spans.one("own work").parentId).toBe(attempt?.spanId);
    spans.reset();
    await consume({ redelivered: true });
    expect(spans.one("process orders").attributes).toMatchObject({ "latchkey.because": "duplicate" });
    expect(spans.one("execute shipments.create").links).toEqual([attempt?.spanId]);
    expect(spans.all().every(({ text }) => !text.includes("canary"))).toBe(true);
  });

  test("that becomes a dead letter has a failed span; an invalid header is ignored", async () => {
    const { consume } = inbox(async () => {});
    const hostile = [
      Buffer.from(header),
      Buffer.alloc(1_000_000),
      "x",
      { toString: () => header },
      [header],
      null,
    ];
    for (const traceparent of hostile) {
      spans.reset();
      await consume({ body: Buffer.from("{"), headers: { traceparent } });
      const { status, links } = spans.one("process orders");
      expect(status).toEqual({ code: SpanStatusCode.ERROR, message: "undecodable" });
      expect(links).toEqual(traceparent === hostile[0] ? ["b7ad6b7169203331"] : []);
    }
  });
});

describe("without a valid trace to link to", () => {
  test("a trace that is not sampled is not stored", async () => {
    const off = openTelemetryTracing({ api: sampledBy(new AlwaysOffSampler()) });
    const memory = memoryStore();
    const latchkey = createLatchkey({ store: memory, tracing: off });
    const operation = latchkey.operation("op");
    await latchkey.run(operation, { tenant, key: canary, input: {} }, write);
    const { record } = await memory.read({ tenant, scope: "op", key: canary });
    expect(record?.state).toBe("completed");
    expect(record?.trace).toBeUndefined();
  });

  test.each([
    "",
    "x".repeat(55),
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
    "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
    "'; drop table records; --0af7651916cd43dd8448eb211c80319",
    "\u0000".repeat(55),
    42,
    null,
    { toString: () => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
  ])("%j, found in a store, is no link and no failure", async (hostile) => {
    expect(parseTraceparent(hostile)).toBeNull();
    const { latchkey, request } = world((store) => ({
      ...store,
      read: async (key) => {
        const { record, now } = await store.read(key);
        return { record: record && { ...record, trace: hostile as string }, now };
      },
    }));
    const operation = latchkey.operation("op", { execution: "lease" });
    await latchkey.run(operation, request, async () => ({}));
    expect((await latchkey.run(operation, request, async () => ({}))).kind).toBe("replay");
    expect(spans.named("execute op").map(({ links }) => links)).toEqual([[], []]);
  });

  test("a tracer's trace and span ids are checked before they are stored", async () => {
    for (const traceId of ["'; drop table records; --", "0".repeat(32), 7 as never, null as never]) {
      const context = { traceId, spanId: "b7ad6b7169203331", traceFlags: 1 };
      expect(formatTraceparent(context)).toBeNull();
      const memory = memoryStore();
      const latchkey = createLatchkey({
        store: memory,
        tracing: {
          inSpan: (_, work) =>
            work({ traceparent: `00-${traceId}-b7ad6b7169203331-01`, set() {}, link() {}, fail() {} }),
        },
      });
      const operation = latchkey.operation("op");
      await latchkey.run(operation, { tenant, key: canary, input: {} }, write);
      const { record } = await memory.read({ tenant, scope: "op", key: canary });
      expect([record?.state, record?.trace]).toEqual(["completed", undefined]);
    }
  });
});

describe("a tracer that throws", () => {
  const broken = () => {
    throw new Error("the tracer is broken");
  };
  type Api = TracingApi<typeof ROOT_CONTEXT, Span>;
  const sound: Api = api;
  const spanThat = (over: Partial<Span>): Api => ({
    ...sound,
    trace: {
      setSpan: (context) => context,
      getTracer: () => ({
        startSpan: () => ({ ...api.trace.wrapSpanContext(api.INVALID_SPAN_CONTEXT), ...over }) as Span,
      }),
    },
  });
  const faults: Readonly<Record<string, Api>> = {
    "for a tracer": { ...sound, trace: { ...sound.trace, getTracer: broken } },
    "at the start of a span": {
      ...sound,
      trace: { ...sound.trace, getTracer: () => ({ startSpan: broken }) },
    },
    "for a span's context": {
      ...sound,
      trace: { setSpan: broken, getTracer: sound.trace.getTracer.bind(sound.trace) },
    },
    "for the active context": { ...sound, context: { active: broken, with: (_, run) => run() } },
    "before the work": { ...sound, context: { active: () => ROOT_CONTEXT, with: broken } },
    "after the work has begun": {
      ...sound,
      context: {
        active: () => ROOT_CONTEXT,
        with(_, run) {
          run();
          return broken();
        },
      },
    },
    "in a span": spanThat({
      spanContext: broken,
      setAttributes: broken,
      setStatus: broken,
      addLink: broken,
      end: broken,
    }),
    "and is older than links": spanThat({ addLink: undefined as never }),
  };

  test.each(Object.entries(faults))("%s breaks no request and does not run work twice", async (_, faulty) => {
    const memory = memoryStore();
    const latchkey = createLatchkey({ store: memory, tracing: openTelemetryTracing({ api: faulty }) });
    const operation = latchkey.operation("op");
    const request = { tenant, key: canary, input: {} };
    let runs = 0;
    const work = async ({ tx }: { readonly tx: Tx }) => {
      runs += 1;
      await tx.insert("orders", {});
      return runs;
    };
    expect(await latchkey.run(operation, request, work)).toMatchObject({ kind: "executed", value: 1 });
    expect(await latchkey.run(operation, request, work)).toMatchObject({ kind: "replay", value: 1 });
    const failing = latchkey.run(operation, { ...request, key: "b" }, () => Promise.reject(new Error("own")));
    await expect(failing).rejects.toThrow("own");
    expect(runs).toBe(1);
    expect(memory.rows("orders")).toHaveLength(1);
  });
});

describe("options", () => {
  test("the API of OpenTelemetry fits", () => {
    expectTypeOf<typeof api>().toExtend<TracingApi<typeof ROOT_CONTEXT, Span>>();
    expectTypeOf(openTelemetryTracing).toBeCallableWith({ api });
  });

  test.each([undefined, null, {}, { trace: api.trace }, { trace: api.trace, context: api.context }])(
    "%j is not the API",
    (given) => {
      expect(() => openTelemetryTracing({ api: given as never })).toThrow(TypeError);
    },
  );

  test("unknown options are refused", () => {
    expect(() => openTelemetryTracing({ api, tracer: "x" } as never)).toThrow("there is no option");
  });

  test.each([null, {}, { inSpan: 1 }, api])("tracing: %j is refused", (tracing) => {
    expect(() => createLatchkey({ store: memoryStore(), tracing: tracing as never })).toThrow(TypeError);
  });
});

/** The attribute names of version 1.45, which the SDK itself uses. */
function semanticConventions(): (constant: string) => string {
  const ofSdk = createRequire(createRequire(import.meta.url).resolve("@opentelemetry/sdk-trace-base"));
  const main = pathToFileURL(ofSdk.resolve("@opentelemetry/semantic-conventions"));
  const { version } = JSON.parse(readFileSync(new URL("../package.json", main), "utf8"));
  expect(version).toMatch(/^1\.45\./u);
  const names: Readonly<Record<string, unknown>> = ofSdk("@opentelemetry/semantic-conventions/incubating");
  return (constant) => {
    const name = names[constant];
    if (typeof name !== "string") throw new Error(`there is no ${constant}`);
    return name;
  };
}

function sampledBy(sampler: AlwaysOffSampler): TracingApi<typeof ROOT_CONTEXT, Span> {
  const { BasicTracerProvider } = createRequire(import.meta.url)("@opentelemetry/sdk-trace-base");
  const provider = new BasicTracerProvider({ sampler });
  return {
    ...api,
    trace: { ...api.trace, setSpan: api.trace.setSpan, getTracer: (name) => provider.getTracer(name) },
  };
}
