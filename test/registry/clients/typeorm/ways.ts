import { DataSource } from "typeorm";
import { typeormPool, typeormTransactions } from "../../../../packages/latchkey/src/sql/typeorm.ts";
import { onRelease } from "../../../support/resources.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  async TypeORM(pool) {
    const dataSource = await new DataSource({ type: "postgres", extra: pool.options }).initialize();
    onRelease(() => dataSource.destroy());
    const say =
      (tx: Pick<typeof dataSource.manager, "query">): Say =>
      (text, ...values) =>
        tx.query(text, values);
    return {
      alone: (work) => dataSource.transaction((tx) => work(say(tx))),
      handle: through(typeormPool(dataSource), typeormTransactions({ dataSource }), say),
    };
  },
};
