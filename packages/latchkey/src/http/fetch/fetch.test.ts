import { describe, expect, test } from "vitest";
import { httpService } from "../../../../../test/support/http-service.ts";
import { createLatchkey } from "../../latchkey.ts";
import type { OperationOptions } from "../../operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import type { HttpSettings } from "../protocol/http-options.ts";
import { type FetchHandler, fetchProtect } from "./fetch.ts";
import { targetOf } from "./fetch-messages.ts";

type Handler = FetchHandler<Request, MemoryTransaction, "transaction", []>;

function protectedBy(handler: Handler, options: OperationOptions = {}, settings: HttpSettings<Request> = {}) {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("run", { writes: "none", ...options, execution: "transaction" });
  return fetchProtect(latchkey, { ...settings, singleTenant: true })(operation, handler);
}

let keysMade = 0;
const newKey = () => `key-${++keysMade}`;

function post(key: string | null, init: RequestInit = {}): Request {
  const headers = new Headers(init.headers);
  if (key !== null) headers.set("Idempotency-Key", key);
  return new Request("https://api.example/run?a=1", { method: "POST", ...init, headers });
}

const json = (value: unknown): RequestInit => ({
  body: JSON.stringify(value),
  headers: { "Content-Type": "application/json" },
});

test("a request's target is its address without origin and fragment, as parsing leaves it", () => {
  const targets = [
    ["https://api.example", "/"],
    ["https://api.example/", "/"],
    ["https://api.example?a=1", "/?a=1"],
    ["https://api.example/orders/7_a-b~c?a=1&b=%20+.", "/orders/7_a-b~c?a=1&b=%20+."],
    ["https://api.example/a/./b/../c", "/a/c"],
    ["https://api.example/a/%2e%2e/b.json", "/b.json"],
    ["https://api.example/a?", "/a"],
    ["https://api.example/a?b#c", "/a?b"],
    ["https://api.example/é?ü='", "/%C3%A9?%C3%BC=%27"],
    ["https://user@api.example:8443//a", "//a"],
  ] as const;
  for (const [url, target] of targets) {
    // Platforms may pass addresses that they have not parsed.
    expect(targetOf({ url } as Request), url).toBe(target);
    const { pathname, search } = new URL(url);
    expect(pathname + search).toBe(target);
  }
});

