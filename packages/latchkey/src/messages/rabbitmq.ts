/**
 * RabbitMQ over `rabbitmq-client`: a consumer that feeds an inbox, and a relay that publishes from the outbox. The client
 * reconnects by itself; Latchkey opens and closes no connection.
 */
import type { Effect } from "../effects/effect.ts";
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { NotExecuted } from "../errors.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operations/operation.ts";
import type { OwnedOperation } from "../operations/owned-operation.ts";
import { plainText } from "../plain-text.ts";
import { pause } from "../ports.ts";
import type { MessageConsumer, Verdict } from "./broker.ts";
import { checkCount, Pauses, reportConsumer, stoppedOnClose, underWayDefault } from "./consuming.ts";
import { createInbox, type InboxOptions, type MessageHandler } from "./inbox.ts";
import { inboxOptionNames } from "./inbox-options.ts";
import type { RabbitmqConnection, RabbitmqConsumerProps } from "./rabbitmq/client.ts";
import { consumeDelivery, statusOf } from "./rabbitmq/delivery.ts";
import { type RelayOptions, relayEffect, relayOptionNames } from "./relay.ts";

export type { RabbitmqConnection, RabbitmqConsumerProps };

export interface RabbitmqConsumerOptions<I> extends InboxOptions<I> {
  readonly connection: RabbitmqConnection;
  /** The queue must exist, unless `consumer.queueOptions` declares it. */
  readonly queue: string;
  /**
   * How many messages run or are held at once. Default 20, or twice `batchSize`, so that a full batch waits while another
   * runs.
   */
  readonly prefetch?: number;
  /**
   * Further options for the client: `queueOptions`, `exchanges`, `queueBindings`, `exclusive` and the like. Default: nothing
   * is declared, so the queue must exist.
   */
  readonly consumer?: RabbitmqConsumerProps;
  /**
   * Whether a dead letter is rejected, so that RabbitMQ moves it to the queue's dead-letter exchange, besides being kept
   * in Latchkey's table. Default false: it is acknowledged.
   */
  readonly deadLetterExchange?: boolean;
}

const consumerOptionNames = {
  ...inboxOptionNames,
  connection: true,
  queue: true,
  prefetch: true,
  consumer: true,
  deadLetterExchange: true,
} as const satisfies OptionNames<RabbitmqConsumerOptions<never>>;

/**
 * Starts to consume a queue. A message is acknowledged when its work is committed; one that is to be retried stays
 * unacknowledged for its pause and is requeued after it, so a failing message is never redelivered in a tight loop.
 *
 * The client parses JSON (`application/json`), so two texts that `JSON.parse` reads alike are the same message.
 *
 * @param handler runs a message; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing or out of range.
 */
export function rabbitmqConsumer<Tx, E extends Execution, I>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<E, I>,
  options: RabbitmqConsumerOptions<I>,
): MessageConsumer;
export function rabbitmqConsumer<Tx, E extends DirectExecution, I = unknown>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: RabbitmqConsumerOptions<I>,
  handler: MessageHandler<Tx, E, I>,
): MessageConsumer;
export function rabbitmqConsumer<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: RabbitmqConsumerOptions<I>,
  handler?: MessageHandler<Tx, E, I>,
): MessageConsumer {
  checkOptions("rabbitmqConsumer", options, consumerOptionNames);
  const {
    connection,
    queue,
    consumer: props = {},
    deadLetterExchange = false,
    prefetch: _prefetch,
    ...inboxOptions
  } = options;
  const prefetch = checkCount("prefetch", options.prefetch ?? underWayDefault(options), 65_535);
  if (typeof connection?.createConsumer !== "function") {
    throw new TypeError("connection must be a Connection of rabbitmq-client");
  }
  if (typeof queue !== "string" || queue === "") throw new TypeError("queue must be a name");
  const inbox = createInbox(latchkey, operation, inboxOptions, handler as MessageHandler<Tx, E, I>);
  const pauses = new Pauses(latchkey.runtime);
  const running = new Set<Promise<Verdict>>();
  const report = (error: unknown) => reportConsumer(latchkey.runtime, queue, error);
  const subscription = connection.createConsumer(
    {
      queueOptions: { passive: true },
      ...props,
      queue,
      qos: { prefetchCount: prefetch },
      concurrency: prefetch,
    } as never,
    (delivery) => {
      const consuming = consumeDelivery(inbox, pauses, queue, delivery, report);
      running.add(consuming);
      return consuming
        .then((verdict) => statusOf(verdict, deadLetterExchange))
        .finally(() => running.delete(consuming));
    },
  );
  subscription.on("error", report);
  // Waiting messages were unacknowledged, so they are delivered again; and the client waits for their handlers before it goes on.
  const lost = () => pauses.interrupt();
  connection.on("error", lost);
  return stoppedOnClose(latchkey.runtime, {
    counts: () => inbox.counts(),
    async stop() {
      inbox.close();
      pauses.close();
      // Without a connection the client returns at once; the running messages are awaited all the same.
      await subscription.close().catch(report);
      await Promise.all(running);
      connection.off("error", lost);
    },
  });
}

