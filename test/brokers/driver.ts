/** What the tests of consumers need of a broker: a durable queue, somebody who publishes to it, and a consumer. */
import type {
  InboxOptions,
  Latchkey,
  MessageConsumer,
  MessageHandler,
  Operation,
} from "../../packages/latchkey/src/index.ts";
import type { Broker } from "../support/private-brokers.ts";

export interface Sent {
  readonly id: string | null;
  readonly body: unknown;
}

export interface ConsumeOptions<I> extends InboxOptions<I> {
  readonly size?: number;
}

export interface BrokerClient {
  /** Makes the queue, and where its dead letters go. */
  declare(): Promise<void>;
  publish(messages: readonly Sent[]): Promise<void>;
  consume<Tx, I>(
    latchkey: Latchkey<Tx>,
    operation: Operation<"transaction">,
    options: ConsumeOptions<I>,
    handler: MessageHandler<Tx, "transaction", I>,
  ): Promise<MessageConsumer>;
  /** Messages that nobody has settled, while nobody consumes. */
  left(): Promise<number>;
  /** What the broker has put aside as dead: a number, or null where it only forgets them. */
  putAside(): Promise<number | null>;
  close(): Promise<void>;
}

export interface BrokerDriver {
  readonly name: "RabbitMQ" | "NATS" | "KafkaJS" | "@platformatic/kafka";
  /** What the broker that is started here cannot be put through, by the words of a case, and why. */
  readonly spared?: readonly { readonly words: string; readonly because: string }[];
  /** Its cases may run beside each other: nothing that befalls one touches another one's queue. Default false. */
  readonly parallel?: boolean;
  /** Its partitions may be taken from a consumer and given to it anew, each time with what it holds. Default false. */
  readonly rebalances?: boolean;
  /** What goes through by default, where the suite's own volume takes too long. */
  readonly volume?: { readonly messages: number; readonly kills: number };
  start(): Promise<Broker | undefined>;
  connect(url: string, queue: string): Promise<BrokerClient>;
}
