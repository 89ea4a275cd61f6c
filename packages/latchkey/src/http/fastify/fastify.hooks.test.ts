/** Fastify's hooks around a protected handler. */
import { gunzipSync, gzipSync } from "node:zlib";
import type { FastifyInstance } from "fastify";
import { describe, expect, test } from "vitest";
import { serve } from "../../../../../test/support/fastify-app.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { newKey } from "../../../../latchkey-conformance/src/http-conformance/client.ts";

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

  test("may hide members that every reply has", async () => {
    const { call } = await serve(async () => ({ made: true }), {
      before: (app) =>
        void app.addHook("onRequest", async (_request, reply) => {
          Object.defineProperty(reply, "elapsedTime", { value: 7, configurable: true });
        }),
    });
    expect((await call()).json()).toEqual({ made: true });
  });

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

  test("added later act on each answer as it is sent", async () => {
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

  test("added earlier act on the stored answer, and not again on replays", async () => {
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

  test("that refuse run before admission, and so does validation", async () => {
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

  test("that fail after the answer is stored replace this answer, but not the record", async () => {
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
