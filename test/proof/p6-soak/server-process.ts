/**
 * A server of the soak: its API and a worker. Its argument is JSON (`ServerSettings`); rare events go to stdout, one line of
 * JSON each; a line on stdin tells it to use up its pool.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { flushCompileCache } from "node:module";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { nodeProtect, nodeServe } from "../../../packages/latchkey/src/http/node.ts";
import { createLatchkey, type LatchkeyEvent } from "../../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { Body, Route } from "./history.ts";
import { plantedStore, plantOf } from "./plants.ts";
import { answerOf, defineBusiness, insert, noticeOf, type Order } from "./work.ts";

export interface ServerSettings {
  /** Also the `application_name` of its connections. */
  readonly name: string;
  readonly databaseUrl: string;
  readonly downstreamUrl: string;
  readonly leaseMs: number;
  readonly poolMax: number;
}

export interface Health {
  readonly total: number;
  readonly idle: number;
  readonly waiting: number;
  /** Handlers and steps that have not ended. */
  readonly running: number;
}

/** Uses up the pool for so long. */
export interface Exhaust {
  readonly exhaustMs: number;
}

const { name, databaseUrl, downstreamUrl, leaseMs, poolMax } = JSON.parse(
  process.argv[2] ?? "",
) as ServerSettings;
const plant = plantOf(process.env);
const tell = (line: Readonly<Record<string, unknown>>) => process.stdout.write(`${JSON.stringify(line)}\n`);
const pool = new pg.Pool({
  connectionString: databaseUrl,
  application_name: name,
  max: poolMax,
  connectionTimeoutMillis: 800,
});
pool.on("error", () => {});
let executions = 0;
let running = 0;
const nextExecution = () => `${name}-${++executions}`;

const latchkey = createLatchkey({
  store: plantedStore(postgresStore({ pool, connectTimeoutMs: 600, statementTimeoutMs: 700 }), plant),
  circuitBreaker: { failureThreshold: 5, openMs: 100 },
  onEvent,
});
const business = defineBusiness(latchkey, {
  downstreamUrl,
  leaseMs,
  server: name,
  nextExecution,
  plant,
});

/** What happens with every request is counted by the clients. */
const common: ReadonlySet<LatchkeyEvent["type"]> = new Set([
  "executed",
  "replayed",
  "in_progress",
  "accepted",
  "key_misuse",
  "unknown",
  "effect_delivered",
  "step_resumed",
  "store_error",
  "attempt_failed",
  "cleaned",
  "circuit_closed",
  "reconcile_failed",
  "service_error",
]);

function onEvent(event: LatchkeyEvent): void {
  if (common.has(event.type)) return;
  const line: Record<string, unknown> = { event: event.type };
  for (const field of ["resolved", "because", "event", "started", "errorCode"] as const) {
    const value: unknown = Reflect.get(event, field);
    if (value !== undefined) line[field === "event" ? "what" : field] = value;
  }
  tell(line);
}

const options = {
  tenant: (req: IncomingMessage) => String(req.headers["x-tenant"]),
  statusPath: "/operations",
  ...(plant === "replays-any-body" && { fingerprint: { body: { fields: ["kind"] } } }),
};
const protect = nodeProtect(latchkey, options);
const serve = nodeServe(latchkey, options);

function orderOf(route: Route, req: IncomingMessage, bytes: Buffer): Order {
  const { body } = JSON.parse(bytes.toString("utf8")) as { readonly body: Body };
  const { "x-tenant": tenant, "x-work-ms": workMs, "idempotency-key": key } = req.headers;
  return { route, tenant: String(tenant), key: String(key), body, workMs: Number(workMs) };
}

async function counted<T>(run: () => Promise<T>): Promise<T> {
  running++;
  try {
    return await run();
  } finally {
    running--;
  }
}

/** What a handler throws names the run of the business that is undone. */
async function named(execution: string, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (cause) {
    throw Object.assign(new Error(`${execution} failed`, { cause }), { execution });
  }
}

