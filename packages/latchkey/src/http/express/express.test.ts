import { once } from "node:events";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import express, { Router } from "express";
import { describe, expect, test } from "vitest";
import { arrange, echo, type Handler, serve, serveHandler } from "../../../../../test/support/express-app.ts";
import { type HttpCall, newKey } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import { expressProtect } from "./express.ts";

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

  test("headers of this request's middleware are sent with a replay too, but the answer's own take precedence", async () => {
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

  test("a header that the handler removes is not sent, except Node's own date", async () => {
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

  test("invalid options are refused at construction", () => {
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

  test("a service without tenants sets `singleTenant`", async () => {
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
