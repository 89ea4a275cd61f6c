import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import {
  expectSameAnswer,
  httpService,
  serializationFailure,
} from "../../../../test/support/http-service.ts";
import { listen } from "../../../../test/support/listen.ts";
import { type HttpCall, newKey, send } from "../../../latchkey-conformance/src/http-conformance/client.ts";
import type { OperationOptions } from "../operations/operation.ts";
import type { MemoryTransaction } from "../stores/memory.ts";
import { type NodeContext, nodeProtect } from "./node.ts";

type Handler = (
  req: IncomingMessage,
  res: ServerResponse,
  context: NodeContext<MemoryTransaction, "transaction">,
) => unknown;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Surroundings {
  readonly before?: (req: IncomingMessage, res: ServerResponse) => Promise<void> | void;
  readonly options?: OperationOptions;
}

/** Only `/run` is protected. Errors are answered with their message. */
async function serve(handler: Handler, { before, options }: Surroundings = {}) {
  const service = httpService();
  const protect = nodeProtect(service.latchkey, { tenant: (req) => req.headers["x-tenant"] as string });
  const protectedHandler = protect(service.operation(options), handler);
  const { url, close } = await listen(async (req, res) => {
    try {
      await before?.(req, res);
      if (req.url?.startsWith("/run")) await protectedHandler(req, res);
      else {
        const chunks: Buffer[] = [];
        for await (const chunk of req) chunks.push(chunk);
        await handler(req, res, { body: Buffer.concat(chunks) } as NodeContext<
          MemoryTransaction,
          "transaction"
        >);
      }
    } catch (error) {
      const { message, code } = error as { message: string; code?: string };
      res.writeHead(500, { "X-Code": code ?? "" }).end(message);
    }
  });
  closing.push(close);
  return { ...service, call: (call: HttpCall = {}) => send(url, call) };
}

describe("nodeProtect", () => {
  const ways: Record<string, Handler> = {
    "writes and an end": (_req, res) => {
      res.writeHead(201, "Made", { "Content-Type": "text/plain", "X-A": ["1", "2"] });
      res.write("one ");
      setImmediate(() => res.end("two"));
    },
    "headers one by one": (_req, res) => {
      res.statusCode = 202;
      res.setHeader("ETag", '"1"').appendHeader("Set-Cookie", "a=1").appendHeader("Set-Cookie", "b=2");
      res.end(Buffer.from([0, 255, 10]));
    },
    "what it was sent": (req, res, { body }) => {
      res.setHeader("Content-Type", req.headers["content-type"] ?? "");
      res.end(body);
    },
    nothing: (_req, res) => res.writeHead(204).end(),
  };
  test.each(Object.entries(ways))(
    "a first answer is what the handler alone would have sent: %s",
    async (_n, handler) => {
      const { call } = await serve(handler);
      const key = newKey();
      const body = Buffer.from([0x7b, 0xff, 0x00]);
      const contentType = "application/octet-stream";
      const first = await call({ key, body, contentType });
      expectSameAnswer(first, await call({ target: "/plain", body, contentType }));
      const replay = await call({ key, body, contentType });
      expect(replay.header("idempotent-replayed")).toBe("true");
      expect(replay.body).toEqual(first.body);
    },
  );

  test("it rejects with the handler's error, and the response is as it was before", async () => {
    const { call, memory } = await serve(
      async (_req, res, { tx }) => {
        await tx.insert("orders", { id: 1 });
        res.writeHead(201, { "X-Handler": "1" });
        res.write("half");
        throw new Error("failed on purpose");
      },
      { before: (_req, res) => void res.setHeader("X-Before", "1") },
    );
    const answer = await call();
    expect([answer.status, answer.body.toString()]).toEqual([500, "failed on purpose"]);
    expect([answer.header("x-handler"), answer.header("x-before")]).toEqual([null, "1"]);
    expect(memory.rows("orders")).toEqual([]);
  });

  test("a run that is repeated starts from a clean response, with the same body", async () => {
    let runs = 0;
    const { call } = await serve((_req, res, { body }) => {
      runs += 1;
      res.appendHeader("X-Run", String(runs));
      if (runs === 1) throw serializationFailure();
      res.end(body);
    });
    const answer = await call();
    expect([answer.header("x-run"), answer.body.toString()]).toEqual(["2", '{"amount":1}']);
  });

  test("a body that other code has read is an error with the remedy", async () => {
    const { call } = await serve((_req, res) => res.end(), {
      before: async (req) => {
        for await (const _ of req);
      },
    });
    expect((await call()).header("x-code")).toBe("body-consumed");
    expect((await call({ body: "", contentType: null })).status, "there was nothing to read").toBe(200);
  });

  test("a body without announced length is refused when it passes the cap", async () => {
    const { latchkey, operation } = httpService();
    const protect = nodeProtect(latchkey, { singleTenant: true, bodyLimitBytes: 1000 });
    const { url, close } = await listen(protect(operation(), (_req, res) => res.end()));
    closing.push(close);
    const body = ReadableStream.from(Array.from({ length: 100 }, () => Buffer.alloc(100)));
    const init = { method: "POST", headers: { "idempotency-key": "k" }, body, duplex: "half" } as RequestInit;
    expect((await fetch(url, init)).status).toBe(413);
  });

  test("without a key, if none is required, the handler answers directly", async () => {
    const { latchkey, lease } = httpService();
    const protect = nodeProtect(latchkey, { singleTenant: true });
    const listener = protect(lease({ key: "optional" }), (_req, res, { body, attempt }) => {
      res.setHeader("X-Attempt", attempt.id);
      res.write(body);
      res.end();
    });
    const { url, close } = await listen(listener);
    closing.push(close);
    const answer = await send(url, { key: null });
    expect(answer.body.toString()).toBe('{"amount":1}');
    expect(answer.header("x-attempt")).not.toBeNull();
  });

  test("the concrete path counts, also below a router's mount", async () => {
    const { latchkey, operation } = httpService();
    const protect = nodeProtect(latchkey, { singleTenant: true });
    const handle = protect(operation(), (req, res) => res.end(req.url));
    const { url, close } = await listen(async (req, res) => {
      const [, , rest] = (req.url ?? "").split("/");
      Object.assign(req, { originalUrl: req.url, url: `/${rest}` });
      await handle(req, res);
    });
    closing.push(close);
    const key = newKey();
    expect((await send(url, { key, target: "/a/run" })).body.toString()).toBe("/run");
    expect((await send(url, { key, target: "/b/run" })).status).toBe(422);
    expect((await send(url, { key, target: "/a/run" })).header("idempotent-replayed")).toBe("true");
  });

  test("what it returns is a request listener", async () => {
    const { latchkey, operation } = httpService();
    const protect = nodeProtect(latchkey, { singleTenant: true });
    const server = createServer(protect(operation(), (_req, res) => res.end("served")));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(() => new Promise((resolve) => server.close(() => resolve())));
    const { port } = server.address() as { port: number };
    const key = newKey();
    for (const marker of [null, "true"]) {
      const answer = await send(`http://127.0.0.1:${port}`, { key, tenant: null });
      expect([answer.body.toString(), answer.header("idempotent-replayed")]).toEqual(["served", marker]);
    }
  });
});
