/** The client's decisions, call by call. Here `fetch` is scripted; test/latchkey-client uses real servers. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { type ClientPorts, clientPorts } from "../../../test/support/client-ports.ts";
import { type Deferred, deferred, until } from "../../../test/support/until.ts";
import { createClient } from "./client.ts";
import type { ClientEvent, ClientOptions } from "./options.ts";
import type { IntentStorage } from "./storage.ts";
import { memoryStorage } from "./storages/memory.ts";

const url = "https://shop.example/orders";
const order = { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"item":"book"}' };

type Scripted = Response | Error | ((sent: Sent) => Response | Promise<Response>);

interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: string;
  readonly signal: AbortSignal;
}

interface Arranged extends ClientOptions {
  readonly ports?: ClientPorts;
}

/** A client whose n-th request gets the n-th entry of `script`; the last entry also answers all later ones. */
function arrange(script: readonly Scripted[], { ports = clientPorts(), ...options }: Arranged = {}) {
  const sent: Sent[] = [];
  const events: ClientEvent[] = [];
  const storage = options.storage ?? memoryStorage();
  const client = createClient({
    storage,
    ports,
    onEvent: (event) => events.push(event),
    fetch: async (target, init) => {
      const { signal, body, method = "" } = init;
      if (!(signal instanceof AbortSignal)) throw new TypeError("every attempt has a signal");
      signal.throwIfAborted();
      const text = body instanceof Uint8Array ? new TextDecoder().decode(body) : "";
      const one = { url: String(target), method, headers: new Headers(init.headers), body: text, signal };
      sent.push(one);
      const step = script[sent.length - 1] ?? script.at(-1);
      if (step === undefined || step instanceof Error) throw step;
      return step instanceof Response ? step.clone() : await step(one);
    },
    ...options,
  });
  return {
    client,
    sent,
    events,
    ports,
    storage,
    keys: () => sent.map(({ headers }) => headers.get("idempotency-key")),
  };
}

const created = () => Response.json({ id: 1 }, { status: 201 });
const lost = () => new TypeError("fetch failed");
const unavailable = (headers = {}) =>
  Response.json({ retryable: true, safe_new_key: false }, { status: 503, headers });
const untilAborted = ({ signal }: Sent) =>
  new Promise<Response>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

afterEach(() => vi.unstubAllGlobals());

