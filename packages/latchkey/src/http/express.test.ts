import { once } from "node:events";
import { createReadStream } from "node:fs";
import { connect } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type Response,
  Router,
} from "express";
import { afterEach, describe, expect, test } from "vitest";
import { listen } from "../../../../test/support/listen.ts";
import { deferred, until } from "../../../../test/support/until.ts";
import type { HandlerContext } from "../attempt/attempt.ts";
import { createLatchkey } from "../latchkey.ts";
import type { OperationOptions } from "../operation.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import type { LatchkeyEvent } from "../telemetry/events.ts";
import type { FaultPlan } from "../testing/faulty-store/fault.ts";
import { faultyStore } from "../testing/faulty-store.ts";
import { type HttpCall, newKey, send } from "../testing/http-conformance/client.ts";
import { expressProtect, expressRecord, keepRawBody } from "./express.ts";
import type { HttpSettings, RouteOptions } from "./http-options.ts";

type Context = HandlerContext<MemoryTransaction, "transaction">;
type Handler = (req: Request, res: Response, context: Context) => unknown;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function arrange(plan: FaultPlan = () => "proceed") {
  const events: LatchkeyEvent[] = [];
  const memory = memoryStore();
  const { store } = faultyStore(memory, plan);
  const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event) });
  const define = (options: OperationOptions = {}) =>
    latchkey.operation("run", { writes: "none", ...options, execution: "transaction" });
  const adapterOptions = (settings: HttpSettings<Request> = {}) => ({
    ...settings,
    tenant: (req: Request) => req.get("x-tenant"),
  });
  return { latchkey, memory, events, define, adapterOptions };
}

async function serve(app: Express): Promise<(call?: HttpCall) => ReturnType<typeof send>> {
  const { url, close } = await listen(app);
  closing.push(close);
  return (call = {}) => send(url, call);
}

/** One protected route `/run`, with whatever comes before and after it. */
async function serveHandler(
  handler: Handler,
  {
    before = [],
    onError,
    options,
    settings,
    overrides,
    plan,
  }: {
    before?: express.RequestHandler[];
    onError?: ErrorRequestHandler;
    options?: OperationOptions;
    settings?: HttpSettings<Request>;
    overrides?: RouteOptions<Request>;
    plan?: FaultPlan;
  } = {},
) {
  const { latchkey, define, adapterOptions, events, memory } = arrange(plan);
  const protect = expressProtect(latchkey, adapterOptions(settings));
  const app = express().disable("x-powered-by");
  if (before.length > 0) app.use(before);
  app.all("/run", protect(define(options), handler, overrides));
  app.use(onError ?? failed);
  return { call: await serve(app), events, memory };
}

async function answerAfter409(url: string, key: string): ReturnType<typeof send> {
  let answer = await send(url, { key });
  await until(async () => {
    if (answer.status === 409) answer = await send(url, { key });
    return answer.status !== 409;
  });
  return answer;
}

const failed: ErrorRequestHandler = (error, _req, res, _next) => {
  res.status(error.status ?? 500).json({ code: error.code, type: error.type, message: error.message });
};

const echo: Handler = (req, res) => res.status(201).json(req.body);
const thisFile = fileURLToPath(import.meta.url);

