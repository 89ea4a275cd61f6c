/** Request bodies on Express, parsed before Latchkey or by it. */
import { once } from "node:events";
import { connect } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import express, { type ErrorRequestHandler } from "express";
import { describe, expect, test } from "vitest";
import { arrange, closing, echo, failed, serveHandler } from "../../../../../test/support/express-app.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { type HttpCall, newKey } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { expressProtect, keepRawBody } from "./express.ts";

describe("bodies", () => {
  test("a parser that kept nothing is an error that names the fix, before anything is stored", async () => {
    const { call } = await serveHandler(echo, { before: [express.json()] });
    const key = newKey();
    const answer = await call({ key });
    expect(answer.status).toBe(500);
    expect(answer.json()).toMatchObject({
      code: "body-consumed",
      message: expect.stringContaining("keepRawBody"),
    });
  });

  test("a body that other code has read and discarded is the same error", async () => {
    const drain: express.RequestHandler = (req, _res, next) => void req.resume().on("end", () => next());
    const { call } = await serveHandler(echo, { before: [drain] });
    expect((await call()).json()).toMatchObject({ code: "body-consumed" });
    expect((await call({ body: "" })).status, "there was nothing to read").toBe(201);
  });

  test("`parsed` uses the parser's value", async () => {
    const { call } = await serveHandler(echo, {
      before: [express.json()],
      settings: { fingerprint: "parsed" },
    });
    const key = newKey();
    expect((await call({ key, body: '{"a":1,"b":2}' })).status).toBe(201);
    expect((await call({ key, body: '{"b":2,"a":1}' })).header("idempotent-replayed")).toBe("true");
    expect((await call({ key, body: '{"b":2,"a":2}' })).status).toBe(422);
    expect((await call({ body: "", contentType: null })).status).toBe(201);
  });

  test("middleware that changes the parsed body does not change the fingerprint", async () => {
    let count = 0;
    const { call } = await serveHandler(echo, {
      before: [
        express.json({ verify: keepRawBody }),
        (req, _res, next) => next(void Object.assign(req.body, { receivedAs: ++count })),
      ],
    });
    const key = newKey();
    expect((await call({ key })).json()).toEqual({ amount: 1, receivedAs: 1 });
    expect((await call({ key })).json()).toEqual({ amount: 1, receivedAs: 1 });
  });

  test("keepRawBody works for every parser", async () => {
    const parsers = [
      express.json({ verify: keepRawBody }),
      express.urlencoded({ verify: keepRawBody }),
      express.text({ verify: keepRawBody }),
      express.raw({ verify: keepRawBody }),
    ];
    const { call } = await serveHandler((req, res) => res.status(201).json(String(req.body)), {
      before: parsers,
    });
    for (const contentType of [
      "application/x-www-form-urlencoded",
      "text/plain",
      "application/octet-stream",
    ]) {
      const key = newKey();
      expect((await call({ key, contentType, body: "a=1" })).status).toBe(201);
      expect((await call({ key, contentType, body: "a=1" })).header("idempotent-replayed")).toBe("true");
      expect((await call({ key, contentType, body: "a=2" })).status).toBe(422);
    }
  });

  test("bytes that a platform left in `rawBody` are used", async () => {
    const platform: express.RequestHandler = async (req, _res, next) => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk);
      const rawBody = Buffer.concat(chunks);
      Object.assign(req, { rawBody, body: JSON.parse(rawBody.toString()) });
      next();
    };
    const { call } = await serveHandler(echo, { before: [platform] });
    const key = newKey();
    expect((await call({ key })).json()).toEqual({ amount: 1 });
    expect((await call({ key, body: '{"amount":2}' })).status).toBe(422);
  });

  test("without a parser, JSON comes parsed and anything else as bytes", async () => {
    const { call } = await serveHandler((req, res) =>
      res.json(
        req.body instanceof Uint8Array
          ? { bytes: req.body.length }
          : { body: req.body === undefined ? "none" : req.body },
      ),
    );
    expect((await call({ body: '{"a":1}' })).json()).toEqual({ body: { a: 1 } });
    expect((await call({ body: "null" })).json()).toEqual({ body: null });
    expect((await call({ body: "abc", contentType: "text/plain" })).json()).toEqual({ bytes: 3 });
    expect((await call({ body: "", contentType: null })).json()).toEqual({ body: "none" });
    const gzip: HttpCall = { body: gzipSync("{}"), headers: [["Content-Encoding", "gzip"]] };
    expect((await call(gzip)).json()).toEqual({ bytes: gzipSync("{}").length });
    const malformed = await call({ body: "{" });
    expect([malformed.status, malformed.json().type]).toEqual([400, "entity.parse.failed"]);
  });

  test("a body without announced length is refused when it passes the cap, and the connection lives", async () => {
    const { latchkey, define, adapterOptions } = arrange();
    const protect = expressProtect(latchkey, adapterOptions({ bodyLimitBytes: 1000 }));
    const app = express();
    app.post("/run", protect(define(), echo));
    const { url, close } = await listen(app);
    closing.push(close);
    const body = new PassThrough();
    const answer = fetch(`${url}/run`, {
      method: "POST",
      headers: { "x-tenant": "t", "idempotency-key": "k" },
      body: Readable.toWeb(body) as ReadableStream,
      duplex: "half",
    });
    for (let chunk = 0; chunk < 100; chunk++) body.write(Buffer.alloc(100));
    body.end();
    expect((await answer).status).toBe(413);
  });

  test("a body that is announced as too large is refused before it arrives", async () => {
    const { latchkey, define, adapterOptions } = arrange();
    const app = express().post("/run", expressProtect(latchkey, adapterOptions())(define(), echo));
    const { url, close } = await listen(app);
    closing.push(close);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write(
      "POST /run HTTP/1.1\r\nHost: a\r\nX-Tenant: t\r\nIdempotency-Key: k\r\nContent-Length: 99999999\r\n\r\n",
    );
    const [head] = await once(socket, "data");
    expect(String(head)).toMatch(/^HTTP\/1\.1 413 /u);
    socket.destroy();
  });

  test("middleware that listens to a body's chunks leaves them to Latchkey, also those that come with the head", async () => {
    const { latchkey, define, adapterOptions } = arrange();
    const app = express();
    app.use((req, _res, next) => next(void req.on("data", () => {})));
    app.post("/run", expressProtect(latchkey, adapterOptions())(define(), echo));
    app.use(failed);
    const { url, close } = await listen(app);
    closing.push(close);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const fields = ["Host: a", "X-Tenant: t", "Idempotency-Key: k", "Content-Type: application/json"];
    socket.write(`POST /run HTTP/1.1\r\n${fields.join("\r\n")}\r\nContent-Length: 7\r\n\r\n{"a":1}`);
    const [answer] = await once(socket, "data");
    socket.destroy();
    expect(String(answer)).toMatch(/^HTTP\/1\.1 201 .*\{"a":1\}$/su);
  });

  test("a request that ends early is not stored", async () => {
    const errored = deferred<{ type: string }>();
    const { latchkey, define, adapterOptions, events } = arrange();
    const protect = expressProtect(latchkey, adapterOptions());
    const app = express();
    app.post("/run", protect(define(), echo));
    app.use(((error, _req, _res, _next) => errored.resolve(error)) satisfies ErrorRequestHandler);
    const { url, close } = await listen(app);
    closing.push(close);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write(
      "POST /run HTTP/1.1\r\nHost: a\r\nX-Tenant: t\r\nIdempotency-Key: k\r\nContent-Length: 10\r\n\r\nhalf",
    );
    await once(socket, "connect");
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    socket.destroy();
    expect((await errored.promise).type).toBe("request.aborted");
    expect(events).toEqual([]);
  });
});