describe("one call", () => {
  test("after lost connections and temporary refusals, the same bytes are sent again under one key", async () => {
    const { client, sent, keys, ports } = arrange([
      lost(),
      unavailable(),
      new Response(null, { status: 409 }),
      created(),
    ]);
    const response = await client.fetch(url, order);
    expect([response.status, await response.json()]).toEqual([201, { id: 1 }]);
    expect(sent.map(({ body, method, url: to }) => [method, to, body])).toEqual(
      Array.from({ length: 4 }, () => ["POST", url, order.body]),
    );
    expect(new Set(keys()).size).toBe(1);
    expect(keys()[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/u);
    expect(ports.pausesMs).toEqual([250, 500, 1_000]);
  });

  test("the caller gets the last refusal when no attempts are left", async () => {
    const { client, sent } = arrange([unavailable()], { attempts: 3 });
    const response = await client.fetch(url, order);
    expect([response.status, await response.json()]).toEqual([503, { retryable: true, safe_new_key: false }]);
    expect(sent).toHaveLength(3);
  });

  test("if no answer arrives at all, the error has the key", async () => {
    const { client, keys } = arrange([lost()], { attempts: 2 });
    const failure = client.fetch(url, order);
    await expect(failure).rejects.toMatchObject({
      code: "no-answer",
      intent: null,
      cause: new TypeError("fetch failed"),
    });
    await expect(failure).rejects.toMatchObject({ key: keys()[0] });
  });

  test("an answer whose body is cut off counts as an attempt without an answer", async () => {
    const cut = () =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('{"id'));
            controller.error(new TypeError("terminated"));
          },
        }),
        { status: 201 },
      );
    const { client, sent } = arrange([cut, created()]);
    expect(await (await client.fetch(url, order)).json()).toEqual({ id: 1 });
    expect(sent).toHaveLength(2);
  });

  test("pauses are at least as long as Retry-After, and one beyond the limit is not waited for", async () => {
    const patient = arrange([unavailable({ "Retry-After": "7" }), created()]);
    expect((await patient.client.fetch(url, order)).status).toBe(201);
    expect(patient.ports.pausesMs[0]).toBeGreaterThanOrEqual(7_000);
    const hurried = arrange([unavailable({ "Retry-After": "121" }), created()]);
    expect((await hurried.client.fetch(url, order)).status).toBe(503);
    expect(hurried.sent).toHaveLength(1);
  });

  test("pauses double up to the longest, and half of each is random", async () => {
    const ports = clientPorts({ fraction: 0.999_999, held: [30_000, 1e9] });
    const { client } = arrange([lost()], { ports, attempts: 9, limitMs: 1e9, longestPauseMs: 8_000 });
    await expect(client.fetch(url, order)).rejects.toMatchObject({ code: "no-answer" });
    expect(ports.pausesMs).toEqual([500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]);
  });

  test("an attempt that takes too long is abandoned and repeated", async () => {
    const { client, sent, ports } = arrange([untilAborted, created()]);
    const response = client.fetch(url, order);
    await until(() => sent.length === 1);
    ports.advance(30_000);
    expect((await response).status).toBe(201);
    expect(sent[0]?.signal.reason).toMatchObject({ name: "TimeoutError" });
  });

  test("a permanent refusal is not sent again", async () => {
    const { client, sent } = arrange([
      Response.json({ retryable: false, safe_new_key: false }, { status: 409 }),
    ]);
    expect((await client.fetch(url, order)).status).toBe(409);
    expect(sent).toHaveLength(1);
  });

  test("header, syntax, date of the first attempt, and a key of the caller's own", async () => {
    const { client, sent } = arrange([unavailable(), created()], {
      header: "X-Key",
      keySyntax: "quoted",
      firstSentHeader: "Repeatability-First-Sent",
    });
    await client.fetch(url, { ...order, headers: { "X-Key": "order-7" } });
    expect(sent.map(({ headers }) => headers.get("x-key"))).toEqual(['"order-7"', '"order-7"']);
    expect(sent.map(({ headers }) => headers.get("repeatability-first-sent"))).toEqual(
      Array.from({ length: 2 }, () => "Tue, 14 Nov 2023 22:13:20 GMT"),
    );
  });

  test("GET is sent unchanged, once and without a key", async () => {
    const given: unknown[] = [];
    const { client } = arrange([], {
      fetch: async (...args) => {
        given.push(args);
        return new Response(null, { status: 503 });
      },
    });
    expect((await client.fetch(url, { redirect: "error" })).status).toBe(503);
    expect(given).toEqual([[url, { redirect: "error" }]]);
    await expect(client.fetch(url, { intent: "i" })).rejects.toThrow(TypeError);
  });

  test("a Request is sent with its method, headers and body", async () => {
    const { client, sent } = arrange([lost(), created()]);
    await client.fetch(new Request(url, { ...order, method: "PATCH" }));
    expect(sent.map(({ method, body, headers }) => [method, body, headers.get("content-type")])).toEqual(
      Array.from({ length: 2 }, () => ["PATCH", order.body, "application/json"]),
    );
  });

  test("a malformed request and unknown options are TypeErrors", async () => {
    const { client, sent } = arrange([created()]);
    await expect(client.fetch("no url", order)).rejects.toThrow(TypeError);
    await expect(client.fetch(url, { ...order, intent: "" })).rejects.toThrow(TypeError);
    expect(sent).toEqual([]);
    const misspelt: object = { atempts: 3 };
    expect(() => createClient(misspelt)).toThrow("createClient: atempts is unknown");
    expect(() => createClient({ attempts: 0 })).toThrow("attempts must be above 0");
    expect(() => createClient({ limitMs: Number.NaN })).toThrow("limitMs must be above 0");
  });
});

