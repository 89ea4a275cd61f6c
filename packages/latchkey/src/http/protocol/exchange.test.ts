import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../../../test/support/manual-ports.ts";
import { LatchkeyError, StoreError } from "../../errors.ts";
import { fingerprint } from "../../fingerprint/fingerprint.ts";
import { createLatchkey, type Latchkey } from "../../latchkey.ts";
import type { Result } from "../../operations/attempt.ts";
import { stripe } from "../../operations/policies/stripe.ts";
import { memoryStore } from "../../stores/memory.ts";
import type { Reply } from "./capture.ts";
import { beforeHandler, createExchange } from "./exchange.ts";
import { formatHttpDate } from "./http-date.ts";
import type { BodyReading, Incoming } from "./incoming.ts";
import type { HttpOutcome } from "./outcome.ts";

const answered: Reply = { status: 200, headers: [["X-A", "1"]], body: new Uint8Array(0) };
const text = (reply: Reply) => Buffer.from(reply.body).toString("utf8");

function incoming(overrides: Partial<Incoming> & { headers?: Record<string, string> } = {}): Incoming {
  const headers: Record<string, string> = { "idempotency-key": "k", ...overrides.headers };
  return {
    method: "POST",
    target: "/run",
    header: (name) => ({ lines: [headers[name.toLowerCase()] ?? []].flat(), joined: false }),
    readBody: async () => ({ kind: "bytes", bytes: new Uint8Array(0) }),
    ...overrides,
  };
}

/** An exchange without a store, whose attempts have the given ends. */
function exchangeFor(result: Result | Error, policy?: typeof stripe, settings = {}) {
  const real = createLatchkey({ store: memoryStore(), ...(policy === undefined ? {} : { policy }) });
  const execute = async () => {
    if (result instanceof Error) throw result;
    return result;
  };
  const latchkey: Latchkey<unknown> = { ...real, execute };
  return createExchange(latchkey, { singleTenant: true, ...settings }).route(
    real.operation("run", { execution: "lease" }),
  );
}

async function replyTo(result: Result | Error, policy?: typeof stripe, settings = {}): Promise<Reply> {
  const outcome = await exchangeFor(result, policy, settings)({}, incoming(), async () => answered);
  if (outcome.kind === "pass") throw new Error("it should not pass");
  return outcome.reply;
}

function lease(order: string[] = [], settings = {}) {
  const latchkey = createLatchkey({ store: memoryStore() });
  const exchange = createExchange(latchkey, {
    tenant: () => {
      order.push("tenant");
      return "t";
    },
    ...settings,
  });
  return { exchange, latchkey, operation: latchkey.operation("run", { execution: "lease" }) };
}

const replyOf = (outcome: HttpOutcome): Reply => {
  if (outcome.kind === "pass") throw new Error("it should not pass");
  return outcome.reply;
};