describe("answering", () => {
  test("res.json keeps what Express adds, and a replay has it again", async () => {
    const { call } = await serveHandler((req, res) => res.status(201).location("/orders/1").json(req.body));
    const key = newKey();
    const first = await call({ key });
    const replay = await call({ key });
    expect(first.status).toBe(201);
    for (const answer of [first, replay]) {
      expect(answer.json()).toEqual({ amount: 1 });
      expect(answer.header("content-type")).toBe("application/json; charset=utf-8");
      expect(answer.header("content-length")).toBe("12");
      expect(answer.header("etag")).toMatch(/^W\/"c-/u);
      expect(answer.header("location")).toBe("/orders/1");
      expect(answer.header("date")).not.toBeNull();
    }
    expect(replay.header("idempotent-replayed")).toBe("true");
  });

  const ways: Record<string, Handler> = {
    "writes and an end with text": (_req, res) => {
      res.writeHead(201, "Made", { "Content-Type": "text/plain", "X-A": "1" });
      res.write("con");
      res.write(Buffer.from("te"));
      res.end("nt");
    },
    "a write in another encoding, ended by a callback": async (_req, res) => {
      res.status(201).type("text/plain").set("X-A", "1").statusMessage = "Made";
      res.write("Y29udGU=", "base64");
      await new Promise<void>((resolve) => res.end("nt", () => resolve()));
    },
    "a flat list of headers": (_req, res) => {
      res.writeHead(201, "Made", ["Content-Type", "text/plain", "X-A", "1"]).end("content");
    },
    "a pipeline that is waited for": async (_req, res) => {
      res.writeHead(201, "Made", { "Content-Type": "text/plain", "X-A": "1" }).flushHeaders();
      await pipeline(Readable.from(["con", "te", "nt"]), res);
    },
    "an answer that comes after the handler has returned": (_req, res) => {
      setImmediate(() =>
        res.writeHead(201, "Made", { "Content-Type": "text/plain", "X-A": "1" }).end("content"),
      );
    },
    "finish, then close, as a stream has them": async (_req, res) => {
      const closed = once(res, "close");
      const finished = once(res, "finish");
      res.writeHead(201, "Made", { "Content-Type": "text/plain", "X-A": "1" }).end("content");
      await finished;
      await closed;
      expect(res.headersSent).toBe(true);
      expect(res.writableEnded).toBe(true);
      expect(res.writableFinished).toBe(true);
    },
  };
  test.each(Object.entries(ways))("by %s", async (_name, handler) => {
    const { call } = await serveHandler(handler);
    const key = newKey();
    for (const answer of [await call({ key }), await call({ key })]) {
      expect(answer.status).toBe(201);
      expect(answer.body.toString()).toBe("content");
      expect(answer.header("content-type")).toMatch(/^text\/plain/u);
    }
    expect((await call()).header("x-a")).toBe("1");
  });

  test("by a file that Express sends", async () => {
    const { call } = await serveHandler((_req, res) => res.sendFile(thisFile));
    const key = newKey();
    const first = await call({ key });
    expect(first.body.toString()).toContain("by a file that Express sends");
    expect((await call({ key })).body).toEqual(first.body);
  });

  test("a HEAD request has headers and no body, twice", async () => {
    const { call } = await serveHandler((_req, res) => res.status(200).set("ETag", '"1"').send("hidden"));
    const key = newKey();
    for (const marker of [null, "true"]) {
      const answer = await call({ key, method: "HEAD", body: "" });
      expect([answer.status, answer.header("etag"), answer.body.length]).toEqual([200, '"1"', 0]);
      expect(answer.header("content-length")).toBeNull();
      expect(answer.header("idempotent-replayed")).toBe(marker);
    }
  });

  test("headers of this request's middleware are sent with a replay too, the answer's own win", async () => {
    let requests = 0;
    const before: express.RequestHandler = (_req, res, next) => {
      res.set("X-Request-Id", `r-${++requests}`).set("Cache-Control", "no-cache");
      next();
    };
    const { call } = await serveHandler((_req, res) => res.set("Cache-Control", "private").json({}), {
      before: [before],
    });
    const key = newKey();
    const first = await call({ key });
    const replay = await call({ key });
    expect([first.header("x-request-id"), replay.header("x-request-id")]).toEqual(["r-1", "r-2"]);
    expect([first.header("cache-control"), replay.header("cache-control")]).toEqual(["private", "private"]);
  });

  test("a header that the handler takes away is not sent, except Node's own date", async () => {
    const { call } = await serveHandler(
      (_req, res) => {
        res.removeHeader("X-Before");
        res.removeHeader("Date");
        res.end("done");
      },
      { before: [(_req, res, next) => next(void res.set("X-Before", "1").set("Date", "some day"))] },
    );
    const answer = await call();
    expect([answer.header("x-before"), answer.header("date")]).toEqual([
      null,
      expect.stringContaining("GMT"),
    ]);
  });

  test("middleware that wraps the response sees one answer, when it is sent", async () => {
    const seen: unknown[] = [];
    const wrap: express.RequestHandler = (_req, res, next) => {
      const end = res.end.bind(res);
      res.end = ((chunk: unknown) => {
        seen.push([res.statusCode, String(chunk)]);
        return end(chunk as string);
      }) as typeof res.end;
      res.on("finish", () => seen.push("finish"));
      next();
    };
    const { call } = await serveHandler((_req, res) => res.status(201).send("once"), { before: [wrap] });
    const key = newKey();
    await call({ key });
    await call({ key });
    expect(seen).toEqual([[201, "once"], "finish", [201, "once"], "finish"]);
  });

  test("a helper that middleware put on the response is held like the response itself", async () => {
    const before: express.RequestHandler = (_req, res, next) => {
      Object.assign(res, { success: (data: unknown) => res.status(201).json({ ok: true, data }) });
      next();
    };
    let failures = 1;
    const handler: Handler = (_req, res) => {
      (res as unknown as { success(data: unknown): void }).success(7);
      if (failures-- > 0) throw new Error("after the answer");
    };
    const { call } = await serveHandler(handler, { before: [before] });
    const key = newKey();
    expect((await call({ key })).status).toBe(500);
    expect((await call({ key })).json()).toEqual({ ok: true, data: 7 });
  });
});

describe("holding", () => {
  test("nothing reaches the socket before the commit is confirmed", async () => {
    const committing = deferred<void>();
    const confirmed = deferred<void>();
    const plan: FaultPlan = ({ port }) => {
      if (port !== "commit") return "proceed";
      committing.resolve();
      return { kind: "reply", until: confirmed.promise };
    };
    const { latchkey, define, adapterOptions } = arrange(plan);
    const protect = expressProtect(latchkey, adapterOptions());
    const app = express();
    app.post(
      "/run",
      protect(define(), (_req, res) => {
        res.writeContinue();
        res.writeProcessing();
        res.writeEarlyHints({ link: "</a>; rel=preload" });
        res.writeHead(201, { "Content-Type": "text/plain" });
        res.flushHeaders();
        res.write("first ");
        res.end("second");
      }),
    );
    const { url, close } = await listen(app);
    closing.push(close);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const received: Buffer[] = [];
    socket.on("data", (chunk) => received.push(chunk));
    socket.write(
      "POST /run HTTP/1.1\r\nHost: a\r\nX-Tenant: t\r\nIdempotency-Key: k\r\nConnection: close\r\n\r\n",
    );
    await committing.promise;
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(Buffer.concat(received).toString()).toBe("");
    confirmed.resolve();
    await once(socket, "close");
    expect(Buffer.concat(received).toString()).toMatch(/^HTTP\/1\.1 201 .*first second$/su);
  });

  test("a run that is rolled back and repeated starts from a clean response", async () => {
    let runs = 0;
    const handler: Handler = (_req, res) => {
      runs += 1;
      res
        .append("X-Run", String(runs))
        .cookie("run", String(runs))
        .status(200 + runs);
      res.statusMessage = `Run ${runs}`;
      if (runs === 1) {
        res.write("left over");
        throw Object.assign(new Error("could not serialize access"), { code: "40001" });
      }
      res.end("done");
    };
    const { call } = await serveHandler(handler, {
      before: [(_q, res, next) => next(void res.set("X-Before", "1"))],
    });
    const answer = await call();
    expect(answer.status).toBe(202);
    expect(answer.body.toString()).toBe("done");
    expect(answer.header("x-run")).toBe("2");
    expect(answer.header("x-before")).toBe("1");
    expect(answer.lines.filter(([name]) => name === "set-cookie")).toHaveLength(1);
  });

  test("a handler that throws leaves the response as middleware had prepared it", async () => {
    const handler: Handler = (_req, res) => {
      res
        .status(201)
        .set("X-Handler", "1")
        .set("X-Before", "changed")
        .set("Date", "some day")
        .removeHeader("X-Kept");
      res.statusMessage = "Made";
      res.write("half");
      throw new Error("failed on purpose");
    };
    const { call } = await serveHandler(handler, {
      before: [(_req, res, next) => next(void res.set("X-Before", "1").set("X-Kept", "1"))],
      onError: (error, _req, res, _next) => {
        expect(res.statusCode).toBe(200);
        expect(res.headersSent).toBe(false);
        res.status(500).send(error.message);
      },
    });
    const answer = await call();
    expect([answer.status, answer.body.toString()]).toEqual([500, "failed on purpose"]);
    expect(answer.header("date")).toContain("GMT");
    expect([answer.header("x-handler"), answer.header("x-before"), answer.header("x-kept")]).toEqual([
      null,
      "1",
      "1",
    ]);
  });

  test("after the client hung up a pipeline can still be waited for", async () => {
    const arrived = deferred<void>();
    const piped = deferred<void>();
    const responses: Response[] = [];
    const handler: Handler = async (req, res) => {
      responses.push(req.res as Response);
      const gone = once(req.socket, "close");
      arrived.resolve();
      await gone;
      await pipeline(Readable.from(["all ", "of it"]), res.status(201));
      piped.resolve();
    };
    const { latchkey, define, adapterOptions } = arrange();
    const app = express().post("/run", expressProtect(latchkey, adapterOptions())(define(), handler));
    const { url, close } = await listen(app);
    closing.push(close);
    const key = newKey();
    const hangUp = new AbortController();
    const lost = send(url, { key }, hangUp.signal);
    await arrived.promise;
    hangUp.abort();
    await expect(lost).rejects.toThrow();
    await piped.promise;
    const retry = await answerAfter409(url, key);
    expect([retry.status, retry.body.toString()]).toEqual([201, "all of it"]);
    expect(
      responses.map(({ destroyed }) => destroyed),
      "what Node noted meanwhile stands",
    ).toEqual([true]);
  });

  test("a handler that comes too late answers nobody", async () => {
    const late = deferred<void>();
    const answered = deferred<void>();
    const handler: Handler = async (_req, res) => {
      await late.promise;
      res.status(201).set("X-Late", "1").json({ late: true });
      answered.resolve();
    };
    const { call } = await serveHandler(handler, {
      options: { transactionLimitMs: 50 },
      onError: async (error, _req, res, _next) => {
        late.resolve();
        await answered.promise;
        expect(res.headersSent).toBe(false);
        res.status(500).json({ code: error.code });
      },
    });
    const answer = await call();
    expect([answer.status, answer.json(), answer.header("x-late")]).toEqual([
      500,
      { code: "attempt-limit" },
      null,
    ]);
  });

  test("of two answers the first wins, and the second is reported", async () => {
    const { call, events } = await serveHandler((_req, res) => {
      res.status(201).json({ first: true });
      res.status(400).json({ second: true });
    });
    const answer = await call();
    expect([answer.status, answer.json()]).toEqual([201, { first: true }]);
    const reported = events.filter((event) => event.type === "attempt_failed");
    expect(reported).toMatchObject([{ error: { code: "answer-twice" } }]);
  });

  test("writing after the end throws where it happens; ending again without content does not", async () => {
    const errors: unknown[] = [];
    const { call } = await serveHandler((_req, res) => {
      res.end("done");
      res.end();
      for (const again of [() => res.write("x"), () => res.end("x"), () => res.setHeader("X-A", "1")]) {
        try {
          again();
        } catch (error) {
          errors.push((error as { code: string }).code);
        }
      }
    });
    expect((await call()).body.toString()).toBe("done");
    expect(errors).toEqual(["answer-twice", "answer-twice", "answer-twice"]);
  });

  test("headers after the first byte are refused as Node refuses them", async () => {
    const { call } = await serveHandler((_req, res) => {
      res.write("a");
      res.set("X-A", "1");
    });
    expect((await call()).json()).toMatchObject({ code: "ERR_HTTP_HEADERS_SENT" });
  });

  test("a response that the handler destroys is no answer", async () => {
    const source = () =>
      Readable.from(
        (async function* () {
          yield "a";
          throw new Error("source failed");
        })(),
      );
    const waited = await serveHandler((_req, res) => pipeline(source(), res));
    expect((await waited.call()).json()).toMatchObject({ message: "source failed" });
    const destroyed = await serveHandler((_req, res) => void res.destroy());
    expect((await destroyed.call()).json()).toMatchObject({ code: "answer-missing" });
  });

  test("a source that outgrows the cap fails the attempt, whether the handler waits for it or not", async () => {
    const endless = () => createReadStream("/dev/zero");
    for (const handler of [
      ((_req, res) => pipeline(endless(), res)) satisfies Handler,
      ((_req, res) => void endless().pipe(res)) satisfies Handler,
    ]) {
      const { call } = await serveHandler(handler, { options: { answerHoldBytes: 100_000 } });
      expect((await call()).json()).toMatchObject({ code: "answer-too-large" });
    }
  });

  test("a file is kept whole though the client has hung up", async () => {
    const started = deferred<void>();
    const { latchkey, define, adapterOptions } = arrange();
    const protect = expressProtect(latchkey, adapterOptions());
    const app = express();
    app.post(
      "/run",
      protect(define(), async (req, res) => {
        const gone = once(req.socket, "close");
        started.resolve();
        await gone;
        res.sendFile(thisFile);
      }),
    );
    const { url, close } = await listen(app);
    closing.push(close);
    const key = newKey();
    const hangUp = new AbortController();
    const lost = send(url, { key }, hangUp.signal);
    await started.promise;
    hangUp.abort();
    await expect(lost).rejects.toThrow();
    let retry = await send(url, { key });
    for (let round = 0; round < 500 && retry.status === 409; round++) retry = await send(url, { key });
    expect(retry.header("idempotent-replayed")).toBe("true");
    expect(retry.body.toString()).toContain("a file is kept whole");
  });

  test("pipelined requests on one connection do not disturb each other", async () => {
    const gate = deferred<void>();
    const { latchkey, define, adapterOptions } = arrange();
    const protect = expressProtect(latchkey, adapterOptions());
    const app = express();
    app.post(
      "/run/:id",
      protect(define(), async (req, res) => {
        if (req.params.id === "2") gate.resolve();
        else await gate.promise;
        res.end(`answer ${req.params.id}`);
      }),
    );
    const { url, close } = await listen(app);
    closing.push(close);
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const head = (id: number, connection: string) =>
      `POST /run/${id} HTTP/1.1\r\nHost: a\r\nX-Tenant: t\r\nIdempotency-Key: ${id}\r\nConnection: ${connection}\r\n\r\n`;
    socket.write(head(1, "keep-alive") + head(2, "close"));
    const received: Buffer[] = [];
    for await (const chunk of socket) received.push(chunk);
    expect(Buffer.concat(received).toString()).toMatch(/200 OK.*answer 1.*200 OK.*answer 2$/su);
  });

  test("a handler that writes to the socket itself is found out before anything is committed", async () => {
    const told = deferred<unknown>();
    const handler: Handler = (req, res, { tx }) => {
      tx.insert("orders", { id: 1 });
      req.socket.write("HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\npast the hold");
      res.end();
    };
    const { call, memory } = await serveHandler(handler, {
      onError: (error, _req, res, _next) => {
        told.resolve(error);
        res.end();
      },
    });
    expect((await call()).body.toString()).toBe("past the hold");
    expect(await told.promise).toMatchObject({ code: "answer-twice" });
    expect(memory.rows("orders")).toEqual([]);
  });
});

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

  test("a body that somebody has read and thrown away is the same error", async () => {
    const drain: express.RequestHandler = (req, _res, next) => void req.resume().on("end", () => next());
    const { call } = await serveHandler(echo, { before: [drain] });
    expect((await call()).json()).toMatchObject({ code: "body-consumed" });
    expect((await call({ body: "" })).status, "there was nothing to read").toBe(201);
  });

  test("`parsed` takes what the parser made", async () => {
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

  test("the hook works for every parser", async () => {
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

  test("a body that is announced as too large is refused before it comes", async () => {
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

  test("a request that ends early is stored nowhere", async () => {
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

describe("routes", () => {
  test("the concrete path counts, also below a mounted router", async () => {
    const { latchkey, define, adapterOptions } = arrange();
    const protect = expressProtect(latchkey, adapterOptions());
    const operation = define();
    const router = Router().post(
      "/run/:id",
      protect(operation, (req, res) => res.json({ path: req.originalUrl })),
    );
    const call = await serve(express().use("/a", router).use("/b", router));
    const key = newKey();
    expect((await call({ key, target: "/a/run/1" })).status).toBe(200);
    for (const target of ["/a/run/2", "/b/run/1"]) expect((await call({ key, target })).status).toBe(422);
    expect((await call({ key, target: "/a/run/1" })).header("idempotent-replayed")).toBe("true");
  });

  test("a route may have a tenant and settings of its own", async () => {
    const { call } = await serveHandler(echo, {
      overrides: { tenant: (req) => req.get("x-account"), header: "X-Key" },
    });
    const own: HttpCall = {
      key: null,
      tenant: null,
      headers: [
        ["X-Account", "a"],
        ["X-Key", "k"],
      ],
    };
    expect((await call(own)).status).toBe(201);
    expect((await call(own)).header("idempotent-replayed")).toBe("true");
  });

  test("options that make no sense are refused at once", () => {
    const { latchkey, define } = arrange();
    const tenant = () => "t";
    const refused = (options: object) => () =>
      expressProtect(latchkey, { tenant, ...options } as { tenant: () => string });
    expect(refused({ tenant: undefined })).toThrow(TypeError);
    expect(refused({ singleTenant: true })).toThrow(TypeError);
    expect(refused({ header: "no header" })).toThrow(TypeError);
    expect(refused({ replayHeader: "" })).toThrow(TypeError);
    expect(refused({ bodyLimitBytes: 0 })).toThrow(TypeError);
    expect(refused({ storedHeaders: ["Set-Cookie"] })).toThrow(TypeError);
    expect(refused({ key: { maxLength: 256 } })).toThrow(TypeError);
    expect(refused({ fingerprint: "half" })).toThrow(TypeError);
    expect(refused({ fingerprint: { body: { fields: [] } } })).toThrow(TypeError);
    expect(refused({ fingerprint: { headers: ["a b"] } })).toThrow(TypeError);
    expect(refused({ problemBase: "https://a b/" })).toThrow(TypeError);
    const protect = expressProtect(latchkey, { tenant });
    expect(() => protect(define(), echo as never, { bodyLimitBytes: -1 })).toThrow(TypeError);
  });

  test("a service without tenants says so", async () => {
    const { latchkey, define } = arrange();
    const protect = expressProtect(latchkey, { singleTenant: true });
    const call = await serve(
      express().post(
        "/run",
        protect(define(), (_req, res) => res.json({})),
      ),
    );
    const key = newKey();
    await call({ key, tenant: null });
    expect((await call({ key, tenant: null })).header("idempotent-replayed")).toBe("true");
  });
});

describe("a mount that records", () => {
  async function serveMount(settings: HttpSettings<Request> = {}, routes: (app: Express) => void = () => {}) {
    const { latchkey, adapterOptions, events } = arrange();
    const operation = latchkey.operation("app", { execution: "lease" });
    const app = express().use(express.json({ verify: keepRawBody }));
    app.use(expressRecord(latchkey, adapterOptions(settings))(operation));
    let starts = 0;
    app.all(
      "/run",
      (req, res) =>
        void res
          .status(201)
          .set("X-Starts", String(++starts))
          .json(req.body ?? null),
    );
    routes(app);
    app.use(failed);
    return { call: await serve(app), events };
  }

  test("keeps what the app answers, and answers for it the next time", async () => {
    const { call } = await serveMount();
    for (const method of ["POST", "PATCH"]) {
      const key = newKey();
      const first = await call({ key, method });
      const replay = await call({ key, method });
      expect(first.json()).toEqual({ amount: 1 });
      expect(replay.body).toEqual(first.body);
      expect(replay.header("idempotent-replayed")).toBe("true");
      expect((await call({ key, method, body: '{"amount":2}' })).status).toBe(422);
    }
    expect((await call({ key: null })).status).toBe(400);
  });

  const mounted: Record<string, (req: Request, res: Response) => unknown> = {
    "with json": (_req, res) => res.json("answered"),
    "with end": (_req, res) => res.end('"answered"'),
    "with write": (_req, res) => {
      res.write('"answered');
      res.end('"');
    },
    "with a pipe": (_req, res) => Readable.from(['"answered"']).pipe(res),
    "with pipeline": (_req, res) => pipeline(Readable.from(['"answered"']), res),
  };

  test.each(Object.keys(mounted))("holds what a mounted app answers %s", async (name) => {
    // A mounted app swaps the response's prototype for its own one.
    const { call, events } = await serveMount({}, (app) => {
      app.use(express().all("/other", (_req, _res, next) => next()));
      app.use(express().all("/mounted", (req, res) => void mounted[name]?.(req, res)));
    });
    const key = newKey();
    const first = await call({ key, target: "/mounted" });
    const replay = await call({ key, target: "/mounted" });
    expect([first.status, first.json()]).toEqual([200, "answered"]);
    expect([replay.json(), replay.header("idempotent-replayed")]).toEqual(["answered", "true"]);
    expect(events.map(({ type }) => type)).toEqual(["executed", "replayed"]);
  });

  test("keeps the connection of a mounted app that destroys its response", async () => {
    const { call } = await serveMount({}, (app) => {
      app.use(
        express().all("/mounted", (_req, res) => {
          res.write("half");
          res.destroy(new Error("no more"));
        }),
      );
    });
    expect((await call({ target: "/mounted" })).status).toBe(500);
  });

  test.each(["destroy", "writeContinue", "writeProcessing", "writeEarlyHints"] as const)(
    "holds a mounted app whose first use of the response is %s",
    async (method) => {
      const { call } = await serveMount({}, (app) => {
        app.use(
          express().all("/mounted", (_req, res) => {
            Reflect.apply(res[method], res, method === "writeEarlyHints" ? [{ link: "</a>" }] : []);
            if (method !== "destroy") res.end("answered");
          }),
        );
      });
      const answer = await call({ target: "/mounted" });
      expect(answer.status).toBe(method === "destroy" ? 500 : 200);
    },
  );

  test("refuses to hold a route that is protected once more, before its handler runs", async () => {
    const { latchkey, define, adapterOptions } = arrange();
    const operation = latchkey.operation("app", { execution: "lease" });
    const errors: unknown[] = [];
    let runs = 0;
    const app = express().use(express.json({ verify: keepRawBody }));
    app.use(expressRecord(latchkey, adapterOptions())(operation));
    app.post(
      "/run",
      expressProtect(latchkey, adapterOptions())(define(), (_req, res) => res.json({ runs: ++runs })),
    );
    const collect: ErrorRequestHandler = (error, _req, res, _next) => {
      errors.push(error);
      res.status(500).end();
    };
    const call = await serve(app.use(collect));
    expect([(await call()).status, runs]).toEqual([500, 0]);
    expect(errors).toMatchObject([{ name: "TypeError", message: expect.stringContaining("expressRecord") }]);
  });

  test("other methods need no key, and one they have is not used", async () => {
    const { call, events } = await serveMount();
    for (const method of ["GET", "PUT", "DELETE"]) {
      expect((await call({ key: null, method })).status).toBe(201);
      const key = newKey();
      const [first, second] = [await call({ key, method }), await call({ key, method })];
      expect(second.header("x-starts")).not.toBe(first.header("x-starts"));
      expect(second.header("idempotency-status")).toBeNull();
    }
    expect(events).toEqual([]);
  });

  test("says so where it is asked to, and covers the methods it is told to", async () => {
    const { call } = await serveMount({ markIgnored: true, methods: ["delete"] });
    expect((await call({ method: "POST" })).header("idempotency-status")).toBe("ignored");
    expect((await call({ method: "POST", key: null })).header("idempotency-status")).toBeNull();
    const key = newKey();
    await call({ method: "DELETE", key });
    expect((await call({ method: "DELETE", key })).header("idempotent-replayed")).toBe("true");
  });

  test("an error that Express answers with 500 leaves the outcome unknown", async () => {
    const { call } = await serveMount({}, (app) => {
      app.post("/throw", () => {
        throw new Error("failed on purpose");
      });
    });
    const key = newKey();
    expect((await call({ key, target: "/throw" })).json()).toMatchObject({ message: "failed on purpose" });
    expect((await call({ key, target: "/throw" })).json()).toMatchObject({ code: "outcome-unknown" });
  });

  test("reads a pipe to its end when the client hangs up", async () => {
    const source = new PassThrough();
    const started = deferred<void>();
    const gone = deferred<void>();
    const { latchkey, adapterOptions } = arrange();
    const operation = latchkey.operation("app", { execution: "lease" });
    const app = express().use(expressRecord(latchkey, adapterOptions())(operation));
    app.post("/run", (req, res) => {
      req.socket.once("close", () => gone.resolve());
      source.pipe(res.status(201));
      started.resolve();
    });
    const { url, close } = await listen(app);
    closing.push(close);
    const key = newKey();
    const hangUp = new AbortController();
    const lost = send(url, { key }, hangUp.signal);
    await started.promise;
    hangUp.abort();
    await expect(lost).rejects.toThrow();
    await gone.promise;
    source.end("all of it");
    const retry = await answerAfter409(url, key);
    expect([retry.status, retry.body.toString()]).toEqual([201, "all of it"]);
  });

  test("keeps what middleware inside it makes of an answer", async () => {
    const order: string[] = [];
    const { call } = await serveMount({}, (app) => {
      app.use("/inside", (_req, res, next) => {
        const { writeHead, write, end } = res;
        res.writeHead = ((...args: Parameters<typeof writeHead>) => {
          order.push("head");
          res.setHeader("X-Order-Version", "7");
          return writeHead.apply(res, args);
        }) as typeof writeHead;
        res.write = ((chunk: string) => {
          if (!Reflect.get(res, "_header")) Reflect.apply(Reflect.get(res, "_implicitHeader"), res, []);
          return write.call(res, chunk.toUpperCase(), "utf8");
        }) as typeof write;
        res.end = ((chunk?: string) => end.call(res, chunk?.toUpperCase() ?? "", "utf8")) as typeof end;
        next();
      });
      app.post("/inside", (_req, res) => {
        res.type("text").write("one ");
        res.write("two ");
        res.end("three");
      });
    });
    const key = newKey();
    const first = await call({ key, target: "/inside" });
    expect([first.body.toString(), first.header("x-order-version")]).toEqual(["ONE TWO THREE", "7"]);
    expect((await call({ key, target: "/inside" })).body.toString()).toBe("ONE TWO THREE");
    expect(order).toEqual(["head"]);
  });

  test("lets middleware inside it add headers at the last moment", async () => {
    const { call } = await serveMount({ storedHeaders: ["X-Last"] }, (app) => {
      app.use("/inside", (_req, res, next) => {
        const { writeHead } = res;
        res.writeHead = ((...args: Parameters<typeof writeHead>) => {
          res.setHeader("X-Last", "1");
          return writeHead.apply(res, args);
        }) as typeof writeHead;
        next();
      });
      app.post("/inside", (_req, res) => void res.json({}));
    });
    const key = newKey();
    for (const marker of [null, "true"]) {
      const answer = await call({ key, target: "/inside" });
      expect([answer.header("x-last"), answer.header("idempotent-replayed")]).toEqual(["1", marker]);
    }
  });

  test("can give nobody a transaction", () => {
    const { latchkey, define, adapterOptions } = arrange();
    const record = expressRecord(latchkey, adapterOptions());
    expect(() => record(define() as never)).toThrow(TypeError);
  });
});