describe("abort", () => {
  test("it ends an attempt, a pause and the wait for a network", async () => {
    const reason = new Error("the user went away");
    const inAttempt = arrange([untilAborted]);
    const leave = new AbortController();
    const first = inAttempt.client.fetch(url, { ...order, signal: leave.signal });
    await until(() => inAttempt.sent.length === 1);
    leave.abort(reason);
    await expect(first).rejects.toBe(reason);

    const leavePause = new AbortController();
    const inPause = arrange([unavailable({ "Retry-After": "60" })], {
      onEvent: (event) => event.type === "waiting" && leavePause.abort(reason),
    });
    await expect(inPause.client.fetch(url, { ...order, signal: leavePause.signal })).rejects.toBe(reason);

    const offline = arrange([lost()]);
    offline.ports.setOnline(false);
    const leaveOffline = new AbortController();
    const third = offline.client.fetch(url, { ...order, signal: leaveOffline.signal });
    await until(() => offline.ports.waitingForNetwork() === 1);
    leaveOffline.abort(reason);
    await expect(third).rejects.toBe(reason);
    expect(offline.ports.waitingForNetwork()).toBe(0);
  });

  test("a signal that was aborted before the call sends and stores nothing", async () => {
    const { client, sent } = arrange([created()]);
    const aborted = { ...order, signal: AbortSignal.abort("no") };
    await expect(client.fetch(url, aborted)).rejects.toBe("no");
    await expect(client.fetch(url, { ...aborted, intent: "i" })).rejects.toBe("no");
    expect(sent).toEqual([]);
    expect(await client.pending()).toEqual([]);
  });

  test("the intent stays open, and the next call uses its key", async () => {
    const { client, sent, keys } = arrange([untilAborted, created()]);
    const leave = new AbortController();
    const first = client.fetch(url, { ...order, intent: "i", signal: leave.signal });
    await until(() => sent.length === 1);
    leave.abort();
    await expect(first).rejects.toThrow();
    expect((await client.fetch(url, { ...order, intent: "i" })).status).toBe(201);
    expect(new Set(keys()).size).toBe(1);
  });
});

describe("offline", () => {
  test("it waits for a network without a limit, and uses up no attempt", async () => {
    const { client, sent, ports, events } = arrange([lost(), lost(), lost(), created()], { attempts: 2 });
    ports.setOnline(false);
    const response = client.fetch(url, order);
    for (const waits of [1, 2]) {
      await until(() => sent.length === waits && ports.waitingForNetwork() === 1);
      ports.advance(3_600_000);
      if (waits === 2) ports.setOnline(true);
      else {
        ports.setOnline(true);
        ports.setOnline(false);
      }
    }
    expect((await response).status).toBe(201);
    expect(events.flatMap((event) => (event.type === "waiting" ? [event.reason] : []))).toEqual([
      "offline",
      "offline",
      "retry",
    ]);
  });
});

describe("202 with Location", () => {
  const accepted = (location = "/operations/7", headers = {}) =>
    Response.json(
      { status: "pending" },
      { status: 202, headers: { Location: location, "Retry-After": "2", ...headers } },
    );

  test("it is followed to its answer, without key and body and with the caller's headers", async () => {
    const still = new Response(null, { status: 202, headers: { "Retry-After": "2" } });
    const { client, sent, ports } = arrange([accepted(), still, unavailable(), created()]);
    const response = await client.fetch(url, {
      ...order,
      headers: { ...order.headers, Authorization: "Bearer t" },
    });
    expect(await response.json()).toEqual({ id: 1 });
    expect(sent.map(({ method, url: to }) => `${method} ${new URL(to).pathname}`)).toEqual([
      "POST /orders",
      "GET /operations/7",
      "GET /operations/7",
      "GET /operations/7",
    ]);
    const [, poll] = sent;
    expect([...(poll?.headers ?? [])]).toEqual([["authorization", "Bearer t"]]);
    expect(poll?.body).toBe("");
    expect(ports.pausesMs.slice(0, 2)).toEqual([2_000, 2_000]);
  });

  test.each([
    ["is gone", () => new Response(null, { status: 404 })],
    ["was stopped", () => Response.json({ code: "in-progress", retryable: true }, { status: 409 })],
  ])("if the resource %s, the request itself is sent again, with its key", async (_, answer) => {
    const { client, sent, keys } = arrange([accepted(), answer, created()]);
    expect((await client.fetch(url, order)).status).toBe(201);
    expect(sent.map(({ method }) => method)).toEqual(["POST", "GET", "POST"]);
    expect(keys()[2]).toBe(keys()[0]);
  });

  test("a 4xx of the resource itself says nothing about the request; a stored one is its answer", async () => {
    const own = arrange([accepted(), new Response(null, { status: 400 })]);
    expect((await own.client.fetch(url, { ...order, intent: "i" })).status).toBe(400);
    expect(await own.client.pending()).toMatchObject([{ intent: "i" }]);
    const replayed = { status: 422, headers: { "Idempotent-Replayed": "true" } };
    const stored = arrange([accepted(), new Response(null, replayed)]);
    expect((await stored.client.fetch(url, { ...order, intent: "i" })).status).toBe(422);
    expect(await stored.client.pending()).toEqual([]);
  });

  test("it is not followed to another origin, nor if the caller follows it", async () => {
    const elsewhere = arrange([accepted("https://other.example/7"), created()]);
    expect((await elsewhere.client.fetch(url, order)).status).toBe(202);
    const own = arrange([accepted(), created()], { followAccepted: false });
    expect((await own.client.fetch(url, order)).status).toBe(202);
    expect([...elsewhere.sent, ...own.sent]).toHaveLength(2);
  });

  test("at the limit, the 202 is the answer and the intent stays open", async () => {
    const { client, sent } = arrange([accepted()], { acceptedLimitMs: 5_000 });
    expect((await client.fetch(url, { ...order, intent: "report" })).status).toBe(202);
    expect(sent).toHaveLength(3);
    expect(await client.pending()).toMatchObject([{ intent: "report", isResumable: true }]);
  });
});

