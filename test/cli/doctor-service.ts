/** What configs of `latchkey doctor` open: a service as it is described. */
import { PGlite } from "@electric-sql/pglite";
import { createLatchkey, defineConfig, type LatchkeyConfig, type Store } from "latchkey";
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

async function open(
  service: DoctorService,
): Promise<{ readonly store: Store<unknown>; close(): Promise<void> }> {
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

export async function openService(service: DoctorService): Promise<LatchkeyConfig<unknown>> {
  const { store, close } = await open(service);
  const latchkey = createLatchkey({ store });
  if (service.leaseMs !== undefined) {
    latchkey.operation("payments.charge", { execution: "lease", leaseMs: service.leaseMs });
  }
  return defineConfig({ latchkey, close });
}
