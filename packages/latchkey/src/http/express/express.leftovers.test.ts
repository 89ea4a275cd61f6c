/** Leftovers of an Express handler's run (bound methods, wrapped helpers, listeners) have no effect once the run is over. */
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from "express";
import { describe, expect, test } from "vitest";
import { arrange, type Handler, serve, serveHandler } from "../../../../../test/support/express-app.ts";
import { serializationFailure } from "../../../../../test/support/http-service.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { expressRecord } from "./express.ts";

describe("methods that a run has bound", () => {
  const ways: Record<string, (res: Response) => () => unknown> = {
    "`end`": (res) => res.end.bind(res, "late", "utf8"),
    "`write`": (res) => res.write.bind(res, "late", "utf8"),
    "`writeHead`": (res) => res.writeHead.bind(res, 299, { "X-Late": "1" }),
    "`setHeader`": (res) => res.setHeader.bind(res, "X-Late", "1"),
    "`flushHeaders`": (res) => res.flushHeaders.bind(res),
    "`destroy`": (res) => res.destroy.bind(res),
    "`json` of Express": (res) => res.json.bind(res, { late: true }),
  };

  test.each(Object.entries(ways))("do not touch the next run's answer: %s", async (_way, bind) => {
    const leftovers: (() => unknown)[] = [];
    const handler: Handler = (_req, res) => {
      if (leftovers.length === 0) {
        leftovers.push(bind(res));
        throw serializationFailure();
      }
      for (const leftover of leftovers) leftover();
      res.status(201).json({ run: 2 });
    };
    const { call } = await serveHandler(handler);
    const answer = await call();
    expect([answer.status, answer.header("x-late"), `${answer.body}`]).toEqual([201, null, '{"run":2}']);
  });

  test.each(Object.entries(ways))("do not touch an error's answer: %s", async (_way, bind) => {
    let leftover: () => unknown = () => undefined;
    const onError: ErrorRequestHandler = async (error, _req, res, _next) => {
      leftover();
      res.status(500).json({ code: error.code });
    };
    const handler: Handler = (_req, res) => {
      leftover = bind(res);
      throw Object.assign(new Error("no"), { code: "no" });
    };
    const { call } = await serveHandler(handler, { onError });
    const answer = await call();
    expect([answer.status, answer.header("x-late"), `${answer.body}`]).toEqual([500, null, '{"code":"no"}']);
  });
});

describe("helpers that a run has wrapped", () => {
  const wrap = (res: Response, name: "json" | "send") => {
    const own = res[name].bind(res);
    res[name] = ((body: unknown) => own(body)) as typeof own;
  };

  test.each(["json", "send"] as const)("are restored for the next run: %s", async (name) => {
    let runs = 0;
    const handler: Handler = (_req, res) => {
      runs += 1;
      wrap(res, name);
      if (runs === 1) throw serializationFailure();
      res.status(201).json({ runs });
    };
    const { call } = await serveHandler(handler, { options: { transactionLimitMs: 1_000 } });
    const answer = await call();
    expect([answer.status, `${answer.body}`]).toEqual([201, '{"runs":2}']);
  });

  test.each(["json", "send"] as const)("are restored for an error handler: %s", async (name) => {
    const { call } = await serveHandler((_req, res) => {
      wrap(res, name);
      throw new Error("no");
    });
    const answer = await call();
    expect([answer.status, answer.json().message]).toEqual([500, "no"]);
  });

  test("are restored to middleware's wrappers", async () => {
    const wrapped = (_req: unknown, res: Response, next: () => void) => {
      const json = res.json.bind(res);
      res.json = (body: object) => json({ ...body, wrapped: true });
      next();
    };
    let runs = 0;
    const handler: Handler = (_req, res) => {
      runs += 1;
      wrap(res, "json");
      if (runs === 1) throw serializationFailure();
      throw new Error("no");
    };
    const { call } = await serveHandler(handler, { before: [wrapped] });
    expect((await call()).json()).toMatchObject({ message: "no", wrapped: true });
  });
});

test("properties that a run adds to its response are still there when the answer was sent", async () => {
  const seen: unknown[] = [];
  const before: RequestHandler = (_req, res, next) => {
    res.on("finish", () => seen.push(Reflect.get(res, "auditOf")));
    next();
  };
  const auditOf = () => "made";
  const { call } = await serveHandler((_req, res) => Object.assign(res, { auditOf }).end(), {
    before: [before],
  });
  expect((await call()).status).toBe(200);
  expect(seen).toEqual([auditOf]);
});

test("`req.res` is the response itself if the app answers through it", async () => {
  const { latchkey, adapterOptions } = arrange();
  const operation = latchkey.operation("run", { execution: "lease" });
  const app = express().use(expressRecord(latchkey, adapterOptions())(operation));
  app.post("/run", (req, res) => void res.json({ same: req.res === res }));
  const call = await serve(app);
  expect((await call()).json()).toEqual({ same: true });
});

test.each<{ from: string; held: (req: Request, res: Response) => Response | undefined }>([
  { from: "Latchkey", held: (_req, res) => res },
  { from: "its request", held: (req) => req.res },
])("a handler that ends too late has no effect, with the response from $from", async ({ held }) => {
  const late = deferred<void>();
  const answered = deferred<void>();
  const handler: Handler = async (req, view) => {
    const res = held(req, view);
    await late.promise;
    res?.status(201).set("X-Late", "1").json({ late: true });
    answered.resolve();
  };
  const { call } = await serveHandler(handler, {
    options: { transactionLimitMs: 50 },
    onError: async (error, req, res, _next) => {
      late.resolve();
      await answered.promise;
      expect([res.headersSent, req.res === res]).toEqual([false, true]);
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

test("a held response has no connection, so a client that hangs up is not seen through it", async () => {
  const seen: unknown[] = [];
  const { call } = await serveHandler((req, res) => {
    seen.push(res.socket, res.connection, req.res?.connection);
    res.end();
  });
  expect((await call()).status).toBe(200);
  expect(seen).toEqual([null, null, null]);
});
