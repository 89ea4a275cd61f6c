/** The raw response of a protected Fastify route, used past the handler's own reply. */
import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { FastifyInstance, FastifyReply } from "fastify";
import { describe, expect, test } from "vitest";
import { type Handler, serve } from "../../../../../test/support/fastify-app.ts";
import { serializationFailure } from "../../../../../test/support/http-service.ts";
import { newKey } from "../../../../latchkey-conformance/src/http-conformance/client.ts";

/** Keeps the last request's reply as a hook saw it. */
function keeping() {
  let kept: FastifyReply | null = null;
  const hook = (app: FastifyInstance) =>
    void app.addHook("onRequest", async (_request, reply) => {
      kept = reply;
    });
  const reply = () => {
    if (kept === null) throw new Error("There was no request");
    return kept;
  };
  return { hook, reply, raw: (): ServerResponse => reply().raw };
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a response that a hook has kept", () => {
  test.each<[string, (raw: ServerResponse) => unknown]>([
    ["end", (raw) => raw.end("past")],
    [
      "write",
      (raw) => {
        raw.write("pa");
        raw.end("st");
      },
    ],
    ["writeHead", (raw) => raw.writeHead(200, { "X-Past": "1" }).end("past")],
    [
      "writeHeader",
      (raw) =>
        (raw as ServerResponse & { writeHeader(status: number): ServerResponse })
          .writeHeader(200)
          .end("past"),
    ],
    ["a pipeline", (raw) => pipeline(new PassThrough().end("past"), raw)],
    [
      "a method that was kept",
      async ({ end }) => {
        await nextTurn();
        Reflect.apply(end, kept.raw(), ["past"]);
      },
    ],
  ])("answers as the handler's own would: %s", async (_name, answer) => {
    const { call, memory } = await serve(
      async (_request, _reply, { tx }) => {
        await tx.insert("orders", {});
        await answer(kept.raw());
      },
      { before: kept.hook },
    );
    const key = newKey();
    for (const replayed of [null, "true"]) {
      const response = await call({ key });
      expect([response.status, `${response.body}`]).toEqual([200, "past"]);
      expect(response.header("idempotent-replayed")).toBe(replayed);
    }
    expect(memory.rows("orders")).toHaveLength(1);
  });

  test("reports that the answer was given, before it is confirmed", async () => {
    const seen: unknown[] = [];
    const { call } = await serve(
      async (_request, reply) => {
        reply.code(201).send({ first: true });
        const { headersSent, writableEnded, writable } = kept.raw();
        seen.push(kept.reply().sent, headersSent, writableEnded, writable);
      },
      { before: kept.hook },
    );
    const response = await call();
    expect([response.status, response.json()]).toEqual([201, { first: true }]);
    expect(seen).toEqual([true, true, true, false]);
  });

  test.each<[string, (raw: ServerResponse) => unknown]>([
    ["end", (raw) => raw.end("second")],
    ["removeHeader", (raw) => raw.removeHeader("X-Any")],
    ["appendHeader", (raw) => raw.appendHeader("X-Any", "1")],
  ])("takes no second answer after the handler's, and that one stands: %s", async (_name, second) => {
    const { call, reported } = await serve(
      async (_request, reply) => {
        reply.code(201).send({ first: true });
        second(kept.raw());
      },
      { before: kept.hook },
    );
    const key = newKey();
    for (const _ of [1, 2]) {
      const response = await call({ key });
      expect([response.status, response.json()]).toEqual([201, { first: true }]);
    }
    expect(reported()).toMatchObject([{ code: "answer-twice" }]);
  });

  test.each<[string, Handler]>([
    ["that throws", async () => kept.raw().setHeader("X-Failed", "1").write("half")],
    ["that had answered", async (_request, reply) => void reply.header("X-Failed", "1").send("half")],
    [
      "that wrapped a method",
      async () => {
        const raw = kept.raw();
        const { writeHead } = raw;
        raw.writeHead = function wrapped(this: ServerResponse, ...args: never[]) {
          this.setHeader("X-Failed", "1");
          return Reflect.apply(writeHead, this, args);
        } as typeof writeHead;
      },
    ],
    [
      "that began the head",
      async () => void (kept.raw() as ServerResponse & { writeHeader(s: number): void }).writeHeader(299),
    ],
    ["that left trailers", async () => kept.raw().addTrailers({ "X-Failed": "1" })],
    [
      "that had answered, and went on",
      async (_request, reply) => {
        reply.send("half");
        kept.raw().statusMessage = "Failed";
      },
    ],
  ])("has nothing of a run %s and runs again", async (_name, first) => {
    let runs = 0;
    const { call } = await serve(
      async (request, reply, context) => {
        runs += 1;
        if (runs > 1) return { runs };
        reply.code(202);
        await first(request, reply, context);
        throw serializationFailure();
      },
      { before: kept.hook },
    );
    const response = await call();
    expect([response.status, response.json(), response.header("x-failed")]).toEqual([200, { runs: 2 }, null]);
  });

  test("is restored for the answer to a handler's error", async () => {
    const { call } = await serve(
      async (_request, reply) => {
        reply.code(202).header("X-Failed", "1");
        kept.raw().statusMessage = "Failed";
        throw Object.assign(new Error("teapot"), { statusCode: 418 });
      },
      { before: kept.hook },
    );
    const response = await call();
    expect([response.status, response.json().message]).toEqual([418, "teapot"]);
  });

  test("whose head has begun past its methods fails the run, which commits nothing", async () => {
    const { call, memory } = await serve(
      async (_request, _reply, { tx }) => {
        await tx.insert("orders", {});
        Object.getPrototypeOf(kept.raw()).writeHead.call(kept.raw(), 299);
        return { done: true };
      },
      { before: kept.hook },
    );
    await call().catch(() => {});
    expect(memory.rows("orders")).toEqual([]);
  });

  test("has no effect when the run is over", async () => {
    let late: () => void = () => {};
    let runs = 0;
    const { call } = await serve(async (_request, reply) => {
      runs += 1;
      if (runs === 1) {
        late = () => void reply.raw.writeHead(299).end("late");
        throw serializationFailure();
      }
      late();
      await nextTurn();
      return { runs };
    });
    const response = await call();
    expect([response.status, response.json()]).toEqual([200, { runs: 2 }]);
  });
});

