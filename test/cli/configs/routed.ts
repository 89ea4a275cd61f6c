/** A service with a database for each of two tenants. */
import { createLatchkey, defineConfig } from "latchkey";
import { encryptionCodec } from "latchkey/encryption";
import { postgresStore } from "latchkey/postgres";
import { routedStore } from "latchkey/routed";
import pg from "pg";

const urls = JSON.parse(process.env.ROUTED_URLS ?? "{}") as Readonly<Record<string, string>>;
const pools = Object.entries(urls).map(
  ([tenant, connectionString]) =>
    [tenant, new pg.Pool({ connectionString, max: 4, connectionTimeoutMillis: 10_000 })] as const,
);
const stores = new Map(pools.map(([tenant, pool]) => [tenant, postgresStore({ pool })]));
const codec = encryptionCodec({ keys: { one: new Uint8Array(32).fill(1) }, current: "one" });
const latchkey = createLatchkey({
  store: routedStore({
    route(tenant) {
      const found = stores.get(tenant);
      if (found === undefined) throw new Error(`no tenant ${tenant}`);
      return found;
    },
    stores: () => [...stores.values()],
  }),
  ...(process.env.ROUTED_CODEC === undefined ? {} : { codec }),
});

// biome-ignore lint/style/noDefaultExport: what the command loads
export default defineConfig({
  latchkey,
  async close() {
    for (const store of stores.values()) await store.close();
    for (const [, pool] of pools) await pool.end();
  },
});