describe("the answer to a caller", () => {
  const problems: readonly (readonly [
    Result | Error,
    status: number,
    code: string,
    retryAfter: string | undefined,
  ])[] = [
    [{ kind: "timeout", recordId: "r" }, 408, "timeout", undefined],
    [{ kind: "in_progress", recordId: "r", retryAfterMs: 1500 }, 409, "in-progress", "2"],
    [{ kind: "in_progress", recordId: null, retryAfterMs: 1 }, 409, "in-progress", "1"],
    [{ kind: "key_misuse", because: "fingerprint" }, 422, "key-misuse", undefined],
    [{ kind: "key_misuse", because: "principal" }, 422, "key-misuse", undefined],
    [{ kind: "key_misuse", because: "operation" }, 422, "key-misuse", undefined],
    [{ kind: "unknown", recordId: "r", retryAfterMs: null }, 409, "outcome-unknown", undefined],
    [{ kind: "unknown", recordId: "r", retryAfterMs: 60_000 }, 409, "outcome-unknown", "60"],
    [{ kind: "expired" }, 410, "expired", undefined],
    [{ kind: "too_many_keys", because: "newKeys", retryAfterMs: 2500 }, 429, "too-many-keys", "3"],
    [{ kind: "too_many_keys", because: "activeKeys", retryAfterMs: 90_000 }, 429, "too-many-keys", "90"],
    [{ kind: "commit_in_doubt", retryAfterMs: 2000 }, 503, "commit-in-doubt", "2"],
    [new StoreError("not_sent"), 503, "store-unavailable", "1"],
    [new StoreError("rolled_back"), 503, "store-unavailable", "1"],
    // With any certainty: no handler ran, or all its work was rolled back.
    [new StoreError("in_doubt"), 503, "store-unavailable", "1"],
  ];
  test.each(problems)("%j: %i %s", async (result, status, code, retryAfter) => {
    const reply = await replyTo(result);
    expect([reply.status, JSON.parse(text(reply)).code]).toEqual([status, code]);
    expect(reply.headers.find(([name]) => name === "Retry-After")?.[1]).toBe(retryAfter);
  });

  test("does not reveal why a key is misused", async () => {
    const [fingerprint, principal] = await Promise.all([
      replyTo({ kind: "key_misuse", because: "fingerprint" }),
      replyTo({ kind: "key_misuse", because: "principal" }),
    ]);
    expect(text(principal)).toBe(text(fingerprint));
  });

  test("tells keys that come too fast from too many stored keys", async () => {
    const over = { kind: "too_many_keys", retryAfterMs: 1_000 } as const;
    expect(text(await replyTo({ ...over, because: "newKeys" }))).toContain("in this time");
    expect(text(await replyTo({ ...over, because: "activeKeys" }))).toContain(
      "maximum number of idempotency keys",
    );
  });

  test("is the framework's for other errors", async () => {
    const submit = exchangeFor(new LatchkeyError("attempt-limit"));
    await expect(submit({}, incoming(), async () => answered)).rejects.toMatchObject({
      code: "attempt-limit",
    });
  });

  test("is the framework's for a store error that the handler itself threw", async () => {
    const own = new StoreError("not_sent");
    const latchkey = createLatchkey({ store: memoryStore() });
    const exchange = createExchange(latchkey, { singleTenant: true });
    const submit = exchange.route(latchkey.operation("outer"));
    await expect(submit({}, incoming(), () => Promise.reject(own))).rejects.toBe(own);
  });

  test("marks a tombstone, without headers that describe missing bytes", async () => {
    const answer = {
      status: 201,
      headers: [
        ["ETag", '"1"'],
        ["Content-Encoding", "gzip"],
        ["Content-Type", "text/plain"],
      ] as const,
      body: new Uint8Array(0),
      omitted: "too-large",
    } as const;
    const reply = await replyTo({ kind: "replay", recordId: "r", answer, expiresAt: 0 }, stripe);
    expect(reply).toEqual({
      status: 201,
      headers: [
        ["ETag", '"1"'],
        ["Content-Type", "text/plain"],
        ["Idempotent-Replayed", "true"],
        ["Idempotency-Status", "answer-not-stored"],
        ["Stripe-Should-Retry", "false"],
        ["X-Should-Retry", "false"],
      ],
      body: new Uint8Array(0),
    });
    const replay = { kind: "replay", recordId: "r", answer, expiresAt: 0 } as const;
    const names = async (policy: typeof stripe | undefined, shouldRetryHeaders: boolean) =>
      (await replyTo(replay, policy, { shouldRetryHeaders })).headers.map(([name]) => name);
    expect(await names(stripe, false)).not.toContain("X-Should-Retry");
    expect(await names(undefined, true)).toContain("X-Should-Retry");
  });

  test("is sent unchanged if the handler did not give it", async () => {
    const answer = { ...answered, omitted: null };
    const reply = await replyTo({ kind: "executed", recordId: "r", answer, stored: false, expiresAt: null });
    expect(reply.status).toBe(200);
  });
});