describe("an intent", () => {
  const named = { ...order, intent: "form-1" };

  test("keeps its key over failures and reloads, and its body and address with it", async () => {
    const storage = memoryStorage();
    const before = arrange([lost()], { storage, attempts: 1 });
    await expect(before.client.fetch(url, named)).rejects.toMatchObject({
      code: "no-answer",
      intent: "form-1",
    });
    const after = arrange([created()], { storage });
    expect(await after.client.pending()).toEqual([
      {
        intent: "form-1",
        key: before.keys()[0],
        method: "POST",
        url,
        startedAt: 1_700_000_000_000,
        isResumable: true,
      },
    ]);
    const response = await after.client.resume("form-1", { headers: { Authorization: "Bearer fresh" } });
    expect(response.status).toBe(201);
    const [sent] = after.sent;
    expect([sent?.method, sent?.url, sent?.body]).toEqual(["POST", url, order.body]);
    expect([...(sent?.headers ?? [])]).toEqual([
      ["authorization", "Bearer fresh"],
      ["content-type", "application/json"],
      ["idempotency-key", before.keys()[0]],
    ]);
    expect(await after.client.pending()).toEqual([]);
  });

  test("credentials are not stored", async () => {
    const { client, storage } = arrange([lost()], { attempts: 1 });
    const headers = {
      ...order.headers,
      Authorization: "Bearer secret",
      Cookie: "secret",
      "X-Api-Key": "secret",
    };
    await expect(client.fetch(url, { ...named, headers })).rejects.toThrow();
    expect(JSON.stringify(await storage.list())).toContain("form-1");
    expect(JSON.stringify(await storage.list())).not.toContain("secret");
  });

  test("without `keepRequest` no part of the request is stored, and the request is still recognised", async () => {
    const { client, storage, keys } = arrange([lost(), created()], { attempts: 1, keepRequest: false });
    await expect(client.fetch(url, named)).rejects.toMatchObject({ code: "no-answer" });
    expect((await storage.list())[0]?.[1]).toMatchObject({ type: null, body: null });
    await expect(client.resume("form-1")).rejects.toMatchObject({ code: "request-not-kept" });
    await expect(client.fetch(url, { ...named, body: "{}" })).rejects.toMatchObject({
      code: "request-changed",
    });
    expect((await client.fetch(url, named)).status).toBe(201);
    expect(new Set(keys()).size).toBe(1);
  });

  test("another request under its name is refused while it is open, and after it is done", async () => {
    const { client, sent } = arrange([unavailable(), created()], { attempts: 1 });
    await client.fetch(url, named);
    for (const other of [{ body: "{}" }, { method: "PUT" }]) {
      await expect(client.fetch(url, { ...named, ...other })).rejects.toMatchObject({
        code: "request-changed",
      });
    }
    await expect(client.fetch(`${url}?a=1`, named)).rejects.toMatchObject({ code: "request-changed" });
    await client.fetch(url, named);
    await expect(client.fetch(url, { ...named, body: "{}" })).rejects.toMatchObject({ code: "intent-done" });
    await expect(client.resume("form-1")).rejects.toMatchObject({ code: "intent-done" });
    await expect(client.resume("form-2")).rejects.toMatchObject({ code: "intent-unknown" });
    expect(sent).toHaveLength(2);
  });

  test("when done, it asks for its answer with the same key, and is not executed again", async () => {
    const { client, keys } = arrange([created()]);
    await client.fetch(url, named);
    await client.fetch(url, named);
    expect(new Set(keys()).size).toBe(1);
    await client.forget("form-1");
    await client.fetch(url, named);
    expect(new Set(keys()).size).toBe(2);
  });

  test.each([
    ["a 4xx of the handler", () => Response.json({ message: "declined" }, { status: 402 }), 2],
    ["safe_new_key: true", () => Response.json({ retryable: false, safe_new_key: true }, { status: 502 }), 2],
    [
      "safe_new_key: false",
      () => Response.json({ retryable: false, safe_new_key: false }, { status: 422 }),
      1,
    ],
    ["a session that ended", () => new Response(null, { status: 401 }), 1],
    [
      "a stored 500",
      () => new Response(null, { status: 500, headers: { "Idempotent-Replayed": "true" } }),
      1,
    ],
  ])("after %s the next call's key is new only if that is safe", async (_, answer, keysSeen) => {
    const { client, sent, keys } = arrange([answer]);
    await client.fetch(url, named);
    await client.fetch(url, named);
    expect(sent).toHaveLength(2);
    expect(new Set(keys()).size).toBe(keysSeen);
  });

  test("an intent as old as the servers' key lifetime is not sent again", async () => {
    const { client, sent, ports } = arrange([lost()], { attempts: 1 });
    await expect(client.fetch(url, named)).rejects.toMatchObject({ code: "no-answer" });
    ports.advance(82_800_000);
    expect(await client.pending()).toMatchObject([{ isResumable: false }]);
    for (const again of [client.fetch(url, named), client.resume("form-1")]) {
      await expect(again).rejects.toMatchObject({ code: "intent-too-old" });
    }
    expect(sent).toHaveLength(1);
  });

  test("names of completed intents are remembered for 30 days; those of open ones until they are forgotten", async () => {
    const { client, storage, ports } = arrange([created(), lost(), created()], { attempts: 1 });
    await client.fetch(url, { ...order, intent: "done" });
    await expect(client.fetch(url, { ...order, intent: "open" })).rejects.toThrow();
    ports.advance(2_592_000_001);
    const later = createClient({ storage, ports, fetch: async () => created() });
    await later.fetch(url, { ...order, intent: "new" });
    await until(async () => (await storage.list()).map(([name]) => name).join() === "open,new");
  });

  test("nothing is sent if its key cannot be stored", async () => {
    const full = new Error("quota");
    const storage = { ...memoryStorage(), update: () => Promise.reject(full) };
    const { client, sent } = arrange([created()], { storage });
    await expect(client.fetch(url, named)).rejects.toMatchObject({ code: "storage-failed", cause: full });
    expect(sent).toEqual([]);
  });

  test("the answer is returned even if it cannot be stored", async () => {
    const inner = memoryStorage();
    let isFull = false;
    const storage = {
      ...inner,
      update: (...args: Parameters<typeof inner.update>) => {
        if (isFull) return Promise.reject(new Error("quota"));
        return inner.update(...args);
      },
    };
    const gate = deferred<Response>();
    const { client, events, keys } = arrange([() => gate.promise, created()], { storage });
    const answer = client.fetch(url, named);
    await until(() => keys().length === 1);
    isFull = true;
    gate.resolve(created());
    expect((await answer).status).toBe(201);
    expect(events.at(-1)).toMatchObject({ type: "storage_failed", intent: "form-1", key: keys()[0] });
    isFull = false;
    await client.fetch(url, named);
    expect(new Set(keys()).size).toBe(1);
  });

  test("a form that is built again is the same request, and is sent with its first bytes", async () => {
    const { client, sent } = arrange([lost(), created()], { attempts: 1 });
    const form = () => {
      const data = new FormData();
      data.set("file", new Blob([new Uint8Array([0, 255, 10])]), "a.bin");
      return { method: "POST", body: data, intent: "upload" };
    };
    await expect(client.fetch(url, form())).rejects.toMatchObject({ code: "no-answer" });
    expect((await client.fetch(url, form())).status).toBe(201);
    const changed = form();
    changed.body.set("file", new Blob([new Uint8Array([1])]), "a.bin");
    await expect(client.fetch(url, changed)).rejects.toMatchObject({ code: "intent-done" });
    expect(sent[1]?.body).toBe(sent[0]?.body);
    expect(sent[1]?.headers.get("content-type")).toBe(sent[0]?.headers.get("content-type"));
  });
});

