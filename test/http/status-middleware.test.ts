/** The status resource among other parts of a service: behind prefixes and middleware, and beside a worker. */
import type { RequestListener } from "node:http";
import express from "express";
import { createLatchkey } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { afterEach, describe, expect, test } from "vitest";
import { expressServe, expressStatus } from "../../packages/latchkey/src/http/express/express.ts";
import {
  type HttpAnswer,
  newKey,
  send,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { workOff } from "../../packages/latchkey-conformance/src/http-conformance/work-off.ts";
import { smallServices } from "../registry/frameworks.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";
import { deferredParts, statusOptions } from "./small-services.ts";

const services = (await smallServices()).flatMap(({ title, status }) =>
  status ? [[title, status] as const] : [],
);

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(listener: RequestListener) {
  const { url, close } = await listen(listener);
  closing.push(close);
  const get = { method: "GET", key: null, body: "", contentType: null };
  return {
    run: (key: string) => send(url, { target: "/v1/run", key }),
    look: (accepted: HttpAnswer) => send(url, { ...get, target: accepted.header("location") ?? "" }),
  };
}

describe.each(services)("%s", (_title, serve) => {
  test("the address leads through the prefix, and what middleware sets is on every status", async () => {
    const parts = deferredParts();
    const { run, look } = await start(await serve(parts));
    const accepted = await run(newKey());
    const pending = await look(accepted);
    await workOff(parts.latchkey);
    const done = await look(accepted);
    const answers = [accepted, pending, done];
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 201]);
    expect(answers.map((answer) => answer.header("x-request"))).toEqual(["1", "2", "3"]);
    expect(answers.map((answer) => answer.header("cache-control"))).toEqual(Array(3).fill("no-store"));
    expect(done.json()).toBe("done");
  });
});

test("a worker in the same process runs what was accepted, and its delivery may give the answer", async () => {
  const latchkey = createLatchkey({ store: memoryStore() });
  const sent = latchkey.effect("mail", {
    deduplication: "none",
    execute: async ({ to }: { to: string }) => ({ sentTo: to }),
    onDelivered: async ({ result, answer }) => answer({ status: 201, body: result }),
  });
  const operation = latchkey.operation("report", {
    execution: "deferred",
    version: "1",
    async run(to: string, attempt) {
      await attempt.phase("ask", async () => {
        attempt.enqueue(sent, { to });
        return null;
      });
      return attempt.answeredBy(sent);
    },
  });
  const handle = expressServe(latchkey, statusOptions)(operation, () => "ada");
  const app = express().post("/v1/run", handle);
  const { run, look } = await start(app.get("/v1/operations/:id", expressStatus(latchkey, statusOptions)));
  const accepted = await run(newKey());
  const worker = latchkey.startWorker();
  closing.unshift(() => worker.stop());
  const done = await until(async () => {
    const answer = await look(accepted);
    return answer.status === 202 ? null : answer;
  });
  expect([done?.status, done?.json()]).toEqual([201, { sentTo: "ada" }]);
  expect(done?.header("idempotent-replayed")).toBe("true");
});
