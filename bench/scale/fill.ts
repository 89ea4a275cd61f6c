/** Tables of a given size: one record made by Latchkey, copied under other keys. */
import { createLatchkey, type RunRequest } from "latchkey";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import type pg from "pg";

/** The tenant of the filled records; records made later belong to another tenant. */
export const tenant = "filled";

export const requestOf = (of: string, key: string): RunRequest => ({
  tenant: of,
  key,
  input: { amount: 500 },
});

/** Spreads numbers, so that keys are not ordered by time, like those of clients. Coprime to powers of ten. */
const spread = 7_368_787;

/** The key of a record by its number, which determines its age. */
export const keyOf = (number: number, rows: number) => `key-${(number * spread) % rows}`;

/** This share of the records is due to be forgotten, those with the lowest numbers. */
const dueShare = 0.05;
export const dueOf = (rows: number) => Math.floor(rows * dueShare);

/** The columns that differ between records. */
const values: Readonly<Record<string, string>> = {
  key: `'key-' || n::bigint * ${spread} % $4`,
  id: "gen_random_uuid()",
  token: "gen_random_uuid()",
  expires_at: "due",
  forget_at: "due",
};

function copyOf(schema: string, columns: readonly string[]): string {
  return `
    insert into ${schema}.records (${columns.join(", ")})
    select ${columns.map((column) => values[column] ?? `seed.${column}`).join(", ")}
    from ${schema}.records seed, (
      select n, case when n < $2 then now() - ($2 - n) * interval '1 ms' else now() + interval '1 day' + n * interval '1 ms' end
        as due from generate_series($1::int, $3::int - 1) n) numbers
    where seed.key = 'seed'`;
}

/** Copied per statement, so that the server need not keep one transaction for all of them. */
const copiedAtOnce = 500_000;

export async function fill(pool: pg.Pool, schema: string, rows: number): Promise<void> {
  await migratePostgres(pool, { schema });
  const store = postgresStore({ pool, schema });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("orders.create");
  await latchkey.run(operation, requestOf(tenant, "seed"), async ({ tx }) => {
    await tx.query("insert into orders (amount) values ($1)", [500]);
    return { text: "x".repeat(100) };
  });
  await latchkey.close();
  const { fields } = await pool.query(`select * from ${schema}.records limit 0`);
  const sql = copyOf(
    schema,
    fields.map(({ name }) => name),
  );
  for (let from = 0; from < rows; from += copiedAtOnce) {
    await pool.query(sql, [from, dueOf(rows), Math.min(rows, from + copiedAtOnce), rows]);
  }
  await pool.query(`vacuum analyze ${schema}.records`);
}

/** Restores the size of the table. */
export async function removeNew(pool: pg.Pool, schema: string): Promise<void> {
  await pool.query(`delete from ${schema}.records where tenant = 'new'`);
  await pool.query(`vacuum ${schema}.records`);
}
