import { Module } from "@nestjs/common";
import { TerminusModule } from "@nestjs/terminus";
import { createLatchkey } from "latchkey";
import { LatchkeyModule } from "latchkey/nest";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import { Database, DatabaseModule } from "./database.module.ts";
import { HealthController } from "./health.controller.ts";
import { OrdersController } from "./orders.controller.ts";

@Module({
  imports: [
    DatabaseModule,
    TerminusModule,
    LatchkeyModule.forRootAsync({
      inject: [Database],
      useFactory: async ({ pool }: Database) => {
        await migratePostgres(pool);
        await pool.query(
          "create table if not exists orders (id int generated always as identity primary key, item text not null)",
        );
        return {
          latchkey: createLatchkey({ store: postgresStore({ pool }) }),
          // From authentication, in a service that has one: `(request) => request.user?.account`.
          http: { singleTenant: true },
        };
      },
    }),
  ],
  controllers: [OrdersController, HealthController],
})
export class AppModule {}
