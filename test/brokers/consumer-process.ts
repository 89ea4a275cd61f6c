/**
 * A process that consumes. Its argument is JSON (`ConsumerSettings`); what happens goes to stdout, one line of JSON each.
 * SIGTERM stops it gracefully.
 */
import { createInterface } from "node:readline";
import pg from "pg";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { BrokerDriver } from "./driver.ts";
import { loadDriver } from "./drivers.ts";

/** What a message asks of its handler besides its row. */
export interface Order {
  readonly order: string;
  /** `kill`: it kills its process. `wait`: it tells, and waits for a line on stdin. */
  readonly trap?: "fail" | "kill" | "wait";
}

export interface ConsumerSettings {
  readonly broker: BrokerDriver["name"];
  readonly url: string;
  readonly queue: string;
  readonly databaseUrl: string;
  readonly size?: number;
  readonly batchSize?: number;
  /** Dies between the COMMIT of so many messages and the last one's acknowledgement. */
  readonly dieAfterCommit?: number;
  readonly transactionLimitMs?: number;
}

const settings = JSON.parse(process.argv[2] ?? "") as ConsumerSettings;
const tell = (line: Readonly<Record<string, unknown>>) => process.stdout.write(`${JSON.stringify(line)}\n`);
const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: 8 });
pool.on("error", () => {});
const released = Promise.withResolvers<void>();
createInterface({ input: process.stdin }).on("line", () => released.resolve());

let executed = 0;
const latchkey = createLatchkey({
  store: postgresStore({ pool, notify: false }),
  onEvent(event) {
    if (event.type === "executed" && ++executed === settings.dieAfterCommit)
      process.kill(process.pid, "SIGKILL");
    if (event.type === "replayed") tell({ replayed: true });
    if (event.type === "service_error" || event.type === "store_error")
      tell({ ...event, error: String(event.error) });
    if (event.type.startsWith("message_")) tell({ ...event, error: String("error" in event && event.error) });
  },
});
const { transactionLimitMs } = settings;
const operation = latchkey.operation(
  "shipments.create",
  transactionLimitMs === undefined ? {} : { transactionLimitMs },
);
const driver = await loadDriver[settings.broker]();
const client = await driver.connect(settings.url, settings.queue);
const consumer = await client.consume<pg.PoolClient, Order>(
  latchkey as never,
  operation,
  {
    tenant: "shop",
    backoffMs: 50,
    failuresMax: 3,
    size: settings.size ?? 20,
    batchSize: settings.batchSize ?? false,
    decode({ body }) {
      const order: Order = JSON.parse(Buffer.from(body).toString());
      tell({ read: order.order });
      return order;
    },
  },
  async ({ tx, input }) => {
    await tx.query("insert into business values ($1)", [input.order]);
    if (input.trap === "fail") throw new Error("it never succeeds");
    if (input.trap === "kill") process.kill(process.pid, "SIGKILL");
    if (input.trap === "wait") {
      tell({ waiting: input.order });
      await released.promise;
    }
  },
);
process.once("SIGTERM", async () => {
  await consumer.stop();
  tell({ counts: consumer.counts() });
  await client.close();
  await pool.end();
  process.exit(0);
});
tell({ ready: true });
