import { once } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createGzip, gunzipSync, gzipSync } from "node:zlib";
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchema,
  type RouteHandlerMethod,
} from "fastify";
import { afterEach, describe, expect, test } from "vitest";
import {
  expectSameAnswer,
  httpService,
  retryAfterHangUp,
  serializationFailure,
} from "../../../../test/support/http-service.ts";
import { listen } from "../../../../test/support/listen.ts";
import { deferred } from "../../../../test/support/until.ts";
import type { HandlerContext } from "../attempt/attempt.ts";
import type { OperationOptions } from "../operation.ts";
import type { MemoryTransaction } from "../stores/memory.ts";
import { type HttpCall, newKey, send } from "../testing/http-conformance/client.ts";
import { fastifyProtect } from "./fastify.ts";
import type { HttpSettings } from "./http-options.ts";

type Handler = (
  request: FastifyRequest,
  reply: FastifyReply,
  context: HandlerContext<MemoryTransaction, "transaction">,
) => unknown;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Surroundings {
  /** Plugins and hooks, before or after the adapter's own. */
  readonly before?: (app: FastifyInstance) => void;
  readonly after?: (app: FastifyInstance) => void;
  readonly schema?: FastifySchema;
  readonly options?: OperationOptions;
  readonly settings?: HttpSettings<FastifyRequest>;
  readonly refusedCommits?: number;
  readonly distant?: boolean;
}

/** `/run` protected, `/plain` not. */
async function serve(handler: Handler, around: Surroundings = {}) {
  const { before, after, schema = {}, options, settings = {}, refusedCommits = 0, distant = false } = around;
  const service = httpService({ refusedCommits, distant });
  const app = fastify();
  const errors: unknown[] = [];
  app.addHook("onError", async (_request, _reply, error) => void errors.push(error));
  before?.(app);
  const protect = fastifyProtect(app, service.latchkey, {
    ...settings,
    tenant: (request: FastifyRequest) => request.headers["x-tenant"] as string,
  });
  after?.(app);
  app.post("/run", { schema }, protect(service.operation(options), handler));
  app.post("/plain", { schema }, handler as unknown as RouteHandlerMethod);
  await app.ready();
  const { url, close } = await listen(app.routing);
  closing.push(async () => {
    await close();
    await app.close();
  });
  return { ...service, app, url, errors, call: (call: HttpCall = {}) => send(url, call) };
}

