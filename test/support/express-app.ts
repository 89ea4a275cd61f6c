import express, { type ErrorRequestHandler, type Express, type Request, type Response } from "express";
import { afterEach } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import type { HttpSettings, RouteOptions } from "../../packages/latchkey/src/http/protocol/http-options.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { HandlerContext } from "../../packages/latchkey/src/operations/attempt.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import type { FaultPlan } from "../../packages/latchkey/src/testing/faulty-store/fault.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/faulty-store.ts";
import { type HttpCall, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { listen } from "./listen.ts";
import { until } from "./until.ts";

export type Context = HandlerContext<MemoryTransaction, "transaction">;
export type Handler = (req: Request, res: Response, context: Context) => unknown;

export const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

export function arrange(plan: FaultPlan = () => "proceed") {
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

export async function serve(app: Express): Promise<(call?: HttpCall) => ReturnType<typeof send>> {
  const { url, close } = await listen(app);
  closing.push(close);
  return (call = {}) => send(url, call);
}

/** One protected route `/run`, with any middleware before and after it. */
export async function serveHandler(
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

export async function answerAfter409(url: string, key: string): ReturnType<typeof send> {
  let answer = await send(url, { key });
  await until(async () => {
    if (answer.status === 409) answer = await send(url, { key });
    return answer.status !== 409;
  });
  return answer;
}

export const failed: ErrorRequestHandler = (error, _req, res, _next) => {
  res.status(error.status ?? 500).json({ code: error.code, type: error.type, message: error.message });
};

export const echo: Handler = (req, res) => res.status(201).json(req.body);
