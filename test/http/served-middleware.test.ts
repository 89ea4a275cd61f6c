/** Middleware around served operations: what it sets is on every answer, and what it is thrown it answers. */
import type { RequestListener } from "node:http";
import fastify from "fastify";
import { afterEach, describe, expect, test } from "vitest";
import { fastifyServe } from "../../packages/latchkey/src/http/fastify/fastify.ts";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { smallServices } from "../registry/frameworks.ts";
import { listen } from "../support/listen.ts";
import { amountIn, ownedParts, single } from "./small-services.ts";

const services = (await smallServices()).flatMap(({ title, served }) =>
  served ? [[title, served] as const] : [],
);

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function start(listener: RequestListener) {
  const { url, close } = await listen(listener);
  closing.push(close);
  return (key: string, body: string) => send(url, { key, body });
}

describe.each(services)("%s", (_title, serve) => {
  test("what middleware sets is on first answers, replays and problems, each time anew", async () => {
    const call = await start(await serve(ownedParts()));
    const key = newKey();
    const answers = [
      await call(key, '{"amount":1}'),
      await call(key, '{"amount":1}'),
      await call(key, '{"amount":2}'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 422]);
    expect(answers.map((answer) => answer.header("x-request"))).toEqual(["1", "2", "3"]);
    expect(answers.map((answer) => answer.header("idempotent-replayed"))).toEqual([null, "true", null]);
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    expect(answers[0]?.header("content-type")).toBe("application/json");
  });

  test("a refusal that the route throws is the framework's, and the key stays unused", async () => {
    const call = await start(await serve(ownedParts()));
    const key = newKey();
    const refused = await call(key, '{"amount":422}');
    expect([refused.status, refused.header("x-half")]).toEqual([422, null]);
    expect(refused.header("content-type")).not.toBe("application/problem+json");
    const mended = await call(key, '{"amount":1}');
    expect([mended.status, mended.header("idempotent-replayed")]).toEqual([201, null]);
  });
});

test("hooks of Fastify act on every answer of a served operation, wherever they were added", async () => {
  const { latchkey, operation } = ownedParts();
  const app = fastify();
  const shout = async (_request: unknown, _reply: unknown, payload: unknown) => `${String(payload)}!`;
  app.addHook("onSend", shout);
  const serve = fastifyServe(app, latchkey, single);
  app.post(
    "/run",
    serve(operation, (request) => ({ amount: amountIn(request.body) })),
  );
  app.addHook("onSend", shout);
  await app.ready();
  const call = await start(app.routing);
  const key = newKey();
  for (const replayed of [null, "true"]) {
    const answer = await call(key, '{"amount":1}');
    expect([String(answer.body), answer.header("idempotent-replayed")]).toEqual(['{"amount":1}!!', replayed]);
  }
});
