import makeKnex, { type Knex } from "knex";
import { Model, transaction } from "objection";
import { knexTransactions } from "../../../../packages/latchkey/src/sql/knex.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

class Business extends Model {
  static override tableName = "business";
}

export const ways: Readonly<Record<string, OpenWay>> = {
  Knex(connectionPool) {
    const knex = makeKnex({ client: "pg", connectionPool });
    return {
      alone: (work) => knex.transaction((tx) => work(sayThroughKnex(tx))),
      handle: through(connectionPool, knexTransactions({ knex }), sayThroughKnex),
    };
  },
  Objection(connectionPool) {
    const knex = makeKnex({ client: "pg", connectionPool });
    const say = (tx: Knex.Transaction) => sayThroughKnex(Business.bindTransaction(tx).knex());
    return {
      alone: (work) => transaction(knex, (tx) => work(say(tx))),
      handle: through(connectionPool, knexTransactions({ knex }), say),
    };
  },
};

function sayThroughKnex(tx: Knex): Say {
  return async (text, ...values) => (await tx.raw(text.replace(/\$\d/gu, "?"), values)).rows;
}
