import { sql as drizzleSql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzleTransactions } from "../../../../packages/latchkey/src/sql/drizzle.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  Drizzle(pool) {
    const db = drizzle(pool);
    type Speaker = Pick<typeof db, "execute">;
    const say =
      (tx: Speaker): Say =>
      async (text, ...values) => {
        const [first = "", ...rest] = text.split(/\$\d/u);
        const query = drizzleSql.raw(first);
        for (const [index, piece] of rest.entries())
          query.append(drizzleSql`${values[index]}`).append(drizzleSql.raw(piece));
        return (await tx.execute(query)).rows;
      };
    return {
      alone: (work) => db.transaction((tx) => work(say(tx))),
      handle: through(pool, drizzleTransactions({ db }), say),
    };
  },
};
