/** Decides which deliveries of one JetStream consumer count as redelivered. */
import type { NatsDelivery } from "./client.ts";

/** How many messages the server lets a consumer leave unacknowledged by default (`max_ack_pending`). */
const ackPendingDefault = 1_000;

interface Sequences {
  readonly stream: number;
  readonly consumer: number;
}

/** What the server reports about the consumer before the first delivery here. */
export interface BeforeStart {
  /** How many messages are delivered and not acknowledged. */
  readonly ackPending: number;
  /** The sequences of the latest delivery to any consumer; null: not known. */
  readonly latest: Sequences | null;
}

/**
 * Hazard, in servers up to 2.10.12 (nats-io/nats-server#5305): if a message has to be redelivered, and all waiting requests are
 * from clients that are gone, the server steps back by one message in the stream, and delivers its latest messages once more
 * with a delivery count of 1. Nothing in them distinguishes them from new messages: not the count, and not the
 * `delivered.stream_seq` of the consumer's info, which also steps back.
 *
 * Every delivery takes the next number of the consumer's sequence. If that sequence has advanced further than the stream's
 * since the last new message, the difference is the number of redeliveries to other clients, and that many messages may arrive
 * again as if they were new.
 */
export class Redeliveries {
  /** How many of the next messages that look new may have begun elsewhere. */
  #mayHaveBegun: number;
  /** The sequences of the latest message in the stream that has been delivered here, or to any consumer before the start. */
  #latest: Sequences | null;
  /** Deliveries here since then that did not advance in the stream. */
  #repeated = 0;
  /** The consumer's sequence at the last delivery, redelivered or not. */
  #lastDelivery: number;

  /** @param before null: not known */
  constructor(before: BeforeStart | null) {
    this.#mayHaveBegun = before?.ackPending ?? ackPendingDefault;
    this.#latest = before?.latest ?? null;
    this.#lastDelivery = this.#latest?.consumer ?? 0;
  }

  /** Whether the message may have begun before. To be called once for each delivery, in their order. */
  isRedelivered({ redelivered, seq, info }: Pick<NatsDelivery, "redelivered" | "seq" | "info">): boolean {
    const now = { stream: seq, consumer: info.deliverySequence };
    const isReset = now.consumer <= this.#lastDelivery;
    this.#lastDelivery = now.consumer;
    if (isReset) {
      // The server has lost part of the consumer's state, or the consumer was created again under the same name.
      this.#mayHaveBegun = Math.max(this.#mayHaveBegun, ackPendingDefault);
      this.#latest = null;
    }
    if (redelivered || (this.#latest !== null && now.stream <= this.#latest.stream)) {
      this.#repeated += 1;
      return true;
    }
    this.#mayHaveBegun += this.#redeliveredElsewhere(now);
    this.#latest = now;
    this.#repeated = 0;
    if (this.#mayHaveBegun === 0) return false;
    this.#mayHaveBegun -= 1;
    return true;
  }

  /** Too low if the consumer has skipped messages of the stream. */
  #redeliveredElsewhere({ stream, consumer }: Sequences): number {
    if (this.#latest === null) return 0;
    const deliveries = consumer - this.#latest.consumer;
    return Math.max(0, deliveries - (stream - this.#latest.stream) - this.#repeated);
  }
}
