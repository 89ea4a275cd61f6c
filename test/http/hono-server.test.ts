import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { fetchProtect } from "latchkey/fetch";
import { honoProtect } from "latchkey/hono";
import { afterEach, expect, test } from "vitest";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const answers: Record<string, (c: Context) => Response> = {
  "text beside a header": (c) => {
    c.header("X-Z", "1");
    return c.body("text");
  },
  "text beside a list of headers": () =>
    new Response("text", {
      headers: [
        ["X-A", "1"],
        ["X-A", "2"],
      ],
    }),
  bytes: () => new Response(new Uint8Array([1, 2, 255]).buffer),
  "a stream": () => new Response(ReadableStream.from([Buffer.from("one")])),
  nothing: (c) => c.body(null, 201),
};

test.each(Object.keys(answers))("%s has the type that Hono's server gives it", async (name) => {
  const { latchkey, operation } = httpService();
  const protect = honoProtect(latchkey, { tenant: () => "t" });
  const handler = answers[name] ?? ((c: Context) => c.notFound());
  const app = new Hono().post("/plain", handler).post("/run", protect(operation(), handler));
  const { url, close } = await listen(getRequestListener(app.fetch));
  closing.push(close);
  const key = newKey();
  const plain = await send(url, { target: "/plain" });
  for (const replayed of [null, "true"]) {
    const answer = await send(url, { key });
    expect(answer.header("idempotent-replayed")).toBe(replayed);
    expect([answer.header("content-type"), answer.body]).toEqual([plain.header("content-type"), plain.body]);
  }
});

test("another server's status text is kept, though Hono's has replaced the global Response", async () => {
  const made = () => new Response("made", { status: 201, statusText: "Made" });
  expect(Object.getOwnPropertySymbols(made()), "it has").not.toEqual([]);
  const { latchkey, operation } = httpService();
  const handler = fetchProtect(latchkey, { tenant: () => "t" })(operation(), made);
  const headers = { "Idempotency-Key": newKey() };
  const first = await handler(new Request("https://api.example/run", { method: "POST", headers }));
  expect([first.status, first.statusText, await first.text()]).toEqual([201, "Made", "made"]);
});

test.each(["transaction", "lease"] as const)(
  "%s: a server that replaces no globals, behind middleware that has looked into the request",
  async (execution) => {
    const service = httpService();
    const operation = execution === "lease" ? service.lease() : service.operation();
    const protect = honoProtect(service.latchkey, { tenant: () => "t" });
    const app = new Hono().use(bodyLimit({ maxSize: 1_000 }));
    app.post(
      "/run",
      protect(operation as ReturnType<typeof service.lease>, async (c) => c.json(await c.req.json(), 201)),
    );
    const { url, close } = await listen(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
    closing.push(close);
    const key = newKey();
    for (const replayed of [null, "true"]) {
      const answer = await send(url, { key, body: '{"amount":1}' });
      expect([answer.status, answer.json(), answer.header("idempotent-replayed")]).toEqual([
        201,
        { amount: 1 },
        replayed,
      ]);
    }
  },
);