describe("the order of checks", () => {
  const body = (order: string[], reading: BodyReading) => async () => {
    order.push("body");
    return reading;
  };
  const bytes: BodyReading = { kind: "bytes", bytes: new Uint8Array(0) };

  test("the body is read synchronously if tenant and principal are not promises", async () => {
    const order: string[] = [];
    const { exchange, operation } = lease(order, { principal: () => "p" });
    const outcome = exchange.route(operation)(
      {},
      incoming({ readBody: body(order, bytes) }),
      async () => answered,
    );
    order.push("caller");
    await outcome;
    expect(order).toEqual(["tenant", "body", "caller"]);
  });

  test("tenant, principal, key, body, admission", async () => {
    const order: string[] = [];
    const { exchange, operation } = lease(order, { principal: () => void order.push("principal") });
    const submit = exchange.route(operation);
    const call = (key: string, reading: BodyReading) =>
      submit(
        {},
        incoming({
          header: (name) => {
            if (name === "Idempotency-Key") order.push("key");
            return { lines: name === "Idempotency-Key" ? [key] : [], joined: false };
          },
          readBody: body(order, reading),
        }),
        async () => {
          order.push("handler");
          return answered;
        },
      );
    await call("k", bytes);
    expect(order.splice(0)).toEqual(["tenant", "principal", "key", "body", "handler"]);
    await call("", bytes);
    expect(order.splice(0)).toEqual(["tenant", "principal", "key"]);
    expect(replyOf(await call("large", { kind: "too-large" })).status).toBe(413);
    expect(order.splice(0)).toEqual(["tenant", "principal", "key", "body"]);
    await expect(call("consumed", { kind: "consumed", remedy: "Do this." })).rejects.toMatchObject({
      code: "body-consumed",
      message: expect.stringContaining("Do this."),
    });
    expect(order.splice(0)).toEqual(["tenant", "principal", "key", "body"]);
  });

  test.each([
    ["throws", () => Promise.reject(new Error("no authentication"))],
    ["returns nothing", () => undefined],
    ["returns an empty text", () => ""],
    ["returns no text", () => 7 as unknown as string],
  ])("a tenant function that %s is an error before anything else", async (_what, tenant) => {
    const { exchange, operation } = lease();
    const submit = exchange.route(operation, { tenant });
    const unread = incoming({ readBody: () => Promise.reject(new Error("it must not be read")) });
    await expect(submit({}, unread, async () => answered)).rejects.toMatchObject({ code: "tenant-missing" });
  });

  test("a retry of a request that an earlier version recorded is the same request", async () => {
    const store = memoryStore();
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("run", { execution: "lease" });
    const submit = createExchange(latchkey, { tenant: () => "t" }).route(operation);
    const boundary = "one";
    const body = Buffer.from(`--${boundary}\r\n\r\nx\r\n--${boundary}--`);
    const mediaType = `multipart/form-data; boundary=${boundary}`;
    const upload = incoming({
      header: (name) => ({
        lines: { "idempotency-key": ["k"], "content-type": [mediaType] }[name.toLowerCase()] ?? [],
        joined: false,
      }),
      readBody: () => ({ kind: "bytes", bytes: body }),
    });
    const subject = { operation: "run", method: upload.method, path: upload.target, query: "", mediaType };
    const before = fingerprint({ ...subject, headers: [], body }, { version: 1 });
    const key = { tenant: "t", scope: "run", key: "k" };
    await latchkey.execute(operation, { key, fingerprint: before, principal: null }, async () => ({
      ...answered,
      omitted: null,
    }));
    const again = await submit({}, upload, async () => Promise.reject(new Error("it must not run again")));
    expect(again.kind === "latchkey" && again.reply.status).toBe(answered.status);
    expect(again.kind === "latchkey" && again.reply.headers).toContainEqual(["Idempotent-Replayed", "true"]);
  });

  test("a tenant or a principal that looks like a credential is an error before anything else", async () => {
    const { exchange, operation } = lease();
    const unread = incoming({ readBody: () => Promise.reject(new Error("it must not be read")) });
    for (const field of ["tenant", "principal"] as const) {
      const submit = exchange.route(operation, { tenant: () => "acme", [field]: async () => "Bearer token" });
      await expect(submit({}, unread, async () => answered)).rejects.toMatchObject({
        code: "identity-is-credential",
        message: expect.stringMatching(new RegExp(`^The ${field} looks like an Authorization header`, "u")),
      });
    }
  });

  test("a service can allow ids that look like credentials", async () => {
    const latchkey = createLatchkey({ store: memoryStore(), allowCredentialIdentities: true });
    const exchange = createExchange(latchkey, { tenant: () => "Bearer token" });
    const submit = exchange.route(latchkey.operation("run", { execution: "lease" }));
    expect((await submit({}, incoming(), async () => answered)).kind).toBe("handler");
  });

  test("a route of a service without tenants may have one", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const exchange = createExchange(latchkey, { singleTenant: true });
    const tenants = ["a", "b"];
    const submit = exchange.route(latchkey.operation("run", { execution: "lease" }), {
      tenant: () => tenants.shift(),
    });
    const kinds = [
      await submit({}, incoming(), async () => answered),
      await submit({}, incoming(), async () => answered),
    ];
    expect(kinds.map(({ kind }) => kind)).toEqual(["handler", "handler"]);
  });

  test("a principal is a string, null or undefined", async () => {
    const { exchange, operation } = lease();
    for (const principal of ["", 7] as string[]) {
      const submit = exchange.route(operation, { principal: () => principal });
      await expect(submit({}, incoming(), async () => answered)).rejects.toThrow(TypeError);
    }
  });

  test("a mount checks the method first", async () => {
    const order: string[] = [];
    const { exchange, operation } = lease(order);
    const outcome = await exchange.mount(operation)({}, incoming({ method: "GET" }), async () => answered);
    expect([outcome.kind, order]).toEqual(["pass", []]);
  });
});

