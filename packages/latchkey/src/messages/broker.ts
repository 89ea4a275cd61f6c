/**
 * The contract between the inbox and a broker's adapter. The adapter turns what its client delivers into a `Message`, asks
 * the inbox for a `Verdict`, and does what it says; it decides nothing and stores nothing.
 *
 * - A message stays unacknowledged until its verdict is there. Nothing is acknowledged early.
 * - `ack`: what the message asks for is committed, or is in Latchkey's table of dead letters.
 * - `give_back`: nothing was committed; the broker shall deliver it again, not before `afterMs`. A broker that cannot wait
 *   is not asked to: the adapter keeps the message until then.
 * - `reject` comes in place of `ack` for a dead letter where the user wants the broker's own, too.
 */
import type { GiveBackReason, MessageDeath } from "./reasons.ts";

export type { GiveBackReason, MessageDeath };

export interface Message {
  /** What its sender has named it: the same for every delivery and every copy. Null: nothing. */
  readonly id: string | null;
  /** The queue, stream or topic that it came from. */
  readonly source: string;
  /** As sent. */
  readonly body: Uint8Array;
  readonly contentType: string | null;
  /** What else came with it, by name. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** The broker's kind, as OpenTelemetry's `messaging.system.name` has it, for spans. Absent: they do not say. */
  readonly system?: string;
  /** Whether an earlier delivery of it may have begun; also where the broker cannot tell. */
  readonly redelivered: boolean;
}

export type Verdict =
  | { readonly settle: "ack"; readonly because: "executed" | "accepted" | "duplicate" }
  | { readonly settle: "give_back"; readonly because: GiveBackReason; readonly afterMs: number }
  /** It is in the table of dead letters. */
  | { readonly settle: "dead"; readonly because: MessageDeath | "dead-already" };

/** How many messages ended in which way since the consumer was started. */
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
  /** Begins nothing more, gives back what is held or waits, and waits until what is running has ended and is settled. */
  stop(): Promise<void>;
  counts(): ConsumerCounts;
}