describe("fetchProtect", () => {
  test("replays status, bytes and headers that belong to the answer", async () => {
    const handler = protectedBy(async (request) => {
      const response = Response.json(await request.json(), { status: 201, statusText: "Made" });
      response.headers.append("Set-Cookie", "a=1");
      response.headers.append("Set-Cookie", "b=2");
      response.headers.set("Location", "/orders/1");
      return response;
    });
    const key = newKey();
    const first = await handler(post(key, json({ amount: 1 })));
    const replay = await handler(post(key, json({ amount: 1 })));
    expect([first.status, first.statusText, await first.json()]).toEqual([201, "Made", { amount: 1 }]);
    expect(first.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect([replay.status, await replay.json()]).toEqual([201, { amount: 1 }]);
    expect(replay.headers.getSetCookie()).toEqual([]);
    expect(replay.headers.get("Location")).toBe("/orders/1");
    expect([first, replay].map(({ headers }) => headers.get("Idempotent-Replayed"))).toEqual([null, "true"]);
  });

  test.each([204, 205, 304])("a %i has no body", async (status) => {
    const handler = protectedBy(() => new Response(null, { status }));
    const key = newKey();
    for (const response of [await handler(post(key)), await handler(post(key))]) {
      expect([response.status, response.body]).toEqual([status, null]);
    }
  });

  test("a rerun reads the same body again", async () => {
    const read: unknown[] = [];
    const handler = protectedBy(async (request) => {
      read.push(await request.json());
      if (read.length === 1) throw Object.assign(new Error("could not serialize access"), { code: "40001" });
      return new Response("done");
    });
    expect(await (await handler(post(newKey(), json({ amount: 1 })))).text()).toBe("done");
    expect(read).toEqual([{ amount: 1 }, { amount: 1 }]);
  });

  test("the platform's further arguments reach the handler, and so does its own request", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const operation = latchkey.operation("run", { writes: "none" });
    const protect = fetchProtect(latchkey, { singleTenant: true });
    const handler = protect(operation, (_request, { original }, { params }: { params: { id: string } }) =>
      Response.json([params.id, original.url]),
    );
    const response = await handler(post(newKey()), { params: { id: "7" } });
    expect(await response.json()).toEqual(["7", "https://api.example/run?a=1"]);
  });

  test("a body that was already read is an error with the remedy", async () => {
    const handler = protectedBy(() => new Response("done"));
    const request = post(newKey(), json({ amount: 1 }));
    await request.text();
    await expect(handler(request)).rejects.toMatchObject({
      code: "body-consumed",
      message: expect.stringContaining("unread"),
    });
  });

  test("a body is refused as soon as it passes the cap, announced or not", async () => {
    const handler = protectedBy(() => new Response("done"), {}, { bodyLimitBytes: 10 });
    expect((await handler(post(newKey(), { body: "12345678901" }))).status).toBe(413);
    const announced = post(newKey(), { body: "1234567890", headers: { "Content-Length": "11" } });
    expect((await handler(announced)).status).toBe(413);
    expect((await handler(post(newKey(), { body: "1234567890" }))).status).toBe(200);
  });

  test("a body over the cap is still read to its end, so that the sender reads the answer", async () => {
    const handler = protectedBy(() => new Response("done"), {}, { bodyLimitBytes: 10 });
    const { promise: read, resolve } = Promise.withResolvers<void>();
    let left = 20;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- > 0) return controller.enqueue(new Uint8Array(10));
        controller.close();
        resolve();
      },
    });
    expect((await handler(post(newKey(), { body, duplex: "half" }))).status).toBe(413);
    await read;
  });

  test("GET and HEAD can be protected too", async () => {
    const handler = protectedBy((request) => new Response(request.method));
    const key = newKey();
    const get = () => new Request("https://api.example/run", { headers: { "Idempotency-Key": key } });
    expect(await (await handler(get())).text()).toBe("GET");
    expect((await handler(get())).headers.get("Idempotent-Replayed")).toBe("true");
  });

  test.each([
    ["nothing", () => undefined as unknown as Response],
    ["an error response", () => Response.error()],
    [
      "a response that was read before",
      async () => {
        const response = new Response("read");
        await response.text();
        return response;
      },
    ],
  ])("%s is no answer", async (_what, answer) => {
    await expect(protectedBy(answer)(post(newKey()))).rejects.toMatchObject({ code: "answer-missing" });
  });

  test("a stream over the hard cap fails the attempt and is read no further", async () => {
    let cancelled = false;
    const endless = () =>
      new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(new Uint8Array(1000)),
        cancel() {
          cancelled = true;
        },
      });
    const handler = protectedBy(() => new Response(endless()), {
      answerHoldBytes: 10_000,
      answerLimitBytes: 10_000,
    });
    await expect(handler(post(newKey()))).rejects.toMatchObject({ code: "answer-too-large" });
    expect(cancelled).toBe(true);
  });

  test("a stream that breaks fails the attempt", async () => {
    const broken = () =>
      new ReadableStream<Uint8Array>({
        pull: (controller) => controller.error(new Error("source failed")),
      });
    await expect(protectedBy(() => new Response(broken()))(post(newKey()))).rejects.toThrow("source failed");
  });

  test("without a key, if none is required, the handler answers directly", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const operation = latchkey.operation("run", { execution: "lease", key: "optional" });
    const protect = fetchProtect(latchkey, { singleTenant: true });
    const handler = protect(operation, async (request, { attempt }) =>
      Response.json([await request.text(), typeof attempt.id]),
    );
    expect(await (await handler(post(null, { body: "a" }))).json()).toEqual(["a", "string"]);
  });
});

test("bodies of each kind are answered and replayed as the handler made them", async () => {
  const form = new FormData();
  form.set("a", "ü");
  const multipart = new Response(form);
  const formType = multipart.headers.get("content-type") ?? "";
  const formBytes = await multipart.arrayBuffer();
  const bodies: readonly (() => Response)[] = [
    () => new Response(null, { status: 201 }),
    () => new Response("", { status: 200 }),
    () => new Response("grüße"),
    () => new Response(new Uint8Array([0, 255])),
    () => new Response(new ArrayBuffer(0)),
    () => new Response(new Blob(["x"], { type: "image/png" })),
    () => new Response(new Blob(["x"])),
    () => new Response(new Blob([])),
    () => new Response(new URLSearchParams({ a: "ü" })),
    () => new Response(formBytes, { headers: { "content-type": formType } }),
    () => new Response(ReadableStream.from([Buffer.from("a"), Buffer.from("b")])),
    () => new Response(ReadableStream.from([])),
    ...[204, 205, 304].map((status) => () => new Response(null, { status })),
  ];
  for (const body of bodies) {
    const { latchkey, lease } = httpService();
    const handle = fetchProtect(latchkey, { singleTenant: true })(lease(), body);
    const headers = { "idempotency-key": newKey() };
    const seen = async (response: Response) => ({
      status: response.status,
      headers: [...response.headers].filter(([name]) => name !== "idempotent-replayed"),
      body: Buffer.from(await response.arrayBuffer()).toString("latin1"),
    });
    const call = async () => handle(new Request("http://localhost/run", { method: "POST", headers }));
    const plain = await seen(body());
    expect(await seen(await call())).toEqual(plain);
    const replay = await call();
    expect(replay.headers.get("idempotent-replayed")).toBe("true");
    expect(await seen(replay)).toEqual(plain);
  }
});