async function* chunks(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) {
    yield Buffer.from(text);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("bytes go out as they were sent, whatever their buffer is filled with next", async () => {
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

describe("a first answer is what Fastify alone would have sent", () => {
  const answers: Record<string, Handler> = {
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

  test("as the schema of its status writes it", async () => {
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

  test("as the handler for what is not found has it", async () => {
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

describe("hooks", () => {
  const names = [
    "onRequest",
    "preParsing",
    "preValidation",
    "preHandler",
    "preSerialization",
    "onSend",
    "onResponse",
  ] as const;

  test("run once for each request: first answers, replays and problems", async () => {
    const counts = new Map<string, number>();
    const count = (app: FastifyInstance) => {
      for (const name of names) {
        app.addHook(name as "onRequest", (...args: unknown[]) => {
          counts.set(name, (counts.get(name) ?? 0) + 1);
          (args.at(-1) as () => void)();
        });
      }
    };
    const ended = deferred<void>();
    let responses = 0;
    const { call } = await serve(async () => ({ made: true }), {
      after(app) {
        count(app);
        app.addHook("onResponse", async () => {
          responses += 1;
          if (responses === 3) ended.resolve();
        });
      },
    });
    const key = newKey();
    await call({ key });
    expect(Object.fromEntries(counts)).toMatchObject({ preSerialization: 1, onSend: 1, preHandler: 1 });
    await call({ key });
    expect((await call({ key, body: '{"amount":2}' })).status).toBe(422);
    await ended.promise;
    const each = { onRequest: 3, preParsing: 3, preValidation: 3, preHandler: 3, onSend: 3, onResponse: 3 };
    expect(Object.fromEntries(counts)).toEqual({ ...each, preSerialization: 1 });
  });

  const compress = (app: FastifyInstance) =>
    void app.addHook("onSend", async (request, reply, payload) => {
      if (request.headers["accept-encoding"] !== "gzip" || reply.getHeader("content-encoding"))
        return payload;
      if (payload === undefined || payload === null) return payload;
      reply.header("Content-Encoding", "gzip").removeHeader("content-length");
      return gzipSync(payload as string);
    });
  const gzip = [["Accept-Encoding", "gzip"]] as const;
  const identity = [["Accept-Encoding", "identity"]] as const;

  test("that come later act on each answer as it is sent", async () => {
    const { call } = await serve(async () => ({ text: "long" }), { after: compress });
    const key = newKey();
    const first = await call({ key, headers: gzip });
    const replay = await call({ key, headers: gzip });
    const bare = await call({ key, headers: identity });
    expect([first.header("content-encoding"), bare.header("content-encoding")]).toEqual(["gzip", null]);
    expect(replay.body).toEqual(first.body);
    expect(gunzipSync(first.body).toString()).toBe('{"text":"long"}');
    expect(bare.body.toString()).toBe('{"text":"long"}');
  });

  test("that came earlier act on what is stored, and on no replay again", async () => {
    const wrap = (app: FastifyInstance) => {
      compress(app);
      app.addHook("onSend", async (_request, reply, payload) => {
        if (reply.getHeader("content-encoding")) return payload;
        reply.header("Content-Language", "en");
        return `<${payload}>`;
      });
    };
    const { call } = await serve(async () => "text", { before: wrap });
    const key = newKey();
    const first = await call({ key, headers: identity });
    const replay = await call({ key, headers: gzip });
    expect(first.body.toString()).toBe("<text>");
    expect(replay.body).toEqual(first.body);
    expect([replay.header("content-encoding"), replay.header("content-language")]).toEqual([null, "en"]);
    const packed = newKey();
    const stored = await call({ key: packed, headers: gzip });
    const again = await call({ key: packed, headers: identity });
    expect(again.header("content-encoding")).toBe("gzip");
    expect(again.body).toEqual(stored.body);
  });

  test("before the handler set headers that every answer has", async () => {
    let requests = 0;
    const { call } = await serve(
      async (_request, reply) => reply.header("Cache-Control", "private").send({}),
      {
        after: (app) =>
          void app.addHook("onRequest", async (_request, reply) => {
            reply.header("X-Request-Id", `r-${++requests}`).header("Cache-Control", "no-cache");
            reply.raw.setHeader("X-Raw", "1");
          }),
      },
    );
    const key = newKey();
    const answers = [await call({ key }), await call({ key }), await call({ key, body: '{"amount":2}' })];
    expect(answers.map((answer) => answer.header("x-request-id"))).toEqual(["r-1", "r-2", "r-3"]);
    expect(answers.map((answer) => answer.header("x-raw"))).toEqual(["1", "1", "1"]);
    expect(answers.map((answer) => answer.header("cache-control"))).toEqual([
      "private",
      "private",
      "no-store",
    ]);
    expect(answers[2]?.header("content-type")).toBe("application/problem+json");
  });

  test("that refuse come before admission, and so does validation", async () => {
    let allowed = true;
    const { call, events } = await serve(async () => ({ secret: 1 }), {
      schema: { body: { type: "object", required: ["amount"] } },
      after: (app) =>
        void app.addHook("preHandler", async (_request, reply) => {
          if (!allowed) return reply.code(403).send("no");
          return undefined;
        }),
    });
    const key = newKey();
    expect((await call({ key, body: "{}" })).status).toBe(400);
    expect(events).toEqual([]);
    expect((await call({ key })).status).toBe(200);
    allowed = false;
    expect((await call({ key })).body.toString()).toBe("no");
  });

  test("that fail after the answer is kept cost this answer, not the record", async () => {
    let failures = 1;
    const { call } = await serve(async () => "kept", {
      after: (app) =>
        void app.addHook("onSend", async (_request, reply, payload) => {
          if (reply.statusCode === 200 && failures-- > 0) throw new Error("failed on purpose");
          return payload;
        }),
    });
    const key = newKey();
    expect((await call({ key })).status).toBe(500);
    failures = 1;
    const failed = await call({ key });
    expect([failed.status, failed.json().message]).toEqual([500, "failed on purpose"]);
    const replay = await call({ key });
    expect([replay.body.toString(), replay.header("idempotent-replayed")]).toEqual(["kept", "true"]);
  });

  test("that fail before the answer is captured roll it back", async () => {
    let failures = 1;
    const { call, memory } = await serve(
      async (_request, _reply, { tx }) => {
        await tx.insert("orders", { id: 1 });
        return { made: true };
      },
      {
        before: (app) =>
          void app.addHook("preSerialization", async (_request, _reply, payload) => {
            if (failures-- > 0) throw new Error("failed on purpose");
            return payload;
          }),
      },
    );
    const key = newKey();
    const failed = await call({ key });
    expect([failed.status, failed.json().message]).toEqual([500, "failed on purpose"]);
    expect(memory.rows("orders")).toEqual([]);
    expect((await call({ key })).json()).toEqual({ made: true });
  });
});

describe("a run", () => {
  test("that is repeated starts from a clean reply", async () => {
    let runs = 0;
    const { call } = await serve(
      async (_request, reply) => {
        runs += 1;
        reply
          .header("Set-Cookie", `run=${runs}`)
          .header("X-Run", [reply.getHeader("X-Run") ?? [], runs].flat());
        if (runs === 1) {
          reply
            .code(202)
            .serializer(() => "left over")
            .type("text/plain");
          reply.raw.statusMessage = "Left over";
          throw serializationFailure();
        }
        return { done: runs };
      },
      {
        after: (app) =>
          void app.addHook("onRequest", async (_request, reply) => void reply.header("X-Before", "1")),
      },
    );
    const answer = await call();
    expect([answer.status, answer.json()]).toEqual([200, { done: 2 }]);
    expect([answer.header("x-run"), answer.header("x-before")]).toEqual(["2", "1"]);
    expect(answer.header("set-cookie")).toBe("run=2");
  });

  test("that has answered and is repeated all the same sends its last answer, through later hooks once", async () => {
    let runs = 0;
    let sends = 0;
    const { call, memory } = await serve(
      async (_request, reply, { tx }) => {
        runs += 1;
        await tx.insert("orders", { runs });
        return reply
          .code(200 + runs)
          .header(`X-Run-${runs}`, "1")
          .send(`run ${runs}`);
      },
      {
        refusedCommits: 1,
        after: (app) => void app.addHook("onSend", async () => void sends++),
      },
    );
    const answer = await call();
    expect([answer.status, answer.body.toString()]).toEqual([202, "run 2"]);
    expect([answer.header("x-run-1"), answer.header("x-run-2")]).toEqual([null, "1"]);
    expect(memory.rows("orders")).toEqual([{ runs: 2 }]);
    expect([runs, sends]).toEqual([2, 1]);
  });

  test("that has answered in vain leaves nothing of its answer to the problem", async () => {
    let sends = 0;
    const { call } = await serve(
      async (_request, reply) => reply.code(201).header("X-Handler", "1").send({}),
      {
        refusedCommits: 1_000,
        after: (app) => void app.addHook("onSend", async () => void sends++),
      },
    );
    const answer = await call();
    expect([answer.status, answer.json().code]).toEqual([503, "store-unavailable"]);
    expect(answer.header("content-type")).toBe("application/problem+json");
    expect([answer.header("x-handler"), sends]).toEqual([null, 1]);
  });

  test("whose answer is still under way in a hook when it is repeated does not answer", async () => {
    const gate = deferred<void>();
    let runs = 0;
    const { call } = await serve(
      async (_request, reply) => {
        runs += 1;
        reply.send({ run: runs });
        if (runs === 1) throw serializationFailure();
        return reply;
      },
      {
        before: (app) =>
          void app.addHook("preSerialization", async (_request, _reply, payload) => {
            if ((payload as { run: number }).run === 1) await gate.promise;
            else setImmediate(() => gate.resolve());
            if ((payload as { run: number }).run === 2) await new Promise((resolve) => setImmediate(resolve));
            return payload;
          }),
      },
    );
    expect((await call()).json()).toEqual({ run: 2 });
  });

  test("that throws leaves the reply as hooks had prepared it, to Fastify's error handler", async () => {
    const { call, memory, errors } = await serve(
      async (_request, reply, { tx }) => {
        await tx.insert("orders", { id: 1 });
        reply.code(201).header("X-Handler", "1").header("X-Before", "2");
        throw Object.assign(new Error("no"), { statusCode: 400 });
      },
      {
        after: (app) => {
          app.addHook("onRequest", async (_request, reply) => void reply.header("X-Before", "1"));
          app.setErrorHandler(async (error: Error, _request, reply) =>
            reply.code(400).send({ message: error.message, before: reply.getHeader("x-before") }),
          );
        },
      },
    );
    const answer = await call();
    expect([answer.status, answer.json()]).toEqual([400, { message: "no", before: "1" }]);
    expect(answer.header("x-handler")).toBeNull();
    expect(errors).toHaveLength(1);
    expect(memory.rows("orders")).toEqual([]);
  });

  test("that answers and then throws is rolled back, and the error is answered", async () => {
    let failures = 1;
    const { call } = await serve(async (_request, reply) => {
      reply.send("early");
      if (failures-- > 0) throw new Error("after the answer");
    });
    const key = newKey();
    const failed = await call({ key });
    expect([failed.status, failed.json().message]).toEqual([500, "after the answer"]);
    expect((await call({ key })).body.toString()).toBe("early");
  });

  test("that comes too late answers nobody", async () => {
    const late = deferred<void>();
    const answered = deferred<void>();
    const { call } = await serve(
      async (_request, reply) => {
        await late.promise;
        reply.code(201).header("X-Late", "1").send({ late: true });
        reply.raw.statusCode = 201;
        answered.resolve();
        return reply;
      },
      {
        options: { transactionLimitMs: 50 },
        after: (app) =>
          app.setErrorHandler(async (error: { code?: string }, _request, reply) => {
            late.resolve();
            await answered.promise;
            return reply.code(500).send({ code: error.code });
          }),
      },
    );
    const answer = await call();
    expect([answer.status, answer.json(), answer.header("x-late")]).toEqual([
      500,
      { code: "attempt-limit" },
      null,
    ]);
  });

  test("that Fastify's own time limit answers for is rolled back", async () => {
    const { latchkey, operation, memory } = httpService();
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, { singleTenant: true });
    const timedOut = deferred<void>();
    let runs = 0;
    app.addHook("onError", async () => timedOut.resolve());
    app.post(
      "/run",
      { handlerTimeout: 50 },
      protect(operation(), async (_request, _reply, { tx }) => {
        await tx.insert("orders", { run: ++runs });
        if (runs === 1) await timedOut.promise;
        return { runs };
      }),
    );
    await app.ready();
    const { url, close } = await listen(app.routing);
    closing.push(close);
    // Fastify gives its limit up as soon as it has read a body.
    const call = { key: newKey(), body: "", contentType: null };
    const stopped = await send(url, call);
    expect([stopped.status, stopped.json().code]).toEqual([503, "FST_ERR_HANDLER_TIMEOUT"]);
    expect(memory.rows("orders")).toEqual([]);
    expect((await send(url, call)).json()).toEqual({ runs: 2 });
  });

  test("of two answers the first wins, and the second is reported", async () => {
    const { call, reported } = await serve(
      async (_request, reply) => {
        reply.code(201).send({ first: true });
        reply.send({ second: true });
      },
      // Makes sending asynchronous, so that Fastify itself does not notice.
      { before: (app) => void app.addHook("preSerialization", async (_q, _r, payload) => payload) },
    );
    const answer = await call();
    expect([answer.status, answer.json()]).toEqual([201, { first: true }]);
    expect(reported()).toMatchObject([{ code: "answer-twice" }]);
  });

  test("whose source fails is rolled back, and the key runs again", async () => {
    let runs = 0;
    const { call } = await serve(async () => {
      runs += 1;
      const source = new PassThrough();
      source.write("half");
      setImmediate(() => (runs === 1 ? source.destroy(new Error("source failed")) : source.end(" whole")));
      return source;
    });
    const key = newKey();
    const failed = await call({ key });
    expect([failed.status, failed.json().message]).toEqual([500, "source failed"]);
    expect((await call({ key })).body.toString()).toBe("half whole");
  });

  test("goes on when the client has hung up, streams too", async () => {
    const source = new PassThrough();
    const started = deferred<void>();
    const gone = deferred<void>();
    const { url } = await serve(async ({ raw }) => {
      raw.socket.once("close", () => gone.resolve());
      started.resolve();
      await gone.promise;
      setImmediate(() => source.end("all of it"));
      return source;
    });
    const retry = await retryAfterHangUp(url, started.promise, () => {});
    expect([retry.header("idempotent-replayed"), retry.body.toString()]).toEqual(["true", "all of it"]);
  });
});

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

  test("one that a hook has unpacked counts unpacked", async () => {
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

  test("a parser that reads past the payload leaves nothing, and the error says so", async () => {
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
    expect([multipart.status, multipart.json().code]).toEqual([500, "body-consumed"]);
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

  test("one over Latchkey's cap but under Fastify's is refused with Latchkey's problem", async () => {
    const { call } = await serve(echo, { settings: { bodyLimitBytes: 10 } });
    const answer = await call();
    expect([answer.status, answer.json().code]).toEqual([413, "payload-too-large"]);
  });

  test("one over Fastify's limit, and one that is no JSON, are Fastify's to refuse", async () => {
    const { call, events } = await serve(echo);
    expect((await call({ body: `"${"x".repeat(2 * 1024 * 1024)}"` })).json().code).toBe(
      "FST_ERR_CTP_BODY_TOO_LARGE",
    );
    expect((await call({ body: "{" })).status).toBe(400);
    expect(events).toEqual([]);
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

  test("without a key, where none is needed, Fastify answers for itself", async () => {
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
