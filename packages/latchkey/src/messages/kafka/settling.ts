/** Handles a record of either client: passes it to the inbox, and sends dead letters to their topic. */
import type { Runtime } from "../../execution/runtime.ts";
import { reportConsumer } from "../consuming.ts";
import type { Inbox } from "../inbox.ts";
import type { KafkaProducer } from "./client.ts";
import { uncommittedMax } from "./commits.ts";
import { publisherOn } from "./publishing.ts";
import { type KafkaIdFrom, type KafkaRecord, messageOf } from "./record.ts";

export interface SettlingOptions {
  readonly idFrom: KafkaIdFrom;
  readonly deadLetterTopic: { readonly producer: KafkaProducer; readonly topic: string } | null;
}

/** The pause before a dead letter is sent again that the broker did not accept. */
const sendAgainMs = 1_000;

export class Settling<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #inbox: Inbox;
  readonly #idFrom: KafkaIdFrom;
  readonly #moveAway: ((record: KafkaRecord, reason: string) => Promise<void>) | null;

  constructor(runtime: Runtime<Tx>, inbox: Inbox, { idFrom, deadLetterTopic }: SettlingOptions) {
    this.#runtime = runtime;
    this.#inbox = inbox;
    this.#idFrom = idFrom;
    if (deadLetterTopic === null) {
      this.#moveAway = null;
      return;
    }
    const publish = publisherOn(deadLetterTopic.producer);
    this.#moveAway = ({ topic, partition, offset, key, value, headers }, reason) => {
      const why = { reason, topic, partition: String(partition), offset: String(offset) };
      const added = Object.entries(why).map(
        ([name, text]) => [`latchkey-dead-${name}`, Buffer.from(text)] as const,
      );
      return publish({ topic: deadLetterTopic.topic, key, value, headers: [...headers, ...added] });
    };
  }

  /**
   * Resolves to null if the record is settled, so that its offset may be committed; else to the milliseconds after which to
   * try again. Never rejects.
   */
  async take(record: KafkaRecord, redelivered: boolean): Promise<number | null> {
    const verdict = await this.#inbox.consume(messageOf(record, this.#idFrom, redelivered));
    if (verdict.settle === "give_back") return verdict.afterMs;
    if (verdict.settle === "ack" || this.#moveAway === null) return null;
    try {
      await this.#moveAway(record, verdict.because);
      return null;
    } catch (error) {
      reportConsumer(this.#runtime, record.topic, error);
      return sendAgainMs;
    }
  }
}

/**
 * Tracks which records may have begun before. Kafka does not report it; but of a newly assigned partition only the first
 * ones can have begun, because no consumer runs further than that beyond a committed offset.
 */
export class Begun {
  readonly #partitions = new Map<string, { highest: bigint; count: number }>();

  /** Whether this record may have begun before; from now on it has. */
  add({ topic, partition, offset }: KafkaRecord): boolean {
    const place = `${topic}:${partition}`;
    const before = this.#partitions.get(place) ?? { highest: -1n, count: 0 };
    if (offset <= before.highest) return true;
    const count = before.count + 1;
    this.#partitions.set(place, { highest: offset, count });
    return count <= uncommittedMax + 1;
  }
}
