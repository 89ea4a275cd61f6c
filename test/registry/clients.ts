/** Every database client that has a bridge: tests, documents and checks run over this list. */
import type { Client } from "./client.ts";
import { drizzle } from "./clients/drizzle/drizzle.ts";
import { knex } from "./clients/knex/knex.ts";
import { kysely } from "./clients/kysely/kysely.ts";
import { mikroOrm } from "./clients/mikro-orm/mikro-orm.ts";
import { pg } from "./clients/pg/pg.ts";
import { pglite } from "./clients/pglite/pglite.ts";
import { postgresJs } from "./clients/postgres-js/postgres-js.ts";
import { prisma } from "./clients/prisma/prisma.ts";
import { sequelize } from "./clients/sequelize/sequelize.ts";
import { typeorm } from "./clients/typeorm/typeorm.ts";

export const clients: readonly Client[] = [
  pg,
  drizzle,
  knex,
  kysely,
  mikroOrm,
  pglite,
  postgresJs,
  prisma,
  sequelize,
  typeorm,
];
