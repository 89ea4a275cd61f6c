import { Readable } from "node:stream";
import { createGzip, gunzipSync } from "node:zlib";
import express from "express";
import fastify, { type FastifyReply, type RouteHandlerMethod } from "fastify";
import { describe, expect, test } from "vitest";
import { chunks, closing, type Handler, serve } from "../../../../../test/support/fastify-app.ts";
import { expectSameAnswer, httpService } from "../../../../../test/support/http-service.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { fastifyProtect } from "./fastify.ts";

test("bytes are sent as given, even if their buffer is reused", async () => {
  const buffer = Buffer.from("first");
  const { call } = await serve(
    (_request, reply) => {
      reply.send(buffer);
      setImmediate(() => buffer.fill("x"));
    },
    { distant: true },
  );
  const key = newKey();
  for (const _ of [1, 2]) expect((await call({ key })).body.toString()).toBe("first");
});

describe("a first answer is the same as Fastify's alone", () => {
  const answers: Record<string, Handler> = {
    "an Express app, past Fastify": (request, reply) => {
      reply.hijack();
      const app = express().all("/{*any}", (_req, res) => void res.status(201).json({ a: 1 }));
      app(request.raw as never, reply.raw as never);
    },
    "a returned object": async () => ({ a: [1, null] }),
    "a returned text": async () => "grüß",
    "a returned number": async () => 0,
    "a returned null": async () => null,
    "returned bytes": async () => Buffer.from([0, 255, 10]),
    "a returned typed array": async () => Uint16Array.from([1, 2]),
    "a returned stream": async () => Readable.from(chunks("one ", "two")),
    "a web stream, with a type": async (_request, reply) => {
      reply.type("text/csv");
      return ReadableStream.from(chunks("one ", "two"));
    },
    "a Response": async () =>
      new Response("made", {
        status: 202,
        headers: [
          ["X-A", "1"],
          ["Set-Cookie", "a=1"],
          ["Set-Cookie", "b=2"],
        ],
      }),
    "a Response without a body": async () => new Response(null, { status: 205 }),
    "what an async handler sends": async (_request, reply) => {
      reply.code(201).send({ sent: true });
    },
    "what an async handler sends and returns": async (_request, reply) =>
      reply.code(201).header("ETag", '"1"').send({ sent: true }),
    "what is sent after the handler has returned": (_request, reply) => {
      setImmediate(() => reply.code(201).send("later"));
    },
    "what is sent while an async handler waits for it": async (_request, reply) => {
      setImmediate(() => reply.code(201).send("later"));
      return reply;
    },
    "what a plain function returns": () => "returned",
    nothing: async () => undefined,
    "204": async (_request, reply) => reply.code(204).send(),
    "204 with a payload": async (_request, reply) => reply.code(204).type("text/plain").send("not sent"),
    "a redirect": async (_request, reply) => reply.redirect("/elsewhere", 303),
    "JSON of a type, as text": async (_request, reply) => reply.type("application/problem+json").send("{}"),
    "JSON of a type, as a value": async (_request, reply) =>
      reply.type("application/vnd.a+json").send({ a: 1 }),
    "a serializer of its own": async (_request, reply) =>
      reply
        .type("application/x-own")
        .serializer((payload: unknown) => `own ${JSON.stringify(payload)}`)
        .send({ a: 1 }),
    "headers of all kinds": async (_request, reply) => {
      reply.headers({ "X-A": "1", "X-Number": 7, Link: ["</a>; rel=a", "</b>; rel=b"] });
      reply
        .header("Set-Cookie", "a=1")
        .header("Set-Cookie", "b=2")
        .header("X-Gone", "1")
        .removeHeader("x-gone");
      return {};
    },
    "a reason of its own": async (_request, reply) => {
      reply.raw.statusMessage = "Made";
      return reply.code(201).send("made");
    },
    "past Fastify": (_request, reply) => {
      reply.hijack();
      reply.raw.writeHead(201, "Made", { "Content-Type": "text/plain", "X-A": ["1", "2"] });
      reply.raw.write("raw ");
      setImmediate(() => reply.raw.end("end"));
    },
    "an error that Fastify answers": async (_request, reply) => {
      reply.header("X-A", "1").send(Object.assign(new Error("teapot"), { statusCode: 418 }));
      return reply;
    },
  };
  test.each(Object.entries(answers))("%s", async (_name, handler) => {
    const { call } = await serve(handler);
    const key = newKey();
    const first = await call({ key });
    const plain = await call({ target: "/plain" });
    expectSameAnswer(first, plain);
    const replay = await call({ key });
    expect(replay.header("idempotent-replayed")).toBe("true");
    expect([replay.status, replay.body]).toEqual([first.status, first.body]);
    expect(replay.header("content-type")).toBe(first.header("content-type"));
  });

  test("serialised by the schema of its status", async () => {
    const only = (name: string) => ({ type: "object", properties: { [name]: { type: "string" } } });
    const schema = { response: { 201: only("shown"), "4xx": only("reason") } };
    const handler: Handler = async ({ body }, reply) => {
      const { status } = body as { status: number };
      return reply.code(status).send({ shown: 1, reason: 2, secret: 3 });
    };
    const { call } = await serve(handler, { schema });
    for (const [status, text] of [
      [201, '{"shown":"1"}'],
      [422, '{"reason":"2"}'],
    ] as const) {
      const key = newKey();
      const body = JSON.stringify({ status });
      for (const answer of [await call({ key, body }), await call({ key, body })]) {
        expect([answer.status, answer.body.toString()]).toEqual([status, text]);
        expect(answer.header("content-type")).toBe("application/json; charset=utf-8");
        expect(answer.header("content-length")).toBe(String(text.length));
      }
    }
  });

  test("without its body, for the HEAD that Fastify adds to a GET", async () => {
    const { latchkey, operation } = httpService();
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, { singleTenant: true });
    app.get(
      "/run",
      protect(operation(), async (_request, reply) => reply.header("ETag", '"1"').send({ hidden: true })),
    );
    await app.ready();
    const { url, close } = await listen(app.routing);
    closing.push(close);
    const key = newKey();
    for (const marker of [null, "true"]) {
      const answer = await send(url, { key, method: "HEAD", body: "", contentType: null });
      expect([answer.status, answer.header("etag"), answer.body.length]).toEqual([200, '"1"', 0]);
      expect(answer.header("content-type")).toBe("application/json; charset=utf-8");
      expect(answer.header("idempotent-replayed")).toBe(marker);
    }
    const [first] = [await send(url, { method: "HEAD", body: "", contentType: null })];
    expect(first?.header("content-length")).toBe(String('{"hidden":true}'.length));
  });

  test("from the not-found handler", async () => {
    const { call } = await serve(async (_request, reply) => {
      reply.callNotFound();
      return reply;
    });
    const key = newKey();
    for (const answer of [await call({ key }), await call({ key })]) {
      expect([answer.status, answer.json().message]).toEqual([404, "Route POST:/run not found"]);
    }
  });

  test("with its trailers, which a replay does not have", async () => {
    const { call } = await serve(async (_request, reply) => {
      reply.trailer("server-timing", async () => "db;dur=1");
      return "trailed";
    });
    const key = newKey();
    const [first, replay] = [await call({ key }), await call({ key })];
    expect([first.header("trailer"), replay.header("trailer")]).toEqual(["server-timing", null]);
    expect(replay.body).toEqual(first.body);
  });
});

