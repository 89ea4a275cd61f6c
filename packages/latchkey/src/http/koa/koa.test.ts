import { PassThrough, Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import Koa, { type Context, type Middleware, type Next } from "koa";
import { describe, expect, test } from "vitest";
import {
  expectSameAnswer,
  httpService,
  retryAfterHangUp,
  serializationFailure,
} from "../../../../../test/support/http-service.ts";
import { closing, type Handler, serve } from "../../../../../test/support/koa-app.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { koaProtect } from "./koa.ts";

const plain = { target: "/plain", body: "", contentType: null };
const bodyOf = (ctx: Context) => (ctx.request as { body?: unknown }).body;

describe("a first answer is the same as Koa's alone", () => {
  const answers: Record<string, Handler> = {
    "an object": (ctx) => {
      ctx.body = { a: [1, null] };
    },
    "a number": (ctx) => {
      ctx.body = 0;
    },
    "a text that looks like HTML, with a status": (ctx) => {
      ctx.status = 201;
      ctx.body = "<p>grüß</p>";
    },
    "bytes of a type": (ctx) => {
      ctx.type = "image/png";
      ctx.body = Buffer.from([137, 80, 78, 71, 255]);
    },
    "a stream": (ctx) => {
      ctx.body = Readable.from([Buffer.from("one "), Buffer.from("two")]);
    },
    "a web stream": (ctx) => {
      ctx.body = ReadableStream.from([Buffer.from("one "), Buffer.from("two")]);
    },
    "a Blob": (ctx) => {
      ctx.body = new Blob(["blob"], { type: "text/csv" });
    },
    "a Response": (ctx) => {
      ctx.body = new Response("made", { status: 202, headers: { "X-A": "1", "Content-Type": "text/plain" } });
    },
    null: (ctx) => {
      ctx.body = null;
    },
    "null and another status": (ctx) => {
      ctx.body = null;
      ctx.status = 200;
    },
    "a status alone, which Koa names": (ctx) => {
      ctx.status = 201;
    },
    "nothing, which Koa has not found": () => {},
    "a status of its own, with a reason": (ctx) => {
      ctx.status = 299;
      ctx.message = "Fine";
      ctx.body = "fine";
    },
    "a redirect": (ctx) => ctx.redirect("/elsewhere"),
    "an attachment with headers, cookies and an entity tag": (ctx) => {
      ctx.body = "a,b";
      ctx.attachment("a.csv");
      ctx.append("Link", "</a>; rel=a");
      ctx.append("Link", "</b>; rel=b");
      ctx.cookies.set("a", "1");
      ctx.cookies.set("b", "2");
      ctx.etag = "v1";
      ctx.vary("Origin");
    },
    "304 with a body that is not sent": (ctx) => {
      ctx.body = "hidden";
      ctx.status = 304;
    },
    "through the raw response": (ctx) => {
      ctx.respond = false;
      ctx.res.writeHead(201, { "Content-Type": "text/plain" });
      ctx.res.write("raw ");
      setImmediate(() => ctx.res.end("end"));
    },
    "through the raw response, without saying so": (ctx) => {
      ctx.res.statusCode = 201;
      ctx.res.end("raw end");
    },
  };
  test.each(Object.entries(answers))("%s", async (_name, handler) => {
    const { call, reported } = await serve(handler);
    const key = newKey();
    const first = await call({ ...plain, target: "/run", key });
    expectSameAnswer(first, await call(plain));
    expect(reported()).toEqual([]);
    const replay = await call({ ...plain, target: "/run", key });
    expect(replay.header("idempotent-replayed")).toBe("true");
    expect([replay.status, replay.body]).toEqual([first.status, first.body]);
    expect(replay.header("content-type")).toBe(first.header("content-type"));
  });

  test("without its body, for HEAD", async () => {
    const { call } = await serve((ctx) => {
      ctx.etag = "v1";
      ctx.body = { hidden: true };
    });
    const key = newKey();
    for (const marker of [null, "true"]) {
      const answer = await call({ ...plain, target: "/run", method: "HEAD", key });
      expect([answer.status, answer.header("etag"), answer.body.length]).toEqual([200, '"v1"', 0]);
      expect(answer.header("content-type")).toBe("application/json; charset=utf-8");
      expect(answer.header("content-length"), "nobody knows it any more").toBeNull();
      expect(answer.header("idempotent-replayed")).toBe(marker);
    }
  });
});

describe("the middleware before", () => {
  const compress: Middleware = async (ctx: Context, next: Next) => {
    await next();
    if (ctx.acceptsEncodings("gzip") === false || !Buffer.isBuffer(ctx.body)) return;
    ctx.body = gzipSync(ctx.body);
    ctx.set("Content-Encoding", "gzip");
  };

  test("acts on every answer as it is sent: compressed if the client accepts that, while the stored bytes are not", async () => {
    const { call } = await serve(
      (ctx) => {
        ctx.body = { text: "long" };
      },
      { before: [compress] },
    );
    const key = newKey();
    const headers = [["Accept-Encoding", "gzip"]] as const;
    const first = await call({ key, headers });
    const replay = await call({ key, headers });
    const bare = await call({ key, headers: [["Accept-Encoding", "identity"]] });
    expect([first.header("content-encoding"), bare.header("content-encoding")]).toEqual(["gzip", null]);
    expect(replay.body).toEqual(first.body);
    expect(gunzipSync(first.body).toString()).toBe('{"text":"long"}');
    expect(bare.body.toString()).toBe('{"text":"long"}');
    expect(bare.header("idempotent-replayed")).toBe("true");
  });

  test("sets headers before and after, on first answers, replays and problems", async () => {
    let requests = 0;
    const stamp: Middleware = async (ctx, next) => {
      ctx.set("X-Request-Id", `r-${++requests}`);
      ctx.set("Access-Control-Allow-Origin", "*");
      await next();
      ctx.set("X-Response-Status", String(ctx.status));
    };
    const { call } = await serve(
      (ctx) => {
        ctx.body = {};
      },
      { before: [stamp] },
    );
    const key = newKey();
    const answers = [await call({ key }), await call({ key }), await call({ key, body: '{"amount":2}' })];
    expect(answers.map((answer) => answer.header("x-request-id"))).toEqual(["r-1", "r-2", "r-3"]);
    expect(answers.map((answer) => answer.header("x-response-status"))).toEqual(["200", "200", "422"]);
    expect(answers.every((answer) => answer.header("access-control-allow-origin") === "*")).toBe(true);
    expect(answers[2]?.header("content-type")).toBe("application/problem+json");
  });

  test("sets headers that the handler may remove", async () => {
    const { call } = await serve(
      (ctx) => {
        ctx.remove("X-Before");
        ctx.body = {};
      },
      {
        before: [
          async (ctx, next) => {
            ctx.set("X-Before", "1");
            await next();
          },
        ],
      },
    );
    expect((await call()).header("x-before")).toBeNull();
  });

  test("catches the handler's error on an unchanged context, after the rollback", async () => {
    let seen: unknown;
    const rescue: Middleware = async (ctx, next) => {
      ctx.set("X-Before", "1");
      try {
        await next();
      } catch (error) {
        seen = [ctx.status, ctx.body, ctx.response.get("X-Handler"), ctx.response.get("X-Before")];
        ctx.status = 500;
        ctx.body = (error as Error).message;
      }
    };
    const { call, memory } = await serve(
      async (ctx, { tx }) => {
        await tx.insert("orders", { id: 1 });
        ctx.status = 201;
        ctx.set({ "X-Handler": "1", "X-Before": "2" });
        ctx.body = { half: true };
        throw new Error("failed on purpose");
      },
      { before: [rescue] },
    );
    const answer = await call();
    expect([answer.status, answer.body.toString()]).toEqual([500, "failed on purpose"]);
    expect(seen).toEqual([404, undefined, undefined, "1"]);
    expect(memory.rows("orders")).toEqual([]);
  });

  test("gets what Koa's `throw` means", async () => {
    const { call, errors } = await serve((ctx) => ctx.throw(409, "not now", { headers: { "X-A": "1" } }));
    const answer = await call();
    expect([answer.status, answer.body.toString(), answer.header("x-a")]).toEqual([409, "not now", "1"]);
    expect(errors).toHaveLength(1);
  });

  test("shares `ctx.state` with the handler, but no other properties that it sets", async () => {
    const look: Middleware = async (ctx, next) => {
      ctx.state.account = "a";
      await next();
      ctx.set("X-State", `${ctx.state.account} ${ctx.state.order} ${ctx.order}`);
    };
    const { call } = await serve(
      (ctx) => {
        ctx.state.order = 7;
        ctx.order = 7;
        ctx.body = ctx.state.account;
      },
      { before: [look] },
    );
    const answer = await call();
    expect([answer.body.toString(), answer.header("x-state")]).toEqual(["a", "a 7 undefined"]);
  });
});

describe("a run", () => {
  test("that is repeated starts from a clean context", async () => {
    let runs = 0;
    const seen: unknown[] = [];
    const { call } = await serve((ctx) => {
      runs += 1;
      seen.push([ctx.status, ctx.body, ctx.response.get("X-Run"), bodyOf(ctx)]);
      ctx.append("X-Run", String(runs));
      ctx.status = 200 + runs;
      ctx.body = Readable.from([`run ${runs}`]);
      if (runs === 1) throw serializationFailure();
    });
    const answer = await call();
    expect([answer.status, answer.body.toString(), answer.header("x-run")]).toEqual([202, "run 2", "2"]);
    expect(seen).toEqual(Array(2).fill([404, undefined, undefined, { amount: 1 }]));
  });

  test("that ends too late has no effect", async () => {
    const late = deferred<void>();
    const answered = deferred<void>();
    const rescue: Middleware = async (ctx, next) => {
      try {
        await next();
      } catch (error) {
        ctx.status = 500;
        ctx.body = { code: (error as { code?: string }).code };
        late.resolve();
        await answered.promise;
      }
    };
    const { call } = await serve(
      async (ctx) => {
        await late.promise;
        ctx.status = 201;
        ctx.set("X-Late", "1");
        ctx.body = { late: true };
        ctx.res.end("late");
        answered.resolve();
      },
      { before: [rescue], options: { transactionLimitMs: 50 } },
    );
    const answer = await call();
    expect([answer.status, answer.json(), answer.header("x-late")]).toEqual([
      500,
      { code: "attempt-limit" },
      null,
    ]);
  });

  test("whose source fails is rolled back, and the key runs again", async () => {
    let runs = 0;
    const { call, errors } = await serve((ctx) => {
      runs += 1;
      const source = new PassThrough();
      ctx.body = source;
      source.write("half");
      setImmediate(() => (runs === 1 ? source.destroy(new Error("source failed")) : source.end(" whole")));
    });
    const key = newKey();
    expect((await call({ key })).status).toBe(500);
    expect(errors).toMatchObject([{ message: "source failed" }]);
    const second = await call({ key });
    expect([second.status, second.body.toString()]).toEqual([200, "half whole"]);
  });

  test("continues when the client has hung up, also with streams", async () => {
    const source = new PassThrough();
    const started = deferred<void>();
    const gone = deferred<void>();
    const { url } = await serve(async (ctx) => {
      ctx.req.socket.once("close", () => gone.resolve());
      ctx.body = source;
      started.resolve();
      await gone.promise;
      source.end("all of it");
    });
    const retry = await retryAfterHangUp(url, started.promise, () => {});
    expect([retry.header("idempotent-replayed"), retry.body.toString()]).toEqual(["true", "all of it"]);
  });

  test("whose answer outgrows the cap fails", async () => {
    const { call, errors } = await serve(
      (ctx) => {
        ctx.body = Readable.from(Array.from({ length: 100 }, () => Buffer.alloc(100)));
      },
      { options: { answerHoldBytes: 1000, answerLimitBytes: 1000 } },
    );
    expect((await call()).status).toBe(500);
    expect(errors).toMatchObject([{ code: "answer-too-large" }]);
  });
});

describe("bodies", () => {
  const parserWith = (keep: (raw: Buffer) => object): Middleware => {
    return async (ctx, next) => {
      const chunks: Buffer[] = [];
      for await (const chunk of ctx.req) chunks.push(chunk);
      const raw = Buffer.concat(chunks);
      Object.assign(ctx.request, { body: JSON.parse(raw.toString()), ...keep(raw) });
      await next();
    };
  };
  const echo: Handler = (ctx) => {
    ctx.body = { received: bodyOf(ctx) ?? null };
  };

  test("the parser's text counts, whatever middleware does to the value", async () => {
    let count = 0;
    const change: Middleware = async (ctx, next) => {
      Object.assign(bodyOf(ctx as Context) as object, { receivedAs: ++count });
      await next();
    };
    const keepText = parserWith((raw) => ({ rawBody: raw.toString() }));
    const { call } = await serve(echo, { before: [keepText, change] });
    const key = newKey();
    expect((await call({ key })).json()).toEqual({ received: { amount: 1, receivedAs: 1 } });
    expect((await call({ key })).header("idempotent-replayed")).toBe("true");
    expect((await call({ key, body: '{"amount":2}' })).status).toBe(422);
  });

  test("a parser that kept no text is an error that names the fix, unless `parsed` uses its value", async () => {
    const before = [parserWith(() => ({}))];
    const strict = await serve(echo, { before });
    expect((await strict.call()).status).toBe(500);
    expect(strict.errors).toMatchObject([
      { code: "body-consumed", message: expect.stringContaining("ctx.request.rawBody") },
    ]);
    const parsed = await serve(echo, { before, settings: { fingerprint: "parsed" } });
    const key = newKey();
    expect((await parsed.call({ key, body: '{"a":1,"b":2}' })).status).toBe(200);
    expect((await parsed.call({ key, body: '{"b":2,"a":1}' })).header("idempotent-replayed")).toBe("true");
    expect((await parsed.call({ key, body: '{"a":2,"b":2}' })).status).toBe(422);
  });

  test("without a parser, JSON comes parsed, anything else as bytes, and invalid JSON is refused", async () => {
    const { call } = await serve((ctx) => {
      const body = bodyOf(ctx);
      ctx.body = body instanceof Uint8Array ? { bytes: body.length } : { body: body ?? "none" };
    });
    expect((await call({ body: '{"a":1}' })).json()).toEqual({ body: { a: 1 } });
    expect((await call({ body: "abc", contentType: "text/plain" })).json()).toEqual({ bytes: 3 });
    expect((await call({ body: "", contentType: null })).json()).toEqual({ body: "none" });
    expect((await call({ body: "{" })).status).toBe(400);
  });
});

test("without a key, if none is required, Koa answers as usual", async () => {
  const { latchkey, lease } = httpService();
  const protect = koaProtect(latchkey, { singleTenant: true });
  const app = new Koa();
  app.use(
    protect(lease({ key: "optional" }), (ctx: Context, { attempt }) => {
      ctx.body = { attempt: attempt.id, received: bodyOf(ctx) };
    }),
  );
  const { url, close } = await listen(app.callback());
  closing.push(close);
  const answer = await send(url, { key: null });
  expect(answer.json()).toEqual({ attempt: expect.any(String), received: { amount: 1 } });
});
