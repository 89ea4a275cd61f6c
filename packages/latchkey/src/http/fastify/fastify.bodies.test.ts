/** Request bodies on Fastify, with every kind of parser. */
import { once } from "node:events";
import { connect } from "node:net";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { describe, expect, test } from "vitest";
import { chunks, type Handler, serve } from "../../../../../test/support/fastify-app.ts";
import { httpService } from "../../../../../test/support/http-service.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { newKey } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { fastifyProtect } from "./fastify.ts";

describe("bodies", () => {
  const echo: Handler = async ({ body }) => ({ received: body ?? null });

  test("the bytes count, whatever hooks do to the value", async () => {
    let count = 0;
    const { call } = await serve(echo, {
      after: (app) =>
        void app.addHook(
          "preHandler",
          async ({ body }) => void Object.assign(body as object, { at: ++count }),
        ),
    });
    const key = newKey();
    expect((await call({ key, body: '{"a":1,"b":2}' })).json()).toEqual({ received: { a: 1, b: 2, at: 1 } });
    expect((await call({ key, body: '{"b":2,"a":1}' })).header("idempotent-replayed")).toBe("true");
    expect((await call({ key, body: '{"b":2,"a":3}' })).status).toBe(422);
  });

  test("a body in pieces, one without a type and none at all", async () => {
    const { url, call } = await serve(echo);
    const init = {
      method: "POST",
      headers: { "content-type": "text/plain", "x-tenant": "t", "idempotency-key": newKey() },
      duplex: "half",
    } as const;
    for (const marker of [null, "true"]) {
      const body = ReadableStream.from(chunks("one ", "two"));
      const answer = await fetch(`${url}/run`, { ...init, body } as RequestInit);
      expect([await answer.json(), answer.headers.get("idempotent-replayed")]).toEqual([
        { received: "one two" },
        marker,
      ]);
    }
    expect((await call({ body: "", contentType: null })).json()).toEqual({ received: null });
    expect((await call({ body: "x", contentType: "text/csv" })).status).toBe(415);
  });

  test("one that a hook has decompressed counts decompressed", async () => {
    const unpack = (app: FastifyInstance) =>
      void app.addHook("preParsing", async (request, _reply, payload) => {
        if (request.headers["content-encoding"] !== "gzip") return payload;
        const { createGunzip } = await import("node:zlib");
        const stream = createGunzip();
        let size = 0;
        payload.on("data", (chunk: Buffer) => {
          size += chunk.byteLength;
        });
        Object.defineProperty(stream, "receivedEncodedLength", { get: () => size });
        return payload.pipe(stream);
      });
    const { call } = await serve(echo, { before: unpack });
    const key = newKey();
    const packed = { body: gzipSync('{"amount":1}'), headers: [["Content-Encoding", "gzip"]] as const };
    expect((await call({ key, ...packed })).json()).toEqual({ received: { amount: 1 } });
    expect((await call({ key })).header("idempotent-replayed")).toBe("true");
  });

  const readers: Readonly<Record<string, (payload: Readable) => Promise<string>>> = {
    "piece by piece": async (payload) => {
      let text = "";
      for await (const chunk of payload) text += chunk;
      return text;
    },
    "as text": async (payload) => (await payload.setEncoding("utf8").toArray()).join(""),
    "through a pipe": async (payload) => (await payload.pipe(new PassThrough()).toArray()).join(""),
    "through a pipeline": async (payload) => {
      const through = new PassThrough();
      const [text] = await Promise.all([through.toArray(), pipeline(payload, through)]);
      return text.join("");
    },
    "as it becomes readable": async (payload) => {
      let text = "";
      payload.on("readable", () => {
        for (let chunk = payload.read(); chunk !== null; chunk = payload.read()) text += chunk;
      });
      await once(payload, "end");
      return text;
    },
  };

  describe.each(["at once", "after hooks that wait"])("that parsers read %s", (when) => {
    test.each(Object.keys(readers))("%s", async (how) => {
      const { call } = await serve(echo, {
        before: (app) => {
          if (when !== "at once") app.addHook("onRequest", async () => nextTurn());
        },
        after: (app) =>
          void app.addContentTypeParser("text/own", (_request: FastifyRequest, payload: Readable) =>
            readers[how]?.(payload),
          ),
      });
      const own = { key: newKey(), contentType: "text/own" };
      expect((await call({ ...own, body: "x".repeat(100_000) })).json()).toEqual({
        received: "x".repeat(100_000),
      });
      expect((await call({ ...own, body: "x".repeat(100_000) })).header("idempotent-replayed")).toBe("true");
      expect((await call({ ...own, body: "x".repeat(99_999) })).status).toBe(422);
    });

    test("by Fastify's own parsers, which read invalid UTF-8 as if it were valid", async () => {
      const { call } = await serve(echo, {
        before: (app) => {
          if (when !== "at once") app.addHook("onRequest", async () => nextTurn());
        },
      });
      const [key, contentType] = [newKey(), "text/plain"];
      const bodies = [Buffer.from([0xff, 0xfe]), Buffer.from([0xfe, 0xff]), Buffer.from("\ufffd\ufffd")];
      const statuses: number[] = [];
      for (const body of bodies) statuses.push((await call({ key, contentType, body })).status);
      expect(statuses).toEqual([200, 422, 422]);
      expect((await call({ key, contentType, body: bodies[0] ?? "" })).header("idempotent-replayed")).toBe(
        "true",
      );
    });
  });

  test("a parser that reads past the payload leaves no bytes, which is an error with the remedy", async () => {
    const rawParser = (app: FastifyInstance) => {
      app.addContentTypeParser("multipart/form-data", (_request, _payload, done) => done(null));
      app.addContentTypeParser("text/own", async (request: FastifyRequest) => {
        let text = "";
        for await (const chunk of request.raw) text += chunk;
        return text;
      });
    };
    const strict = await serve(async ({ raw }) => (await raw.toArray()).length, { after: rawParser });
    const multipart = await strict.call({ contentType: "multipart/form-data; boundary=x", body: "x" });
    expect([multipart.status, multipart.json()], "what nobody has read is there").toEqual([200, 1]);
    expect((await strict.call({ contentType: "text/own", body: "x" })).json().message).toContain(
      "fastifyProtect",
    );
    const parsed = await serve(echo, { after: rawParser, settings: { fingerprint: "parsed" } });
    const key = newKey();
    const own = { key, contentType: "text/own" };
    expect((await parsed.call({ ...own, body: "x" })).json()).toEqual({ received: "x" });
    expect((await parsed.call({ ...own, body: "x" })).header("idempotent-replayed")).toBe("true");
    expect((await parsed.call({ ...own, body: "y" })).status).toBe(422);
  });

  test("chunks that a parser changes in place are seen as they arrived", async () => {
    const { call } = await serve(echo, {
      after: (app) =>
        void app.addContentTypeParser("text/own", async (_request: FastifyRequest, payload: Readable) => {
          let size = 0;
          for await (const chunk of payload) size += (chunk as Buffer).fill(0).length;
          return size;
        }),
    });
    const own = { key: newKey(), contentType: "text/own" };
    expect((await call({ ...own, body: "one" })).json()).toEqual({ received: 3 });
    expect((await call({ ...own, body: "two" })).status).toBe(422);
    expect((await call({ ...own, body: "one" })).header("idempotent-replayed")).toBe("true");
  });

  test("one whose beginning was already read is an error, because the rest is another body", async () => {
    const { call } = await serve(echo, {
      before: (app) =>
        void app.addHook("onRequest", async ({ raw }) => {
          await once(raw, "readable");
          raw.read(1);
        }),
      after: (app) =>
        void app.addContentTypeParser("text/own", async (_request: FastifyRequest, payload: Readable) =>
          (await payload.toArray()).join(""),
        ),
    });
    const answer = await call({ contentType: "text/own", body: "body" });
    expect([answer.status, answer.json().code]).toEqual([500, "body-consumed"]);
  });

  test.each(["before its parser", "after a hook that waits"])(
    "one that is cut off %s disturbs nobody",
    async (when) => {
      const reading = deferred<void>();
      const gone = deferred<void>();
      const { url, call } = await serve(echo, {
        before: (app) =>
          void app.addHook("onRequest", async ({ raw }) => {
            raw.once("close", () => gone.resolve());
            if (when !== "before its parser") await once(raw, "readable");
          }),
        after: (app) =>
          void app.addContentTypeParser("text/own", (_request: FastifyRequest, payload: Readable, done) => {
            let text = "";
            payload.on("data", (chunk) => {
              text += chunk;
              reading.resolve();
            });
            payload.on("end", () => done(null, text));
          }),
      });
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      socket.write(
        "POST /run HTTP/1.1\r\nHost: a\r\nX-Tenant: a\r\nIdempotency-Key: cut\r\nContent-Type: text/own\r\nContent-Length: 10\r\n\r\nhalf",
      );
      await reading.promise;
      socket.destroy();
      await gone.promise;
      // An error without a listener would end the process.
      await nextTurn();
      expect((await call()).status).toBe(200);
    },
  );

  test("one over Latchkey's cap but under Fastify's is refused with Latchkey's problem", async () => {
    const { call } = await serve(echo, { settings: { bodyLimitBytes: 10 } });
    const answer = await call();
    expect([answer.status, answer.json().code]).toEqual([413, "payload-too-large"]);
  });

  test("Fastify itself refuses one over its own limit, and invalid JSON", async () => {
    const { call, events } = await serve(echo);
    expect((await call({ body: `"${"x".repeat(2 * 1024 * 1024)}"` })).json().code).toBe(
      "FST_ERR_CTP_BODY_TOO_LARGE",
    );
    expect((await call({ body: "{" })).status).toBe(400);
    expect(events).toEqual([]);
  });
});

