import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import { kyselyTransactions } from "../../../../packages/latchkey/src/sql/kysely.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  Kysely(pool) {
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    const say =
      (tx: Pick<Kysely<unknown>, "executeQuery">): Say =>
      async (text, ...values) =>
        (await tx.executeQuery(CompiledQuery.raw(text, values))).rows;
    return {
      alone: (work) => db.transaction().execute((tx) => work(say(tx))),
      handle: through(pool, kyselyTransactions({ db, pool }), say),
    };
  },
};
