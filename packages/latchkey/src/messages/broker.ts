/**
 * The contract between the inbox and a broker's adapter. The adapter turns a delivery of its client into a `Message`, asks
 * the inbox for a `Verdict`, and carries it out; it decides nothing and stores nothing.
 *
 * - A message stays unacknowledged until the inbox has returned its verdict. Nothing is acknowledged early.
 * - `ack`: the message's work is committed. The adapter acknowledges the message.
 * - `give_back`: nothing was committed; the broker should deliver the message again, not before `afterMs`. For a broker that
 *   cannot wait, the adapter keeps the message until then.
 * - `dead`: the message is in Latchkey's table of dead letters. The adapter acknowledges it, or, if the user also wants the
 *   broker's own handling of dead letters, rejects it or sends it to a topic.
 */
import type { GiveBackReason, MessageDeath } from "./reasons.ts";

export type { GiveBackReason, MessageDeath };

export interface Message {
  /** The id that its sender gave it, the same for every delivery and every copy. Null if it has none. */
  readonly id: string | null;
  /** The queue, stream or topic that it came from. */
  readonly source: string;
  /** As sent. */
  readonly body: Uint8Array;
  readonly contentType: string | null;
  /** Its headers, by name. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** The broker's kind, as a value of OpenTelemetry's `messaging.system.name`, for spans. Absent: spans lack that attribute. */
  readonly system?: string;
  /** Whether an earlier delivery of it may have begun to run; also true if the broker does not report this. */
  readonly redelivered: boolean;
}

export type Verdict =
  | { readonly settle: "ack"; readonly because: "executed" | "accepted" | "duplicate" }
  | { readonly settle: "give_back"; readonly because: GiveBackReason; readonly afterMs: number }
  | { readonly settle: "dead"; readonly because: MessageDeath | "dead-already" };

/** How many messages ended in each way since the consumer was started. */
export interface ConsumerCounts {
  /** Deliveries taken from the broker. */
  readonly received: number;
  readonly executed: number;
  /** Deferred: a worker runs them. */
  readonly accepted: number;
  /** Had been executed before; nothing ran. */
  readonly duplicates: number;
  readonly givenBack: number;
  readonly dead: number;
}

/** A consumer that is running. */
export interface MessageConsumer {
  /** Starts no further messages, gives back those that wait, and resolves when the running ones have ended and are settled. */
  stop(): Promise<void>;
  counts(): ConsumerCounts;
}
