/**
 * A process of a service with deferred reports: its API, or a worker. Its argument is JSON (`ServiceSettings`); a line on
 * stdin releases what stands at its stop; what happens goes to stdout, one line of JSON each. SIGTERM stops it gracefully.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import express from "express";
import pg from "pg";
import {
  expressServe,
  expressStatus,
  keepRawBody,
} from "../../packages/latchkey/src/http/express/express.ts";
import { createLatchkey, type Store } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { defineReports, type Report, type ReportPlan, type StopPoint } from "./deferred-work.ts";

export interface ServiceSettings {
  readonly role: "api" | "worker";
  readonly databaseUrl: string;
  readonly receiverUrl: string;
  readonly plans: readonly ReportPlan[];
  /** Default 30,000: whoever goes on is not to lose a lease of its own, however busy the machine. */
  readonly leaseMs?: number;
  /** Default null: nowhere. */
  readonly stopAt?: StopPoint | null;
}

const settings = JSON.parse(process.argv[2] ?? "") as ServiceSettings;
const { role, databaseUrl, receiverUrl, plans, leaseMs = 30_000, stopAt = null } = settings;
const tell = (line: Readonly<Record<string, unknown>>) => process.stdout.write(`${JSON.stringify(line)}\n`);
const pool = new pg.Pool({ connectionString: databaseUrl, max: 16 });
pool.on("error", () => {});
const released = Promise.withResolvers<void>();
createInterface({ input: process.stdin }).on("line", () => released.resolve());

async function at(point: StopPoint, name: string): Promise<void> {
  if (point !== stopAt) return;
  tell({ stopped: point, name });
  await released.promise;
}

function stopping<Tx>(inner: Store<Tx>): Store<Tx> {
  return {
    ...inner,
    async accept(life, ...rest) {
      const pending = await inner.accept(life, ...rest);
      await at("accepted", life.key);
      return pending;
    },
  };
}

const store = postgresStore({ pool });
const latchkey = createLatchkey({
  store: stopping(store),
  onEvent: (event) => {
    if ("error" in event) tell({ event: event.type, error: String(event.error) });
    else tell({ event: event.type });
  },
});
const operations = defineReports(latchkey, plans, { receiverUrl, leaseMs, at });

async function close(): Promise<void> {
  await store.close();
  await pool.end();
  process.exit();
}

async function serve(): Promise<number> {
  const app = express().use(express.json({ verify: keepRawBody }));
  const options = { tenant: (req: express.Request) => req.get("x-tenant"), statusPath: "/operations" };
  const deferred = expressServe(latchkey, options);
  for (const [name, operation] of operations) {
    app.post(
      `/${name}`,
      deferred(operation, (req: express.Request) => req.body as Report),
    );
  }
  app.get("/operations/:id", expressStatus(latchkey, options));
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  process.once("SIGTERM", () => server.close(close));
  return (server.address() as AddressInfo).port;
}

async function work(): Promise<void> {
  await fetch(`${receiverUrl}/found?reference=none`).then((response) => response.arrayBuffer());
  const every = { intervalMs: 200 };
  const worker = latchkey.startWorker({ pendingWork: every, effectDispatcher: every, leaseRescuer: every });
  process.once("SIGTERM", async () => {
    tell({ stopping: true });
    tell({ inTime: await worker.stop() });
    await close();
  });
}

await pool.query("select 1");
if (role === "api") tell({ ready: true, port: await serve() });
else {
  await work();
  tell({ ready: true });
}
