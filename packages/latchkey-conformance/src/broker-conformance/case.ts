/** What a case of the broker suite is, and the context it runs in. */

import type {
  ConsumerCounts,
  InboxOptions,
  Latchkey,
  LatchkeyEvent,
  Message,
  MessageConsumer,
  MessageHandler,
  Operation,
} from "latchkey";
import type { MemoryTransaction } from "latchkey/memory";

export interface PublishedMessage {
  /**
   * The id by which the inbox must recognise it. Copies have the same id; the driver must disable any deduplication in the
   * broker.
   */
  readonly id: string;
  readonly body: Uint8Array;
  readonly contentType: string;
}

/** The content of the suite's messages. */
export interface BrokerInput {
  readonly name: string;
}

export interface ConsumeOptions extends InboxOptions<BrokerInput> {
  /** How many messages the adapter may run or hold at once. */
  readonly size: number;
}

/** One consumer of the adapter, on its own connection. */
export interface ConsumerUnderTest {
  readonly consumer: MessageConsumer;
  /**
   * Cuts the consumer off from the broker, as if its process had been killed. The broker redelivers its messages to others.
   */
  die?(): Promise<void>;
  /** Breaks its connection once; the consumer may reconnect. */
  cut?(): Promise<void>;
}

/** An empty queue, used by one case. */
export interface BrokerUnderTest {
  /** Resolves when the broker has accepted them. */
  publish(messages: readonly PublishedMessage[]): Promise<void>;
  /** Starts a consumer of the adapter. Pass its options through unchanged. */
  consume(
    latchkey: Latchkey<MemoryTransaction>,
    operation: Operation<"transaction">,
    options: ConsumeOptions,
    handler: MessageHandler<MemoryTransaction, "transaction", BrokerInput>,
  ): Promise<ConsumerUnderTest>;
  /** How many messages are not settled. Called only while no consumer runs. */
  unsettled(): Promise<number>;
  /** How many messages the broker has set aside as dead. */
  putAside?(): Promise<number>;
  /** Called once after the case, even if it failed. Must end consumers that were not stopped. */
  close(): Promise<void> | void;
}

/** What can be done to the adapter's consumers. Whatever is declared must be implemented. */
export interface BrokerCapabilities {
  /** `die` is implemented. */
  readonly dies: boolean;
  /** `cut` is implemented. */
  readonly cuts: boolean;
  /** `putAside` is implemented, and dead letters are counted by it. */
  readonly putsAside: boolean;
}

/** A consumer as a case sees it. */
export interface Running {
  counts(): ConsumerCounts;
  stop(): Promise<void>;
  die(): Promise<void>;
  cut(): Promise<void>;
}

export interface Work {
  readonly name: string;
  readonly message: Message;
}

export interface BrokerContext {
  readonly broker: BrokerUnderTest;
  readonly capabilities: BrokerCapabilities;
  readonly events: readonly LatchkeyEvent[];
  /** `work` runs before the handler's row is written. */
  consume(work: (one: Work) => Promise<void> | void, options?: Partial<ConsumeOptions>): Promise<Running>;
  /** Publishes one message per name; each carries its name, and has it as its id. */
  publish(...names: readonly string[]): Promise<void>;
  /** Names of the committed rows, sorted. */
  rows(): readonly string[];
  /** Reasons of the dead letters, sorted. */
  dead(): Promise<readonly string[]>;
  /** Pauses the next transaction before its COMMIT, or after it and before the caller learns of it. */
  hold(where: "before COMMIT" | "after COMMIT"): { readonly reached: Promise<void>; release(): void };
  /** Fails with `what` once the suite's patience is exhausted. */
  until(what: string, condition: () => boolean | Promise<boolean>): Promise<void>;
  within<T>(what: string, promise: Promise<T>): Promise<T>;
  /** Waits a fixed time, to give something that must not happen the chance to happen. */
  pause(ms: number): Promise<void>;
}

export interface BrokerCase {
  /** Starts with the group: `ack: …`. Stable, because `skip` refers to it. */
  readonly name: string;
  /** What the case needs. Absent: the case always applies. */
  readonly needs?: (capabilities: BrokerCapabilities) => boolean;
  run(context: BrokerContext): Promise<void>;
}