export interface RabbitmqRelayOptions<I> extends RelayOptions {
  readonly connection: RabbitmqConnection;
  /** Where a message goes, and with which headers. */
  readonly route: (input: I) => {
    readonly exchange: string;
    readonly routingKey: string;
    readonly headers?: Readonly<Record<string, unknown>>;
  };
}

const relayNames = {
  ...relayOptionNames,
  connection: true,
  route: true,
} as const satisfies OptionNames<RabbitmqRelayOptions<never>>;

export interface RabbitmqRelay<I> {
  /** For `attempt.enqueue`; its input is the message, sent as JSON. */
  readonly effect: Effect<I, null>;
  /** Closes the channel, so that the connection can be closed. Call it when no worker runs any more. */
  close(): Promise<void>;
}

/** Identifies the send of this process that a returned message belongs to. */
const sendHeader = "latchkey-send";

/**
 * Defines an effect that publishes its input as a durable message and is delivered when RabbitMQ has confirmed it. The
 * message's id is the same on every attempt; a header `latchkey-send` distinguishes its sends. RabbitMQ returns a message
 * that it cannot route to a queue; that counts as a failure and is retried.
 *
 * @throws {TypeError} when an option is missing or out of range, or the name is taken.
 */
export function rabbitmqRelay<Tx, I>(
  latchkey: Latchkey<Tx>,
  name: string,
  options: RabbitmqRelayOptions<I>,
): RabbitmqRelay<I> {
  checkOptions("rabbitmqRelay", options, relayNames);
  const { connection, route } = options;
  if (typeof connection?.createPublisher !== "function") {
    throw new TypeError("connection must be a Connection of rabbitmq-client");
  }
  const { clock } = latchkey.runtime.ports;
  const publisher = connection.createPublisher({ confirm: true, maxAttempts: 1 });
  /** The sends in progress, each with the reason if it was returned. Not by message id, because one message may be sent twice at once. */
  const sending = new Map<string, string | null>();
  let sends = 0;
  publisher.on("basic.return", ({ headers = {}, replyText = "unroutable" }) => {
    const send = headers[sendHeader];
    if (typeof send === "string" && sending.has(send)) sending.set(send, replyText);
  });
  const effect = latchkey.effect<I, null>(
    name,
    relayEffect(options, async (input, { key }) => {
      const { exchange, routingKey, headers = {} } = route(input);
      const send = String(++sends);
      const envelope = {
        exchange,
        routingKey,
        messageId: key,
        mandatory: true,
        durable: true,
        contentType: "application/json",
        headers: { ...headers, [sendHeader]: send },
      };
      sending.set(send, null);
      try {
        await publisher.send(envelope, Buffer.from(JSON.stringify(input), "utf8"));
        // The return arrives before the confirmation, but the client reports it one turn of the event loop later.
        await pause(clock, 1);
        const why = sending.get(send) ?? null;
        if (why !== null)
          throw new NotExecuted({ message: `RabbitMQ returned the message: ${plainText(why)}` });
        return null;
      } finally {
        sending.delete(send);
      }
    }),
  );
  return { effect, close: () => publisher.close() };
}