describe("a request without a key, if none is required", () => {
  test("passes under a lease, in whatever state its body is", async () => {
    const { exchange, latchkey } = lease();
    const submit = exchange.route(latchkey.operation("optional", { execution: "lease", key: "optional" }));
    const call = incoming({
      header: () => ({ lines: [], joined: false }),
      readBody: async () => ({ kind: "consumed", remedy: "" }),
    });
    const outcome = await submit({}, call, async () => answered);
    if (outcome.kind !== "pass") throw new Error("it should pass");
    expect(outcome.attempt.signal.aborted).toBe(false);
    expect(outcome.attempt.id).toMatch(/^[0-9a-f-]{36}$/u);
    outcome.attempt.release();
  });

  test("cannot be replayed by a client that guesses its key", async () => {
    const ports = manualPorts();
    const store = memoryStore({ now: () => 1_000_000 });
    const latchkey = createLatchkey({
      store,
      ports: { ...ports, random: { ...ports.random, token: () => "f".repeat(32) } },
    });
    const operation = latchkey.operation("optional", { key: "optional", writes: "none" });
    const submit = createExchange(latchkey, { singleTenant: true }).route(operation);
    for (const lines of [[], ["f".repeat(32)]]) {
      const call = incoming({ header: () => ({ lines, joined: false }) });
      expect((await submit({}, call, async () => answered)).kind).toBe("handler");
    }
  });

  test("runs in its own transaction, whose record is forgotten at once", async () => {
    let now = 1_000_000;
    const store = memoryStore({ now: () => now });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("optional", { key: "optional", writes: "none" });
    const submit = createExchange(latchkey, { singleTenant: true }).route(operation);
    const call = incoming({ header: () => ({ lines: [], joined: false }) });
    expect(replyOf(await submit({}, call, async () => answered)).status).toBe(200);
    now += 10;
    const [first, second] = [await store.clean(10), await store.clean(10)];
    expect(first.forgotten + second.forgotten).toBe(1);
  });
});

describe("the header with an answer's expiry", () => {
  const expiresAt = Date.UTC(2026, 0, 2, 0, 0, 0);
  const expires = (reply: Reply) =>
    reply.headers.filter(([name]) => name.toLowerCase() === "idempotency-expires").map(([, value]) => value);
  function kept(options: object, operationOptions: object = {}) {
    const store = memoryStore({ now: () => expiresAt - 86_400_000 + 999 });
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("run", { writes: "none", ...operationOptions });
    const submit = createExchange(latchkey, { singleTenant: true, ...options }).route(operation);
    return async (overrides: Partial<Incoming> = {}, reply: Reply = answered) =>
      replyOf(await submit({}, incoming(overrides), async () => reply));
  }
  const on = { expiresHeader: "Idempotency-Expires" };

  test.each(["transaction", "lease"] as const)(
    "the first answer and replays say so (%s)",
    async (execution) => {
      const call = kept(on, { execution });
      const own: Reply = { ...answered, headers: [["idempotency-expires", "never"]] };
      expect(expires(await call({}, own))).toEqual(["Fri, 02 Jan 2026 00:00:00 GMT"]);
      expect(expires(await call({}))).toEqual(["Fri, 02 Jan 2026 00:00:00 GMT"]);
    },
  );

  test("is not sent by default", async () => {
    const call = kept({});
    expect(expires(await call())).toEqual([]);
    expect(expires(await call())).toEqual([]);
  });

  test("is not on answers that are not stored, nor on problems", async () => {
    const call = kept(on, { key: "optional" });
    const released: Reply = { ...answered, status: 429 };
    expect(expires(await call({}, released))).toEqual([]);
    expect(expires(await call({ header: () => ({ lines: [], joined: false }) }))).toEqual([]);
    await call();
    const misuse = await call({ target: "/other" });
    expect([misuse.status, expires(misuse)]).toEqual([422, []]);
  });

  test("is on tombstones, too", async () => {
    const call = kept(on, { answerLimitBytes: 1 });
    await call({}, { ...answered, body: Buffer.from("large") });
    const replay = await call();
    expect(replay.headers).toContainEqual(["Idempotency-Status", "answer-not-stored"]);
    expect(expires(replay)).toEqual(["Fri, 02 Jan 2026 00:00:00 GMT"]);
  });

  test("must have a valid name", () => {
    expect(() => kept({ expiresHeader: "a b" })).toThrow(TypeError);
    expect(() => kept({ expiresHeader: true })).toThrow(TypeError);
  });
});

