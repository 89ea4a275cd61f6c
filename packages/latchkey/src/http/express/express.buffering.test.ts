/** The answer of a protected Express handler is held until it is committed. */

import { once } from "node:events";
import { createReadStream } from "node:fs";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import express, { type Request, type Response } from "express";
import { describe, expect, test } from "vitest";
import {
  answerAfter409,
  arrange,
  closing,
  type Handler,
  serveHandler,
} from "../../../../../test/support/express-app.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { deferred } from "../../../../../test/support/until.ts";
import { newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import type { FaultPlan } from "../../testing/faulty-store/fault.ts";
import { expressProtect } from "./express.ts";

const thisFile = fileURLToPath(import.meta.url);

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

  const handsOn: Record<string, (req: Request, res: Response) => Response> = {
    "its own response": (_req, res) => res,
    "the response that the request knows": (req) => req.res as Response,
  };

  test.each(Object.keys(handsOn))("an app to which a handler passes %s is held, too", async (which) => {
    let runs = 0;
    let sentEarly = false;
    const handler: Handler = async (req, res) => {
      runs += 1;
      const own = express().all(
        "/run",
        (_req, inner) => void inner.append("X-Run", `${runs}`).json({ runs }),
      );
      const { bytesWritten = 0 } = req.socket;
      await new Promise<void>((resolve) => {
        const given = handsOn[which]?.(req, res) as Response;
        given.once("finish", resolve);
        own(req, given);
      });
      sentEarly ||= req.socket.bytesWritten !== bytesWritten;
      if (runs === 1) throw Object.assign(new Error("could not serialize access"), { code: "40001" });
    };
    const { call } = await serveHandler(handler);
    const key = newKey();
    const [first, replay] = [await call({ key }), await call({ key })];
    expect([sentEarly, first.header("x-run")]).toEqual([false, "2"]);
    for (const answer of [first, replay]) {
      expect([answer.status, answer.json()]).toEqual([200, { runs: 2 }]);
    }
  });

  test("the answer of a later app to which a handler passes the request is held", async () => {
    const { latchkey, memory, define, adapterOptions } = arrange();
    const protect = expressProtect(latchkey, adapterOptions());
    const protectedRoute = protect(define({ transactionLimitMs: 2_000 }), async (req, _res, { tx }) => {
      await tx.insert("orders", { id: 1 });
      req.next?.();
    });
    const later = express().post("/run", (_req, res) => void res.status(201).json({ made: true }));
    const { url, close } = await listen(express().post("/run", protectedRoute).use(later));
    closing.push(close);
    const key = newKey();
    for (const answer of [await send(url, { key }), await send(url, { key })]) {
      expect([answer.status, answer.json()]).toEqual([201, { made: true }]);
    }
    expect(memory.rows("orders")).toHaveLength(1);
  });

  test("methods that a run has wrapped are restored for the next one", async () => {
    let runs = 0;
    const handler: Handler = (_req, res) => {
      const end = res.end;
      res.end = ((...args: unknown[]) => Reflect.apply(end, res, args)) as typeof end;
      runs += 1;
      if (runs === 1) throw Object.assign(new Error("could not serialize access"), { code: "40001" });
      res.status(201).set("X-A", "1").end("done");
    };
    const { call } = await serveHandler(handler);
    const answer = await call();
    expect([answer.status, answer.header("x-a"), `${answer.body}`, runs]).toEqual([201, "1", "done", 2]);
  });

  test("a header whose value is an object is sent as text", async () => {
    const handler: Handler = (_req, res) => {
      res.setHeader("Location", new URL("https://shop.example/") as unknown as string);
      res.end();
    };
    const { call } = await serveHandler(handler);
    const key = newKey();
    for (const answer of [await call({ key }), await call({ key })]) {
      expect([answer.status, answer.header("location")]).toEqual([200, "https://shop.example/"]);
    }
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

  test("writing after the end throws in the handler; ending again without content does not", async () => {
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

  test("a file is stored completely even if the client has hung up", async () => {
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

  test("a handler that writes to the socket itself is detected before anything is committed", async () => {
    const thrown = deferred<unknown>();
    const handler: Handler = (req, res, { tx }) => {
      tx.insert("orders", { id: 1 });
      req.socket.write("HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\npast the hold");
      res.end();
    };
    const { call, memory } = await serveHandler(handler, {
      onError: (error, _req, res, _next) => {
        thrown.resolve(error);
        res.end();
      },
    });
    expect((await call()).body.toString()).toBe("past the hold");
    expect(await thrown.promise).toMatchObject({ code: "answer-twice" });
    expect(memory.rows("orders")).toEqual([]);
  });
});
