/** The store contract, run without a test runner against a database behind whatever `url` leads through. */
import pg from "pg";
import { migratePostgres, postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import { storeConformance } from "../../../packages/latchkey-conformance/src/store-conformance.ts";
import { emptyTables } from "../../support/empty-tables.ts";
import { wholeShapes } from "../../support/whole-shapes.ts";

const turnableClock = `
  create table business (row text);
  create table clock (at timestamptz not null);
  insert into clock values (date_trunc('milliseconds', clock_timestamp()));
  create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock'`;

export interface ContractOptions {
  /** A database that is empty. */
  readonly url: string;
  readonly store: Pick<Parameters<typeof postgresStore>[0], "namedStatements" | "notify">;
}

/**
 * Runs every case; answers how many there were.
 *
 * @throws at the first that fails, with its name
 */
export async function keepsContract({ url, store: options }: ContractOptions): Promise<number> {
  await migrate(url);
  const cases: { readonly name: string; readonly body: () => Promise<void> }[] = [];
  storeConformance<Omit<pg.PoolClient, "release">>({
    test: (name, body) => cases.push({ name, body }),
    capabilities: {
      transactions: true,
      optimisticAdmission: true,
      inProgress: "immediate",
      durability: "synced",
      commitNotice: true,
      fenceSurvivesFailover: true,
      statusReads: "primary",
    },
    clock: "frozen",
    factory: () => subject(url, options),
  });
  for (const { name, body } of cases) {
    await body().catch((cause: unknown) => {
      throw new Error(`the store contract, "${name}": ${String(cause)}`, { cause });
    });
  }
  return cases.length;
}

async function migrate(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  try {
    await migratePostgres(pool);
    await pool.query(wholeShapes());
    await pool.query(turnableClock);
  } finally {
    await pool.end();
  }
}

async function subject(url: string, options: ContractOptions["store"]) {
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  pool.on("error", () => {});
  await pool.query(emptyTables);
  const all = { pool, timeFunction: "public.my_clock()", ...options };
  const [store, secondStore] = [postgresStore(all), postgresStore(all)];
  return {
    store,
    secondStore,
    async advance(milliseconds: number) {
      await pool.query("update clock set at = at + $1 * interval '1 millisecond'", [milliseconds]);
    },
    business: {
      async write(tx: Omit<pg.PoolClient, "release">, row: string) {
        await tx.query("insert into business values ($1)", [row]);
      },
      async committedRows() {
        const { rows } = await pool.query<{ row: string }>("select row from business");
        return rows.map(({ row }) => row);
      },
    },
    async close() {
      await store.close();
      await secondStore.close();
      await pool.end();
    },
  };
}