describe("a request's age", () => {
  const ports = manualPorts();
  const header = "Repeatability-First-Sent";
  const sent = (ms: number) => ({ [header.toLowerCase()]: formatHttpDate(ports.clock.wallMs() - ms) });
  function aged(options: object = {}, requestAge: object | false = { maxMs: 60_000 }) {
    const latchkey = createLatchkey({ store: memoryStore(), ports });
    const operation = latchkey.operation("run", { execution: "lease", ...options });
    const submit = createExchange(latchkey, { singleTenant: true }).route(operation, {
      requestAge,
    } as object);
    let starts = 0;
    const call = async (overrides: Parameters<typeof incoming>[0]) => {
      const outcome = await submit({}, incoming(overrides), async () => ({
        ...answered,
        status: 200 + ++starts,
      }));
      return outcome.kind === "pass"
        ? { kind: "pass" }
        : { kind: outcome.kind, status: outcome.reply.status };
    };
    return { call, starts: () => starts };
  }

  test("is checked before the body is read, and nothing runs", async () => {
    const { call, starts } = aged();
    const readBody = () => Promise.reject(new Error("it must not be read"));
    expect(await call({ headers: sent(61_000), readBody })).toEqual({ kind: "latchkey", status: 412 });
    expect(await call({ headers: { [header.toLowerCase()]: "yesterday" }, readBody })).toMatchObject({
      status: 400,
    });
    expect(starts()).toBe(0);
    expect(await call({ headers: sent(0) })).toEqual({ kind: "handler", status: 201 });
    expect(await call({ headers: sent(60_000) })).toEqual({ kind: "latchkey", status: 201 });
    expect(await call({})).toEqual({ kind: "latchkey", status: 201 });
  });

  test("does not matter without a key or without a limit", async () => {
    const headers = { "idempotency-key": [] as unknown as string, ...sent(86_400_000) };
    expect(await aged({ key: "optional" }).call({ headers })).toEqual({ kind: "pass" });
    expect(await aged({}, false).call({ headers: sent(86_400_000) })).toMatchObject({ kind: "handler" });
  });

  test("must have a limit below the key's retention, checked at construction", () => {
    expect(() => aged({ retentionMs: 60_000 })).toThrow(/forgets keys/u);
    expect(() => aged({}, { maxMs: 1, header: "a b" })).toThrow(TypeError);
  });
});

describe("a key's scope", () => {
  test("path: one key on two paths is two keys, whatever the query", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const operation = latchkey.operation("items.refund", { execution: "lease", keyScope: "path" });
    const submit = createExchange(latchkey, { singleTenant: true }).route(operation);
    const call = async (target: string) => {
      const { reply, kind } = (await submit({}, incoming({ target }), async () => answered)) as Exclude<
        HttpOutcome,
        { kind: "pass" }
      >;
      return [kind, reply.status];
    };
    const long = `/items/${"1".repeat(3_000)}`;
    for (const path of ["/items/1", "/items/2", "/items/a", long, `${long}2`])
      expect([path, await call(path)]).toEqual([path, ["handler", 200]]);
    for (const path of ["/items/1", "/items/2", long]) expect(await call(path)).toEqual(["latchkey", 200]);
    // Servers and proxies treat these as the same path: a retry in another spelling must not run.
    for (const target of ["/items/1?dry=1", "/items/2/", "/items/%61"])
      expect([target, await call(target)]).toEqual([target, ["latchkey", 422]]);
  });
});

describe("a failure before the handler", () => {
  test.each(["lease", "transaction"] as const)("leaves the key free under %s", async (execution) => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const writes = execution === "transaction" ? { writes: "none" as const } : {};
    const operation = latchkey.operation("run", { execution, ...writes });
    const submit = createExchange(latchkey, { singleTenant: true }).route(operation);
    const cause = new Error("the request cannot be made again");
    const failing = submit({}, incoming(), async () =>
      beforeHandler((): Reply => {
        throw cause;
      }),
    );
    await expect(failing).rejects.toBe(cause);
    const retry = await submit({}, incoming(), async () => answered);
    expect(retry.kind).toBe("handler");
  });
});
