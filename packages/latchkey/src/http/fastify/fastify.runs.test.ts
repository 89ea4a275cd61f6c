/** Runs of a protected Fastify handler: repeated, failed, too late, or after the client has hung up. */
import { PassThrough } from "node:stream";
import fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import { describe, expect, test } from "vitest";
import { closing, serve } from "../../../../../test/support/fastify-app.ts";
import {
  httpService,
  retryAfterHangUp,
  serializationFailure,
} from "../../../../../test/support/http-service.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { deferred, until } from "../../../../../test/support/until.ts";
import { newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { fastifyProtect } from "./fastify.ts";

function preparesRaw(app: FastifyInstance): void {
  app.addHook("onRequest", async (_request, reply) => {
    reply.raw.setHeader("X-Before", "1").setHeader("X-Kept", "1");
  });
}

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

  test("that has answered and is still repeated sends its last answer, once through later hooks", async () => {
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

  test("may set headers on the raw response: they are sent, first and replayed", async () => {
    const { call } = await serve(
      async (_request, reply) => {
        reply.raw.setHeader("Link", ["</a>", "</b>"]);
        reply.raw.setHeader("X-Before", "2");
        reply.raw.removeHeader("X-Kept");
        return reply.code(201).header("ETag", '"1"').send("done");
      },
      { after: preparesRaw },
    );
    const key = newKey();
    const [first, replay] = [await call({ key }), await call({ key })];
    expect([first.header("x-before"), first.header("x-kept")]).toEqual(["2", null]);
    for (const answer of [first, replay]) {
      expect([answer.status, answer.header("link"), answer.header("etag")]).toEqual([
        201,
        "</a>, </b>",
        '"1"',
      ]);
      expect(answer.body.toString()).toBe("done");
    }
    expect(replay.header("idempotent-replayed")).toBe("true");
  });

  test("whose answer is discarded leaves none of its headers on the problem", async () => {
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

  test("whose answer is still in a hook when it is repeated does not answer", async () => {
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

  test("that ends too late has no effect", async () => {
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

  test("that is repeated is not affected by later writes of its first try to the raw response", async () => {
    let runs = 0;
    const leftovers: (() => unknown)[] = [];
    const { call } = await serve(async (_request, reply) => {
      runs += 1;
      if (runs === 1) {
        const { raw } = reply;
        const write = raw.write.bind(raw, "bound ", "utf8");
        leftovers.push(
          write,
          () => raw.setHeader("X-Late", "1"),
          () => raw.write("late "),
          () => raw.end(),
        );
        throw serializationFailure();
      }
      for (const leftover of leftovers) leftover();
      reply.hijack();
      reply.raw.statusCode = 201;
      reply.raw.end("done");
    });
    const answer = await call();
    expect([answer.status, answer.header("x-late"), `${answer.body}`]).toEqual([201, null, "done"]);
  });

  test("that has failed writes nothing to the raw response before its error is answered", async () => {
    let late: () => void = () => {};
    const { call } = await serve(
      async (_request, { raw }) => {
        const write = raw.write.bind(raw, "bound ", "utf8");
        late = () => {
          write();
          raw.writeHead(299).end("late");
        };
        throw new Error("no");
      },
      {
        after: (app) =>
          void app.setErrorHandler(async (error: Error, _request, reply) => {
            late();
            return reply.code(500).send({ message: error.message });
          }),
      },
    );
    const answer = await call();
    expect([answer.status, `${answer.body}`]).toEqual([500, '{"message":"no"}']);
  });

  test("that is repeated sets none of an earlier run's cookies", async () => {
    let runs = 0;
    const { call } = await serve(
      async (_request, reply) => {
        runs += 1;
        reply.header("Set-Cookie", `run=${runs}`);
        if (runs === 1) throw serializationFailure();
        return { done: runs };
      },
      {
        after: (app) =>
          void app.addHook("onRequest", async (_request, reply) => {
            reply.header("Set-Cookie", ["a=1", "b=1"]);
          }),
      },
    );
    const { lines } = await call();
    const cookies = lines.filter(([name]) => name === "set-cookie").map(([, value]) => value);
    expect(cookies).toEqual(["a=1", "b=1", "run=2"]);
  });

  test("ends as the handler ends after Fastify's own time limit has passed, even before it began", async () => {
    const { latchkey, lease, reported } = httpService();
    const app = fastify({ handlerTimeout: 20 });
    const timedOut = deferred<void>();
    app.addHook("onError", async () => timedOut.resolve());
    const tenant = async () => {
      await timedOut.promise;
      return "tenant-1";
    };
    const protect = fastifyProtect(app, latchkey, { tenant });
    let runs = 0;
    const handler = async (_request: unknown, reply: FastifyReply) => {
      runs += 1;
      await new Promise(setImmediate);
      return reply.code(201).send({ done: true });
    };
    app.post("/run", protect(lease(), handler as never));
    await app.ready();
    const { url, close } = await listen(app.routing);
    closing.push(close);
    const call = { key: newKey(), body: "", contentType: null };
    expect((await send(url, call)).json().code).toBe("FST_ERR_HANDLER_TIMEOUT");
    const retry = async () => (await send(url, call)).header("idempotent-replayed") === "true";
    await until(retry, { what: "the retry gets the handler's answer" });
    const replay = await send(url, call);
    expect([replay.status, replay.json(), runs, reported()]).toEqual([201, { done: true }, 1, []]);
  });

  test.each([
    ["through its reply", (reply: FastifyReply) => reply.code(201).send({ done: true })],
    ["past its reply", ({ raw }: FastifyReply) => raw.writeHead(201).end('{"done":true}')],
  ])("that has answered %s has no time limit but its COMMIT's", async (_how, answer) => {
    const late = deferred<void>();
    const { latchkey, operation, memory } = httpService({ committing: late.promise });
    const app = fastify();
    const protect = fastifyProtect(app, latchkey, { singleTenant: true });
    const errors: unknown[] = [];
    app.addHook("onError", async (_request, _reply, error) => void errors.push(error));
    const limitMs = 20;
    app.post(
      "/run",
      { handlerTimeout: limitMs },
      protect(operation(), async (_request, reply, { tx }) => {
        await tx.insert("orders", {});
        answer(reply as FastifyReply);
        // Timers fire in the order of their times, so Fastify's has fired by then.
        setTimeout(late.resolve, limitMs + 1);
        return reply;
      }),
    );
    await app.ready();
    const { url, close } = await listen(app.routing);
    closing.push(close);
    const call = { key: newKey(), body: "", contentType: null };
    for (const replayed of [null, "true"]) {
      const response = await send(url, call);
      expect([response.status, response.json()]).toEqual([201, { done: true }]);
      expect(response.header("idempotent-replayed")).toBe(replayed);
    }
    expect([memory.rows("orders").length, errors]).toEqual([1, []]);
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

  test("continues when the client has hung up, also with streams", async () => {
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
