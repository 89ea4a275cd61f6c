import { Sequelize, type Transaction } from "sequelize";
import { sequelizePool, sequelizeTransactions } from "../../../../packages/latchkey/src/sql/sequelize.ts";
import { onRelease } from "../../../support/resources.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  Sequelize(pool) {
    const { connectionString = "", options = "", max = 2, connectionTimeoutMillis } = pool.options;
    const dialectOptions = { options, connectionTimeoutMillis };
    const settings = { logging: false, pool: { max }, dialectOptions } as const;
    const sequelize = new Sequelize(connectionString, settings);
    onRelease(() => sequelize.close());
    const say =
      (transaction: Transaction): Say =>
      async (text, ...bind) => {
        const [rows] = await sequelize.query(text, { transaction, ...(bind.length > 0 && { bind }) });
        return rows;
      };
    return {
      alone: (work) => sequelize.transaction((tx) => work(say(tx))),
      handle: through(sequelizePool(sequelize), sequelizeTransactions({ sequelize }), say),
    };
  },
};
