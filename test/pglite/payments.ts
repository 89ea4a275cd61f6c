import type { PGlite } from "@electric-sql/pglite";
import type { Latchkey, RunResult } from "latchkey";

/** What a handler writes through. */
interface Tx {
  query<Row>(text: string, values: unknown[]): Promise<{ rows: Row[] }>;
}

export interface Payments {
  /** Pays once under `key`; `before` runs inside the handler, after its write. The value is the payment's number. */
  pay(key: string, before?: () => Promise<void>): Promise<RunResult<number>>;
}

export async function payments(latchkey: Latchkey<Tx>, database: PGlite): Promise<Payments> {
  await database.exec(
    "create table if not exists payments (id integer generated always as identity, key text not null)",
  );
  const operation = latchkey.operation("payments.create");
  return {
    pay: (key, before = async () => {}) =>
      latchkey.run(operation, { tenant: "t", key, input: key }, async ({ tx }) => {
        const { rows } = await tx.query<{ id: number }>(
          "insert into payments (key) values ($1) returning id",
          [key],
        );
        await before();
        return rows[0]?.id ?? 0;
      }),
  };
}

/** The keys of all payments there are, in order. */
export async function paidKeys(database: PGlite): Promise<readonly string[]> {
  const { rows } = await database.query<{ key: string }>("select key from payments order by id");
  return rows.map(({ key }) => key);
}
