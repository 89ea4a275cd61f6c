import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from "express";
import { describe, expect, test } from "vitest";
import { answerAfter409, arrange, closing, failed, serve } from "../../../../../test/support/express-app.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import type { HttpSettings } from "../protocol/http-options.ts";
import { expressProtect, expressRecord, keepRawBody } from "./express.ts";

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

  test("stores the app's answer, and replays it the next time", async () => {
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
    // A mounted app replaces the response's prototype by its own.
    const { call, events } = await serveMount({}, (app) => {
      app.use(express().all("/other", (_req, _res, next) => next()));
      app.use(express().all("/mounted", (req, res) => void mounted[name]?.(req, res)));
    });
    const key = newKey();
    const first = await call({ key, target: "/mounted" });
    const replay = await call({ key, target: "/mounted" });
    expect([first.status, first.json()]).toEqual([200, "answered"]);
    expect([replay.json(), replay.header("idempotent-replayed")]).toEqual(["answered", "true"]);
    expect(events.map(({ type }) => type)).toEqual(["reserved", "executed", "replayed"]);
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

  test("requests with other methods need no key, and theirs is not used", async () => {
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

  test("marks ignored keys with `markIgnored`, and covers `methods`", async () => {
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

  test("stores an answer as middleware inside it has changed it", async () => {
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

  test("refuses operations that run in a transaction", () => {
    const { latchkey, define, adapterOptions } = arrange();
    const record = expressRecord(latchkey, adapterOptions());
    expect(() => record(define() as never)).toThrow(TypeError);
  });
});
