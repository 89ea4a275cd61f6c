/** What a case of the broker suite is, and what it gets to work with. */

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
  /** What the inbox is to know it by. Copies have the same; a broker that drops copies itself must be kept from it. */
  readonly id: string;
  readonly body: Uint8Array;
  readonly contentType: string;
}

/** What a message of the suite says. */
export interface BrokerInput {
  readonly name: string;
}

export interface ConsumeOptions extends InboxOptions<BrokerInput> {
  /** How many messages the adapter may have under way or held at once. */
  readonly size: number;
}

/** One consumer of the adapter, on a connection of its own. */
export interface ConsumerUnderTest {
  readonly consumer: MessageConsumer;
  /** From now on nothing of it reaches the broker, as though its process had been killed. The broker gives what it had to others. */
  die?(): Promise<void>;
  /** Its connection breaks once; it may make another. */
  cut?(): Promise<void>;
}

/** An empty queue, used by one case. */
export interface BrokerUnderTest {
  /** Resolves when the broker has them. */
  publish(messages: readonly PublishedMessage[]): Promise<void>;
  /** Starts a consumer of the adapter. Its options are to be handed over as they are. */
  consume(
    latchkey: Latchkey<MemoryTransaction>,
    operation: Operation<"transaction">,
    options: ConsumeOptions,
    handler: MessageHandler<MemoryTransaction, "transaction", BrokerInput>,
  ): Promise<ConsumerUnderTest>;
  /** How many messages nobody has settled. Asked while no consumer runs. */
  unsettled(): Promise<number>;
  /** How many messages the broker has put aside as dead. */
  putAside?(): Promise<number>;
  /** Called once, after the case, also when it failed. Ends consumers that were not stopped. */
  close(): Promise<void> | void;
}

/** What can be done to the adapter's consumers. What is declared must be there. */
export interface BrokerCapabilities {
  /** `die` is there. */
  readonly dies: boolean;
  /** `cut` is there. */
  readonly cuts: boolean;
  /** `putAside` is there, and dead letters get there. */
  readonly putsAside: boolean;
}

/** A consumer as a case has it. */
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
  /** `work` comes before the handler's row is written. */
  consume(work: (one: Work) => Promise<void> | void, options?: Partial<ConsumeOptions>): Promise<Running>;
  /** Messages by name; each says its name, and has it as its id. */
  publish(...names: readonly string[]): Promise<void>;
  /** Names of the committed rows, sorted. */
  rows(): readonly string[];
  /** Reasons of the dead letters, sorted. */
  dead(): Promise<readonly string[]>;
  /** The next transaction stops before its COMMIT, or after it and before anybody hears of it. */
  hold(where: "before COMMIT" | "after COMMIT"): { readonly reached: Promise<void>; release(): void };
  /** Fails with `what` after the suite's patience. */
  until(what: string, condition: () => boolean | Promise<boolean>): Promise<void>;
  within<T>(what: string, promise: Promise<T>): Promise<T>;
  /** For what must not happen meanwhile. */
  pause(ms: number): Promise<void>;
}

export interface BrokerCase {
  /** Starts with the group: `ack: …`. Stable, because `skip` names it. */
  readonly name: string;
  /** What the case needs; always applies, when absent. */
  readonly needs?: (capabilities: BrokerCapabilities) => boolean;
  run(context: BrokerContext): Promise<void>;
}