describe("a handler that a hook has wrapped", () => {
  const echo: Handler = async ({ body }) => ({ received: body ?? null });
  /** Wraps every route's handler, as instrumentation does. */
  const wrapEach = (app: FastifyInstance): void =>
    void app.addHook("onRoute", (route) => {
      const { handler } = route;
      route.handler = function wrapped(request, reply) {
        return handler.call(this, request, reply);
      };
    });

  test.each([
    ["before", { before: wrapEach }],
    ["after", { after: wrapEach }],
    ["before and after", { before: wrapEach, after: wrapEach }],
  ])("%s the adapter's own: its bytes count", async (_when, around) => {
    const { call, errors } = await serve(echo, around);
    const key = newKey();
    const first = await call({ key, body: '{"a":1}' });
    expect([first.status, first.json()]).toEqual([200, { received: { a: 1 } }]);
    const replay = await call({ key, body: '{"a":1}' });
    expect([replay.header("idempotent-replayed"), replay.body]).toEqual(["true", first.body]);
    expect((await call({ key, body: '{"a":2}' })).status).toBe(422);
    expect(errors).toEqual([]);
  });

  test("routes with one path and different constraints are distinguished", async () => {
    const { latchkey, operation } = httpService();
    const versions = fastify();
    wrapEach(versions);
    const protect = fastifyProtect(versions, latchkey, { singleTenant: true });
    const handler = protect(operation(), async () => ({ made: true }));
    for (const version of ["1.0.0", "2.0.0"]) versions.post("/run", { constraints: { version } }, handler);
    const post = (version: string) =>
      versions.inject({
        method: "POST",
        url: "/run",
        headers: { "accept-version": version, "idempotency-key": "one", "content-type": "application/json" },
        payload: { amount: 1 },
      });
    expect((await post("1.0.0")).statusCode).toBe(200);
    expect((await post("2.0.0")).statusCode).toBe(422);
    expect((await post("1.0.0")).headers["idempotent-replayed"]).toBe("true");
    await versions.close();
  });

  test("a large body of a route that may be unprotected reaches its handler", async () => {
    const app = fastify();
    wrapEach(app);
    app.addContentTypeParser("application/octet-stream", (_request, payload, done) => done(null, payload));
    const { latchkey, operation } = httpService();
    const protect = fastifyProtect(app, latchkey, { singleTenant: true });
    const size = async ({ body }: FastifyRequest) => {
      let bytes = 0;
      for await (const chunk of body as Readable) bytes += (chunk as Buffer).byteLength;
      return { bytes };
    };
    app.post("/run", protect(operation(), size));
    app.post("/plain", size);
    const bytes = 3 * 1024 * 1024;
    const upload = (url: string) =>
      app.inject({
        method: "POST",
        url,
        headers: { "content-type": "application/octet-stream", "idempotency-key": newKey() },
        payload: Buffer.alloc(bytes),
      });
    expect((await upload("/plain")).json()).toEqual({ bytes });
    await app.close();
  });
});