describe.each([
  ["with Web Locks", true],
  ["without Web Locks", false],
])("one flight, %s", (_, hasLocks) => {
  const named = { ...order, intent: "form-1" };
  const hide = () => {
    if (!hasLocks) vi.stubGlobal("navigator", {});
  };

  test("calls of one page share it, and each reads its own answer", async () => {
    hide();
    const gate = deferred<Response>();
    const { client, sent } = arrange([() => gate.promise]);
    const calls = [1, 2, 3].map(() => client.fetch(url, named));
    await until(() => sent.length === 1);
    gate.resolve(created());
    const bodies = await Promise.all(calls.map(async (call) => (await call).json()));
    expect(bodies).toEqual([{ id: 1 }, { id: 1 }, { id: 1 }]);
    expect(sent).toHaveLength(1);
  });

  test("a caller that leaves ends it only if it is the last, and later callers get a new flight", async () => {
    hide();
    const { client, sent } = arrange([untilAborted, created()]);
    const leaves = [new AbortController(), new AbortController()];
    const calls = leaves.map(({ signal }) => client.fetch(url, { ...named, signal }));
    await until(() => sent.length === 1);
    leaves[0]?.abort("first");
    await expect(calls[0]).rejects.toBe("first");
    expect(sent[0]?.signal.aborted).toBe(false);
    leaves[1]?.abort("second");
    const next = client.fetch(url, named);
    await expect(calls[1]).rejects.toBe("second");
    expect(sent[0]?.signal.aborted).toBe(true);
    expect((await next).status).toBe(201);
  });

  test("two tabs: one sends, then the other asks for the same answer with the same key", async () => {
    hide();
    const storage = memoryStorage();
    const gate = deferred<Response>();
    // Its clock runs while the other tab waits, and must not reach a limit before the test has checked.
    const limits = { attemptLimitMs: 1e9, limitMs: 1e9 };
    const ports = clientPorts({ held: [1e9, 10_000 / 3] });
    const first = arrange([() => gate.promise], { storage, ports, ...limits });
    const second = arrange([created()], { storage, ports, ...limits });
    const calls = [first, second].map(({ client }) => client.fetch(url, named));
    await until(() => first.sent.length === 1);
    await until(() => hasLocks || ports.pausesMs.length > 5);
    expect(second.sent).toHaveLength(0);
    gate.resolve(created());
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([201, 201]);
    expect(second.keys()).toEqual(first.keys());
    expect(JSON.stringify(await storage.list())).not.toContain("lease");
  });

  test("a tab that hangs delays the other for the limit of a call, no longer", async () => {
    hide();
    const storage = memoryStorage();
    const first = arrange([untilAborted], {
      storage,
      attemptLimitMs: 1e9,
      ports: clientPorts({ held: [1e9] }),
    });
    const leave = new AbortController();
    const hanging = first.client.fetch(url, { ...named, signal: leave.signal });
    await until(() => first.sent.length === 1);
    const second = arrange([created()], { storage, limitMs: 5_000 });
    expect((await second.client.fetch(url, named)).status).toBe(201);
    expect(second.keys()).toEqual(first.keys());
    leave.abort();
    await expect(hanging).rejects.toThrow();
  });
});