const kept = keeping();

describe("a decorator", () => {
  test.each<[string, (app: FastifyInstance) => unknown, (reply: FastifyReply) => unknown]>([
    [
      "that is a method",
      (app) =>
        app.decorateReply("past", function past(this: FastifyReply) {
          this.hijack();
          this.raw.writeHead(201, { "Content-Type": "text/plain" });
          this.raw.end("past");
        }),
      (reply) => (reply as unknown as { past(): void }).past(),
    ],
    [
      "that is read",
      (app) =>
        app.decorateReply("past", {
          getter: function past(this: FastifyReply) {
            return this.raw;
          },
        }),
      (reply) => {
        reply.hijack();
        (reply as unknown as { past: ServerResponse }).past.writeHead(201).end("past");
      },
    ],
  ])("may answer through the raw response: %s", async (_name, decorate, answer) => {
    const { call } = await serve(async (_request, reply) => void answer(reply), {
      before: (app) => void decorate(app),
    });
    const key = newKey();
    for (const replayed of [null, "true"]) {
      const response = await call({ key });
      expect([response.status, `${response.body}`]).toEqual([201, "past"]);
      expect(response.header("idempotent-replayed")).toBe(replayed);
    }
  });
});

test("methods that middleware has wrapped are held, and called once for each answer", async () => {
  let ends = 0;
  const wrap = (app: FastifyInstance) =>
    void app.addHook("onRequest", async (_request, { raw }) => {
      const { end } = raw;
      raw.end = function counted(this: ServerResponse, ...args: never[]) {
        ends += 1;
        return Reflect.apply(end, this, args);
      };
    });
  const { call } = await serve(async () => ({ done: true }), { before: wrap });
  const key = newKey();
  for (const _ of [1, 2]) expect((await call({ key })).json()).toEqual({ done: true });
  expect(ends).toBe(2);
});
