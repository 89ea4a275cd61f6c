/**
 * NATS JetStream over `@nats-io/jetstream`: a consumer that feeds an inbox, and a relay that publishes from the outbox. The
 * client reconnects by itself; Latchkey opens and closes no connection.
 */
import type { Effect } from "../effects/effect.ts";
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operations/operation.ts";
import type { OwnedOperation } from "../operations/owned-operation.ts";
import { timerMaxMs } from "../ports.ts";
import type { MessageConsumer } from "./broker.ts";
import { checkCount, startConsuming, underWayDefault } from "./consuming.ts";
import { createInbox, type InboxOptions, type MessageHandler } from "./inbox.ts";
import { inboxOptionNames } from "./inbox-options.ts";
import type { NatsConsumer, NatsJetStream } from "./nats/client.ts";
import { JetStreamConsuming } from "./nats/consuming.ts";
import { type RelayOptions, relayEffect, relayOptionNames } from "./relay.ts";

export type { NatsConsumer, NatsJetStream };

export interface NatsConsumerOptions<I> extends InboxOptions<I> {
  /** A pull consumer with explicit acknowledgements. */
  readonly consumer: NatsConsumer;
  /** The `source` of messages and their dead letters. Default: the message's subject. */
  readonly source?: string;
  /**
   * How many messages run or are held at once. Default 20, or twice `batchSize`, so that a full batch waits while another
   * runs.
   */
  readonly concurrency?: number;
  /**
   * Whether a dead letter is also terminated, besides being kept in Latchkey's table: the server then publishes an advisory.
   * nats-server 2.9 does not remove a terminated message from a stream with work-queue retention. Default false: it is
   * acknowledged.
   */
  readonly terminate?: boolean;
  /** How often the server is notified that a message is still being processed; well below `ack_wait`. Default 5 seconds. */
  readonly workingMs?: number;
}

const consumerOptionNames = {
  ...inboxOptionNames,
  consumer: true,
  source: true,
  concurrency: true,
  terminate: true,
  workingMs: true,
} as const satisfies OptionNames<NatsConsumerOptions<never>>;

/**
 * Starts to consume. A message is acknowledged when its work is committed, and the server confirms the acknowledgement. A
 * message's id is its header `Nats-Msg-Id`.
 *
 * @param handler runs a message; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing or out of range.
 */
export function natsConsumer<Tx, E extends Execution, I>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<E, I>,
  options: NatsConsumerOptions<I>,
): MessageConsumer;
export function natsConsumer<Tx, E extends DirectExecution, I = unknown>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: NatsConsumerOptions<I>,
  handler: MessageHandler<Tx, E, I>,
): MessageConsumer;
export function natsConsumer<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: NatsConsumerOptions<I>,
  handler?: MessageHandler<Tx, E, I>,
): MessageConsumer {
  checkOptions("natsConsumer", options, consumerOptionNames);
  const {
    consumer: _consumer,
    source: _source,
    concurrency: _concurrency,
    terminate: _terminate,
    workingMs: _workingMs,
    ...inboxOptions
  } = options;
  const { consume, info } = options.consumer ?? {};
  if (typeof consume !== "function" || typeof info !== "function") {
    throw new TypeError("consumer must be a pull consumer of @nats-io/jetstream, with `consume` and `info`");
  }
  const size = checkCount("concurrency", options.concurrency ?? underWayDefault(options), 10_000);
  const workingMs = checkCount("workingMs", options.workingMs ?? 5_000, timerMaxMs);
  const inbox = createInbox(latchkey, operation, inboxOptions, handler as MessageHandler<Tx, E, I>);
  const consuming = new JetStreamConsuming(latchkey.runtime, options, inbox, { size, workingMs });
  return startConsuming(latchkey.runtime, inbox, consuming);
}

export interface NatsRelayOptions<I> extends RelayOptions {
  /** A `JetStreamClient`. */
  readonly jetstream: NatsJetStream;
  readonly subject: (input: I) => string;
}

const relayNames = {
  ...relayOptionNames,
  jetstream: true,
  subject: true,
} as const satisfies OptionNames<NatsRelayOptions<never>>;

/** Less than the effect's own limit, so that the client's error comes first. */
const publishTimeoutMs = 8_000;

/**
 * Defines an effect that publishes its input as JSON and is delivered when the stream has it. The message's id
 * (`Nats-Msg-Id`) is the same on every attempt: the stream drops a second copy within its `duplicate_window`, and inboxes
 * recognise one that comes later.
 *
 * @throws {TypeError} when an option is missing or out of range, or the name is taken.
 */
export function natsRelay<Tx, I>(
  latchkey: Latchkey<Tx>,
  name: string,
  options: NatsRelayOptions<I>,
): Effect<I, null> {
  checkOptions("natsRelay", options, relayNames);
  const { jetstream, subject } = options;
  if (typeof jetstream?.publish !== "function") {
    throw new TypeError("jetstream must be a JetStreamClient of @nats-io/jetstream");
  }
  return latchkey.effect<I, null>(
    name,
    relayEffect(options, async (input, { key }) => {
      const body = Buffer.from(JSON.stringify(input), "utf8");
      await jetstream.publish(subject(input), body, { msgID: key, timeout: publishTimeoutMs });
      return null;
    }),
  );
}