test("an answer to a key that was freed does not affect the intent that now has the name", async () => {
  const storage = memoryStorage();
  const named = { ...order, intent: "form-1" };
  const declined = () => Response.json({ message: "declined" }, { status: 402 });
  const gates = [deferred<Response>(), deferred<Response>()];
  const [first, second, third] = [
    arrange([() => gates[0]?.promise ?? declined()], { storage }),
    arrange([() => gates[1]?.promise ?? declined()], { storage }),
    arrange([untilAborted], { storage }),
  ];
  const calls = [first.client.fetch(url, named)];
  await until(() => first.sent.length === 1);
  calls.push(second.client.fetch(url, named));
  await until(async () => (await navigator.locks.query()).pending?.length === 1);
  gates[0]?.resolve(declined());
  await until(() => second.sent.length === 1);
  const leave = new AbortController();
  const open = third.client.fetch(url, { ...named, signal: leave.signal });
  await until(async () => (await navigator.locks.query()).pending?.length === 1);
  gates[1]?.resolve(declined());
  await until(() => third.sent.length === 1);
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([402, 402]);
  expect(second.keys()).toEqual(first.keys());
  expect(third.keys()).not.toEqual(first.keys());
  expect(await third.client.pending()).toMatchObject([{ key: third.keys()[0] }]);
  leave.abort();
  await expect(open).rejects.toThrow();
});

