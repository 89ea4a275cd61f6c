/** A client that resets its connection loses its answer; the record of it stays as good as any. */
import { channel } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createLatchkey } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { afterEach, expect, test } from "vitest";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { recordedExpress } from "../registry/frameworks/express/suite.ts";
import { deferred } from "../support/until.ts";
import { apps } from "./apps.ts";
import type { SuiteApp } from "./suite-app.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const requestStart = channel("http.server.request.start");

/** The server's end of the next request's connection. */
function nextConnection(): Promise<Socket> {
  const { promise, resolve } = deferred<Socket>();
  const onRequest = (message: unknown) => {
    requestStart.unsubscribe(onRequest);
    resolve((message as { readonly socket: Socket }).socket);
  };
  requestStart.subscribe(onRequest);
  return promise;
}

async function serveSlowly(framework: SuiteApp) {
  const started = deferred<void>();
  const released = deferred<void>();
  const latchkey = createLatchkey({ store: memoryStore() });
  const { url, close } = await framework.serve({
    latchkey,
    settings: {},
    tenant: (header) => header("x-tenant") ?? null,
    principal: () => null,
    route: {
      method: "POST",
      path: "/run",
      execution: "lease",
      operation: latchkey.operation("run", { execution: "lease" }),
      async handle() {
        started.resolve();
        await released.promise;
        return { status: 201, headers: [["Content-Type", "text/plain"]], body: Buffer.from("made") };
      },
    },
  });
  closing.push(close);
  return { url, started: started.promise, release: () => released.resolve() };
}

const tested = [...apps.filter(({ oneOfItsKind }) => oneOfItsKind), recordedExpress];

test.each(tested)("$name keeps the answer whose client has reset the connection", async (framework) => {
  const { url, started, release } = await serveSlowly(framework);
  const key = newKey();
  const connection = nextConnection();
  const { hostname, port } = new URL(url);
  const client = connect(Number(port), hostname);
  const head = ["POST /run HTTP/1.1", "Host: test", "X-Tenant: tenant-1", `Idempotency-Key: ${key}`];
  client.write(
    [...head, "Content-Type: application/json", "Content-Length: 12", "", '{"amount":1}'].join("\r\n"),
  );
  const socket = await connection;
  await started;
  const closed = once(socket, "close").catch(() => {});
  client.resetAndDestroy();
  await closed;
  release();
  let retry = await send(url, { key });
  for (let round = 0; round < 500 && retry.status === 409; round++) retry = await send(url, { key });
  expect([retry.status, retry.body.toString()]).toEqual([201, "made"]);
  expect(retry.header("idempotent-replayed")).toBe("true");
});