describe("instances", () => {
  test("routes of plugins are protected too; those of another instance lack their bytes", async () => {
    const { latchkey, operation } = httpService();
    const app = fastify();
    let handler: RouteHandlerMethod = async () => {};
    await app.register((first, _options, done) => {
      const protect = fastifyProtect(first, latchkey, { singleTenant: true });
      handler = protect(operation(), async () => "served");
      first.register(
        (inner, _innerOptions, innerDone) => {
          inner.post("/inner", handler);
          innerDone();
        },
        { prefix: "/first" },
      );
      done();
    });
    await app.register((second, _options, done) => {
      second.post("/second", handler);
      done();
    });
    await app.ready();
    const { url, close } = await listen(app.routing);
    closing.push(close);
    const key = newKey();
    for (const marker of [null, "true"]) {
      const answer = await send(url, { key, target: "/first/inner" });
      expect([answer.body.toString(), answer.header("idempotent-replayed")]).toEqual(["served", marker]);
    }
    expect((await send(url, { target: "/second" })).json()).toMatchObject({ code: "body-consumed" });
    const bodyless = { key: newKey(), target: "/second", body: "", contentType: null };
    for (const marker of [null, "true"]) {
      const answer = await send(url, bodyless);
      expect([answer.body.toString(), answer.header("idempotent-replayed")]).toEqual(["served", marker]);
    }
  });

  test("without a key, if none is required, Fastify answers as usual", async () => {
    const { latchkey, lease } = httpService();
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, { singleTenant: true });
    const operation = lease({ key: "optional" });
    app.post(
      "/run",
      protect(operation, async ({ body }, reply: FastifyReply, { attempt }) => {
        reply.header("X-Attempt", attempt.id);
        return { received: body };
      }),
    );
    const pipe: RouteHandlerMethod = protect(operation, (_request, reply: FastifyReply) => {
      reply.send(Readable.from(["zip"]).pipe(createGzip()));
    });
    app.post("/pipe", pipe);
    await app.ready();
    const { url, close } = await listen(app.routing);
    closing.push(close);
    const answer = await send(url, { key: null });
    expect(answer.json()).toEqual({ received: { amount: 1 } });
    expect(answer.header("x-attempt")).not.toBeNull();
    expect(gunzipSync((await send(url, { key: null, target: "/pipe" })).body).toString()).toBe("zip");
  });
});