describe("a lease", () => {
  const named = { ...order, intent: "i" };
  const leaseOf = async (storage: IntentStorage) => (await storage.list())[0]?.[1].lease;

  test("is renewed while its flight lasts, and ends with it", async () => {
    vi.stubGlobal("navigator", {});
    const gate = deferred<Response>();
    const { client, storage, ports, sent } = arrange([() => gate.promise], { attemptLimitMs: 60_000 });
    const call = client.fetch(url, named);
    await until(() => sent.length === 1);
    for (let renewal = 1; renewal <= 5; renewal++) {
      ports.advance(3_334);
      const until10s = ports.clock.wallMs() + 10_000;
      await until(async () => (await leaseOf(storage))?.until === until10s);
    }
    gate.resolve(created());
    expect((await call).status).toBe(201);
    ports.advance(3_334);
    expect(await leaseOf(storage)).toBeUndefined();
  });

  test("of a tab that died ends after ten seconds", async () => {
    vi.stubGlobal("navigator", {});
    const storage = memoryStorage();
    const dead = arrange([() => deferred<Response>().promise], { storage });
    void dead.client.fetch(url, named);
    await until(() => dead.sent.length === 1);
    const early = arrange([created()], {
      storage,
      limitMs: 1_000,
      ports: clientPorts({ startMs: 1_700_000_000_000 }),
    });
    await early.client.fetch(url, named);
    expect(early.ports.pausesMs.length).toBeGreaterThan(5);
    await storage.update(
      "i",
      (stored) => stored && { ...stored, lease: { owner: "dead", until: 1_700_000_010_000 } },
    );
    const late = arrange([created()], { storage, ports: clientPorts({ startMs: 1_700_000_010_000 }) });
    await late.client.fetch(url, named);
    expect(late.ports.pausesMs).toEqual([]);
    expect(late.keys()).toEqual(dead.keys());
  });

  test("is not renewed after its flight, even if a renewal was in progress", async () => {
    vi.stubGlobal("navigator", {});
    const inner = memoryStorage();
    let slow: Deferred<void> | null = null;
    const storage: IntentStorage = {
      ...inner,
      async update(name, change) {
        const waits = slow;
        slow = null;
        await waits?.promise;
        return inner.update(name, change);
      },
    };
    const gate = deferred<Response>();
    const { client, ports, sent } = arrange([() => gate.promise], { storage, attemptLimitMs: 60_000 });
    const call = client.fetch(url, named);
    await until(() => sent.length === 1);
    const renewal = deferred();
    slow = renewal;
    ports.advance(3_334);
    gate.resolve(created());
    await call;
    renewal.resolve();
    await until(async () => (await leaseOf(inner)) !== undefined);
    const left = await leaseOf(inner);
    for (let round = 1; round <= 3; round++) {
      ports.advance(3_334);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await leaseOf(inner)).toEqual(left);
  });

  test("with an end far in the future, written by a wrong clock, is not waited for", async () => {
    vi.stubGlobal("navigator", {});
    const { client, storage, ports, keys } = arrange([lost(), created()], { attempts: 1 });
    await expect(client.fetch(url, named)).rejects.toThrow();
    const lease = { owner: "other", until: ports.clock.wallMs() + 3_600_000 };
    await storage.update("i", (stored) => stored && { ...stored, lease });
    expect((await client.fetch(url, named)).status).toBe(201);
    expect(ports.pausesMs).toEqual([]);
    expect(new Set(keys()).size).toBe(1);
  });
});
