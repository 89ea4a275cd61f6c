import { MikroORM } from "@mikro-orm/postgresql";
import { mikroOrmPool, mikroOrmTransactions } from "../../../../packages/latchkey/src/sql/mikro-orm.ts";
import { onRelease } from "../../../support/resources.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  async MikroORM(pool) {
    const { connectionString: clientUrl = "", ...driverOptions } = pool.options;
    const orm = await MikroORM.init({ clientUrl, driverOptions, discovery: { warnWhenNoEntities: false } });
    onRelease(() => orm.close());
    const own = await mikroOrmPool(orm);
    const say =
      (tx: Pick<typeof orm.em, "execute">): Say =>
      (text, ...values) =>
        tx.execute(text.replace(/\$\d/gu, "?"), values);
    return {
      alone: (work) => orm.em.fork().transactional((tx) => work(say(tx))),
      handle: through(own, mikroOrmTransactions({ orm, pool: own }), say),
    };
  },
};
