import { pgTransactions } from "../../../../packages/latchkey/src/sql/pg.ts";
import type { OpenWay } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  pg: (pool) => ({
    async alone(work) {
      const client = await pool.connect();
      try {
        await client.query("begin");
        const value = await work((text, ...values) => client.query(text, values));
        await client.query("commit");
        return value;
      } catch (error) {
        await client.query("rollback");
        throw error;
      } finally {
        client.release();
      }
    },
    handle: through(
      pool,
      pgTransactions({ pool }),
      (tx) =>
        async (text, ...values) =>
          (await tx.query(text, values)).rows,
    ),
  }),
};
