/**
 * The secure golden path.
 * node main.ts            serves, and delivers the outbox
 * node main.ts compare    compares the provider's ledger with ours, for a daily job; exit code 1 where they differ
 *
 * Variables: DATABASE_URL, PROVIDER_URL, KEY_SECRET (32 characters or more), ANSWER_SECRET (`openssl rand -base64 32`).
 */
import type { AddressInfo } from "node:net";
import { migratePostgres } from "latchkey/postgres";
import pg from "pg";
import { type Charge, createApp, tables } from "./app.ts";

const { DATABASE_URL: connectionString, PORT = "3000", PROVIDER_URL = "http://localhost:4000" } = process.env;
const { KEY_SECRET = "", ANSWER_SECRET = "" } = process.env;
const pool = new pg.Pool({ ...(connectionString && { connectionString }), connectionTimeoutMillis: 3_000 });
pool.on("error", (error) => console.error(`Postgres: ${error.message}`));
await migratePostgres(pool); // in production: npx latchkey migrate, before the processes start
await pool.query(tables);
const { app, latchkey, charge } = createApp(pool, PROVIDER_URL, { keys: KEY_SECRET, answers: ANSWER_SECRET });

switch (process.argv[2]) {
  case undefined:
    serve();
    break;
  case "compare":
    await compare();
    await pool.end();
    break;
  default:
    throw new TypeError(`There is no command ${process.argv[2]}`);
}

function serve(): void {
  latchkey.startWorker();
  const server = app.listen(Number(PORT), () => {
    const { port } = server.address() as AddressInfo;
    console.log(`listening on port ${port}, process ${process.pid}`);
  });
  process.once("SIGTERM", async () => {
    server.close();
    server.closeIdleConnections();
    await latchkey.close();
    await pool.end();
  });
}

/** The provider's charges, by our key. Yours would read page by page, for slightly more than the day that is compared. */
async function* chargesAtProvider() {
  const response = await fetch(`${PROVIDER_URL}/charges`);
  for (const one of (await response.json()) as Charge[]) yield { ...one, key: one.reference ?? "" };
}

async function compare(): Promise<void> {
  const to = Date.now() - 60_000 * Number(process.env.MINUTES_AGO ?? 5); // what is still being written down is tomorrow's
  const from = to - 24 * 60 * 60_000;
  const matches = (object: Charge, result: Charge) =>
    object.id === result.id && object.amount === result.amount;
  const report = await latchkey.compareLedger({
    effect: charge,
    objects: chargesAtProvider(),
    from,
    to,
    matches,
  });
  console.log(JSON.stringify(report));
  const differences = report.missing.length + report.extra.length + report.mismatched.length;
  process.exitCode = differences === 0 ? 0 : 1;
}
