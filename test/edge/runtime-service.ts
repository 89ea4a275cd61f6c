/**
 * A service as it would be written for Bun and Deno: a Fetch handler before a real Postgres. Its argument is JSON
 * (`RuntimeSettings`); it says its port on stdout, and each time that a handler stands still.
 */

import pg from "pg";
import { fetchProtect, fetchServe, fetchStatus } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import {
  createLatchkey,
  type Effect,
  LatchkeyError,
  type LatchkeyEvent,
} from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";

export interface RuntimeSettings {
  readonly databaseUrl: string;
  /** Where charges go. */
  readonly providerUrl: string;
  /** Where handlers stand still, until the process is killed; null: nowhere. */
  readonly stopAt: "in-transaction" | "after-call" | null;
  readonly works: boolean;
}

interface Charge {
  readonly name: string;
}

declare const Bun: { serve(options: object): { readonly port: number } } | undefined;
declare const Deno:
  | { readonly args: readonly string[]; serve(options: object, handler: object): { addr: { port: number } } }
  | undefined;

const { databaseUrl, providerUrl, stopAt, works } = JSON.parse(
  (typeof Deno === "undefined" ? process.argv[2] : Deno.args[0]) ?? "",
) as RuntimeSettings;
const say = (line: Readonly<Record<string, unknown>>) => console.log(JSON.stringify(line));

async function at(point: RuntimeSettings["stopAt"]): Promise<void> {
  if (point !== stopAt) return;
  say({ stopped: point });
  await new Promise(() => {});
}

const pool = new pg.Pool({ connectionString: databaseUrl, max: 6, connectionTimeoutMillis: 3_000 });
pool.on("error", () => {});
const store = postgresStore({ pool });
await store.verify();
const onEvent = (event: LatchkeyEvent) => {
  if (event.type === "service_error") say({ serviceError: String(event.error) });
};
const latchkey = createLatchkey({ store, onEvent });
const tenant = (request: Request) => request.headers.get("x-tenant") ?? undefined;
const options = { tenant, statusPath: "/operations" };

const order = latchkey.operation("orders.create");
const orders = fetchProtect(latchkey, options)(order, async (_request, { tx, attempt }) => {
  const { rows } = await tx.query("insert into orders (name) values ($1) returning id", [attempt.key]);
  await at("in-transaction");
  return Response.json({ order: rows[0].id }, { status: 201 });
});

const charge: Effect<Charge, { id: string }> = latchkey.effect("charge", {
  deduplication: "provider",
  dedupeWindowMs: 60_000,
  async execute(sent: Charge, { key }) {
    const body = JSON.stringify({ ...sent, reference: key, pid: 0, deduplicated: true });
    const response = await fetch(`${providerUrl}/send`, { method: "POST", body });
    const { id } = (await response.json()) as { id: string };
    await at("after-call");
    return { id };
  },
});
const steps = { version: "1", leaseMs: 2_000 };
const read = async (request: Request) => (await request.json()) as Charge;
const pay = latchkey.operation("payments.charge", {
  ...steps,
  execution: "lease",
  leaseEnd: "resume",
  async run({ name }: Charge, attempt) {
    return { status: 201, body: await attempt.call("charged", charge, { name }) };
  },
});
const payments = fetchServe(latchkey, options)(pay, read);
const report = latchkey.operation("reports.make", {
  ...steps,
  execution: "deferred",
  async run({ name }: Charge, attempt) {
    return { status: 201, body: await attempt.call("charged", charge, { name }) };
  },
});
const reports = fetchServe(latchkey, options)(report, read);
const status = fetchStatus(latchkey, options);

async function handle(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  try {
    if (pathname === "/orders") return await orders(request);
    if (pathname === "/payments") return await payments(request);
    if (pathname === "/reports") return await reports(request);
    return await status(request, pathname.split("/").at(-1) ?? "");
  } catch (error) {
    return Response.json(
      { error: error instanceof LatchkeyError ? error.code : String(error) },
      { status: 500 },
    );
  }
}

const listen = { port: 0, hostname: "127.0.0.1" };
const port =
  typeof Bun === "undefined"
    ? typeof Deno === "undefined"
      ? null
      : Deno.serve({ ...listen, onListen: () => {} }, handle).addr.port
    : Bun.serve({ ...listen, idleTimeout: 60, fetch: handle }).port;
if (works) latchkey.startWorker();
say({ ready: true, port });
