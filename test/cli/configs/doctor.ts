/** A service as `DOCTOR` says, in JSON. */
import { PGlite } from "@electric-sql/pglite";
import { createLatchkey, defineConfig, type Store } from "latchkey";
import { openPglite } from "latchkey/pglite";
import { postgresStore } from "latchkey/postgres";
import { redisStore } from "latchkey/redis";
import pg from "pg";
import { createClient } from "redis";

export interface DoctorService {
  readonly postgres?: {
    readonly url: string;
    readonly pool: { readonly max?: number; readonly connectionTimeoutMillis?: number };
    readonly store?: {
      readonly notify?: boolean;
      readonly namedStatements?: boolean;
      readonly timeFunction?: string;
    };
  };
  readonly redis?: string;
  /** A folder. */
  readonly pglite?: string;
  readonly leaseMs?: number;
}

const service = JSON.parse(process.env.DOCTOR ?? "{}") as DoctorService;

async function open(): Promise<{ readonly store: Store<unknown>; close(): Promise<void> }> {
  if (service.postgres !== undefined) {
    const { url, pool: options, store } = service.postgres;
    const pool = new pg.Pool({ connectionString: url, ...options });
    pool.on("error", () => {});
    return { store: postgresStore({ pool, ...store }), close: () => pool.end() };
  }
  if (service.pglite !== undefined) return openPglite(PGlite, { dataDir: service.pglite });
  const client = createClient({ url: service.redis ?? "" });
  await client.connect();
  return { store: redisStore({ client, onWarning: () => {} }), close: async () => client.destroy() };
}

const { store, close } = await open();
const latchkey = createLatchkey({ store });
if (service.leaseMs !== undefined) {
  latchkey.operation("payments.charge", { execution: "lease", leaseMs: service.leaseMs });
}

// biome-ignore lint/style/noDefaultExport: what the command loads
export default defineConfig({ latchkey, close });
