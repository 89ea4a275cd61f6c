/** A service that a test describes, in a config that a command loads. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { createLatchkey, defineConfig, type LatchkeyConfig, type Store } from "latchkey";
import { openPglite } from "latchkey/pglite";
import { postgresStore } from "latchkey/postgres";
import { redisStore } from "latchkey/redis";
import pg from "pg";
import { createClient } from "redis";

export interface DescribedService {
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
  service: DescribedService,
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

export async function openService(service: DescribedService): Promise<LatchkeyConfig<unknown>> {
  const { store, close } = await open(service);
  const latchkey = createLatchkey({ store });
  if (service.leaseMs !== undefined) {
    latchkey.operation("payments.charge", { execution: "lease", leaseMs: service.leaseMs });
  }
  return defineConfig({ latchkey, close });
}

/** Gives the path of a config for one use by one command: a service is opened when it is loaded. */
export async function withConfig<T>(
  service: DescribedService,
  use: (config: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-config-"));
  const config = join(folder, "latchkey.config.mjs");
  writeFileSync(
    config,
    `import { openService } from ${JSON.stringify(import.meta.url)};\nexport default await openService(${JSON.stringify(service)});\n`,
  );
  try {
    return await use(config);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