function answer(res: ServerResponse, order: Order, execution: string): void {
  const { status, headers, body } = answerOf(order, { execution });
  res.writeHead(status, { ...headers, "content-type": "application/json" }).end(JSON.stringify(body));
}

const handlers: Readonly<Record<Route, (req: IncomingMessage, res: ServerResponse) => Promise<void>>> = {
  pay: protect(business.pay, (req, res, { tx, body }) =>
    counted(async () => {
      const order = orderOf("pay", req, body);
      const execution = nextExecution();
      await named(execution, async () => {
        if (plant === "writes-beside-tx") {
          await tx.query("select 1");
          await insert(pool, "business", order, execution);
        } else await insert(tx, "business", order, execution);
        await pause(order.workMs);
      });
      answer(res, order, execution);
    }),
  ),
  order: protect(business.order, (req, res, { tx, attempt, body }) =>
    counted(async () => {
      const order = orderOf("order", req, body);
      const execution = nextExecution();
      await named(execution, () => insert(tx, "business", order, execution));
      await pause(order.workMs);
      attempt.enqueue(business.notice, noticeOf(order, "notice"));
      attempt.enqueue(business.ping, noticeOf(order, "ping"));
      answer(res, order, execution);
    }),
  ),
  grab: protect(business.grab, (req, res, { body }) =>
    counted(async () => {
      const order = orderOf("grab", req, body);
      const execution = nextExecution();
      await insert(pool, "business", order, execution).catch((error: unknown) => {
        if (plant === "leaks-connections") pool.connect((_, client) => client?.on("error", () => {}));
        throw error;
      });
      await pause(order.workMs);
      answer(res, order, execution);
    }),
  ),
  charge: serve(business.charge, (req, { body }) => orderOf("charge", req, body)),
  report: serve(business.report, (req, { body }) => orderOf("report", req, body)),
};

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const route = (req.url ?? "").slice(1);
  if (route === "health") {
    const { totalCount: total, idleCount: idle, waitingCount: waiting } = pool;
    res.end(JSON.stringify({ total, idle, waiting, running } satisfies Health));
    return;
  }
  await handlers[route as Route](req, res);
}

const server = createServer((req, res) => {
  handle(req, res).catch((error: unknown) => {
    if (res.headersSent) return res.destroy();
    const execution: unknown = error instanceof Error ? Reflect.get(error, "execution") : undefined;
    res
      .writeHead(500, { "content-type": "application/json" })
      .end(JSON.stringify({ threw: true, execution }));
  });
});

async function exhaust(forMs: number): Promise<void> {
  const taken = await Promise.all(Array.from({ length: poolMax }, take));
  const held = taken.filter((client) => client !== null);
  // The time counts from here: on a busy machine the pool's own limit is over before a connection is free.
  await pause(forMs);
  for (const client of held) client.release();
  tell({ exhausted: held.length });
}

function take(): Promise<pg.PoolClient | null> {
  return new Promise((resolve) => {
    // By callback: after a promise the client would be without a listener for a while.
    pool.connect((_, client) => {
      client?.on("error", () => {});
      resolve(client ?? null);
    });
  });
}

createInterface({ input: process.stdin }).on("line", (line) => {
  void exhaust((JSON.parse(line) as Exhaust).exhaustMs);
});

const soon = { intervalMs: 150 };
latchkey.startWorker({
  concurrency: 8,
  pendingWork: soon,
  effectDispatcher: { ...soon, batchSize: 20 },
  leaseRescuer: soon,
  outcomeReconciler: { ...soon, triesMax: 1_000 },
  recordCleaner: { intervalMs: 1_000 },
});
server.listen(0, "127.0.0.1", () => {
  tell({ ready: true, port: (server.address() as AddressInfo).port });
  // It is killed, and a killed process writes no cache.
  flushCompileCache();
});
