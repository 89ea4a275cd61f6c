import { Global, Injectable, Module, type OnApplicationShutdown } from "@nestjs/common";
import pg from "pg";

@Injectable()
export class Database implements OnApplicationShutdown {
  readonly pool: pg.Pool;

  constructor() {
    const connectionString = process.env.DATABASE_URL;
    if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
    this.pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
    this.pool.on("error", console.error);
  }

  /** Latchkey has ended by then: it closes in `beforeApplicationShutdown`. */
  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}

@Global()
@Module({ providers: [Database], exports: [Database] })
export class DatabaseModule {}
