/**
 * A process that a timetable would start: it submits what it is given, works until nothing is due, says what the reports'
 * answers are, and ends. Its argument is JSON (`OneShotSettings`); what happens goes to stdout, one line of JSON each.
 */
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { createLatchkey, type Store } from "../../packages/latchkey/src/index.ts";
import { openPglite } from "../../packages/latchkey/src/stores/pglite.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { defineReports, type StopPoint } from "./deferred-work.ts";
import type { Queries } from "./outbox-work.ts";

export interface OneShotSettings {
  readonly database: { readonly kind: "postgres" | "pglite"; readonly at: string };
  readonly receiverUrl: string;
  readonly names: readonly string[];
  /** Null: nowhere. What stands there goes on no more. */
  readonly stopAt: StopPoint | null;
}

interface Opened {
  readonly store: Store<Queries>;
  query(text: string): Promise<{ readonly rows: unknown[] }>;
  close(): Promise<void>;
}

const { database, receiverUrl, names, stopAt } = JSON.parse(process.argv[2] ?? "") as OneShotSettings;
/** PGlite has one session, in which heartbeats wait for phases, and is slow at first. */
const leaseMs = database.kind === "pglite" ? 6_000 : 1_500;
const tell = (line: Readonly<Record<string, unknown>>) => process.stdout.write(`${JSON.stringify(line)}\n`);
const never = setInterval(() => {}, 2 ** 30);

async function openPostgres(connectionString: string): Promise<Opened> {
  const pool = new pg.Pool({ connectionString, max: 4 });
  pool.on("error", () => {});
  await migratePostgres(pool);
  const store = postgresStore({ pool });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  return { store: store as Store<Queries>, query: (text) => pool.query(text), close };
}

async function openEmbedded(dataDir: string): Promise<Opened> {
  const { store, database: embedded, close } = await openPglite(PGlite, { dataDir });
  return { store: store as Store<Queries>, query: (text) => embedded.query(text), close };
}

const { store, query, close } = await (database.kind === "postgres"
  ? openPostgres(database.at)
  : openEmbedded(database.at));
for (const table of ["placed", "settled", "noted"])
  await query(`create table if not exists ${table} (name text)`);
// The claims of a process that was killed in a delivery are held for 26 seconds.
await query("update latchkey.outbox set locked_until = clock_timestamp() where state = 'claimed'");

const latchkey = createLatchkey({ store });
const operations = defineReports(latchkey, [{ operation: "report", answeredBy: "finish" }], {
  receiverUrl,
  leaseMs,
  async at(point, name) {
    if (point !== stopAt) return;
    tell({ stopped: point, name });
    await new Promise(() => {});
  },
});
const report = operations.get("report");
if (report === undefined) throw new Error("it was defined");
const ask = (name: string) => latchkey.run(report, { tenant: "t", key: name, input: { name } });
for (const name of names) await ask(name);
tell({ report: await latchkey.work() });
const answers = await Promise.all(names.map(ask));
const rows = async (table: string) => (await query(`select name from ${table} order by name`)).rows;
tell({
  answers,
  placed: await rows("placed"),
  settled: await rows("settled"),
  noted: await rows("noted"),
});
clearInterval(never);
await close();
