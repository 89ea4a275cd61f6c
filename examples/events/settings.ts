/** The example's settings from its environment. */
export interface Settings {
  readonly databaseUrl: string;
  /** Null: RabbitMQ is started for this run, and NATS likewise. */
  readonly rabbitmqUrl: string | null;
  readonly natsUrl: string | null;
  /** How many orders are placed. */
  readonly orders: number;
  /**
   * `CHAOS=1`: messages are sent twice, shipping is killed between its COMMIT and its acknowledgement, and so are the brokers
   * that were started for this run.
   */
  readonly chaos: boolean;
  /** Identifies the queue and the stream of this run; passed to the shipping processes. */
  readonly run: string;
}

/** @throws {TypeError} if there is no database, or a number is invalid. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const databaseUrl = env.DATABASE_URL;
  if (!databaseUrl)
    throw new TypeError("Set DATABASE_URL to a Postgres: postgres://user:password@host/database");
  const orders = Number(env.ORDERS || "200");
  if (!Number.isSafeInteger(orders) || orders < 1)
    throw new TypeError("ORDERS must be a whole number above 0");
  return {
    databaseUrl,
    rabbitmqUrl: env.RABBITMQ_URL || null,
    natsUrl: env.NATS_URL || null,
    orders,
    chaos: env.CHAOS === "1",
    run: env.EVENTS_RUN || Date.now().toString(36),
  };
}

export interface Order {
  readonly id: number;
  readonly product: string;
}

/** @throws {TypeError} if the message is not an order: it becomes a dead letter. */
export function readOrder({ body }: { readonly body: Uint8Array }): Order {
  const { id, product } = JSON.parse(Buffer.from(body).toString("utf8"));
  if (!Number.isSafeInteger(id) || typeof product !== "string") throw new TypeError("this is not an order");
  return { id, product };
}

/** The queue of orders in RabbitMQ. */
export const orderQueue = (run: string): string => `orders-${run}`;
/** The stream, subject and consumer of shipments in JetStream. */
export const shippedSubject = (run: string): string => `shipped-${run}`;

/** Nothing in these tables prevents a second shipment: Latchkey does that. */
export const tables = `
  create table if not exists orders (id integer, run text, product text, shipped integer not null default 0);
  create table if not exists shipments (order_id integer, run text)`;
