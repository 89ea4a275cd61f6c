/**
 * Consuming with KafkaJS: batch by batch, one record of a partition after the other. The client fetches nothing more from a
 * broker while a batch from it is being processed, so a record that has to wait ends its batch, and its partition is paused.
 */
import type { Runtime } from "../../execution/runtime.ts";
import { type CancelTimer, type Clock, pause } from "../../ports.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import { Pauses, reportConsumer } from "../consuming.ts";
import type { KafkaJsBatchPayload, KafkaJsConsumer, KafkaJsMessage } from "./client.ts";
import { OffsetCommits } from "./commits.ts";
import { type KafkaRecord, recordOfKafkaJs } from "./record.ts";
import { Begun, type Settling } from "./settling.ts";

export interface ConsumeTopics {
  readonly topics: readonly string[];
  readonly fromBeginning: boolean;
  readonly concurrency: number;
}

/** How often the client is notified that a batch is still running. It notifies its group at most every `heartbeatInterval`. */
const beatMs = 1_000;
/** How long a running record may delay a rebalance; after that it runs on by itself, and its offset is not committed. */
const leaveAfterMs = 5_000;
const subscribeAgainPauses = { firstMs: 1_000, maxMs: 10_000 };

export class KafkaJsConsuming<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #consumer: KafkaJsConsumer;
  readonly #options: ConsumeTopics;
  readonly #settling: Settling<Tx>;
  readonly #pauses: Pauses<Tx>;
  readonly #running = new Set<Promise<unknown>>();
  readonly #resumptions = new Set<CancelTimer>();
  readonly #listening: readonly (() => void)[];
  #assignment = new Assignment();
  #stopping = false;

  constructor(
    runtime: Runtime<Tx>,
    consumer: KafkaJsConsumer,
    options: ConsumeTopics,
    settling: Settling<Tx>,
  ) {
    this.#runtime = runtime;
    this.#consumer = consumer;
    this.#options = options;
    this.#settling = settling;
    this.#pauses = new Pauses(runtime);
    this.#listening = [
      consumer.on("consumer.group_join", () => {
        this.#assignment = new Assignment();
      }),
      consumer.on("consumer.crash", ({ payload }) => this.#report(payload.error)),
    ];
  }

  /** Resolves when the client consumes; from then on it recovers by itself where it can. */
  async run(): Promise<void> {
    const { topics, fromBeginning, concurrency } = this.#options;
    const { random } = this.#runtime.ports;
    for (let tries = 1; !this.#stopping; tries++) {
      try {
        await this.#consumer.subscribe({ topics: [...topics], fromBeginning });
        if (this.#stopping) return;
        return await this.#consumer.run({
          autoCommit: false,
          eachBatchAutoResolve: false,
          partitionsConsumedConcurrently: concurrency,
          eachBatch: (payload) => this.#batch(payload),
        });
      } catch (error) {
        this.#report(error);
        await this.#pauses.for(retryPauseMs(tries, random, subscribeAgainPauses));
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#pauses.close();
    for (const cancel of this.#resumptions) cancel();
    await this.#consumer.stop();
    for (const stopListening of this.#listening) stopListening();
    await Promise.all(this.#running);
  }

  async #batch(payload: KafkaJsBatchPayload): Promise<void> {
    const { topic, partition } = payload.batch;
    const assignment = this.#assignment;
    const heartbeat = new Heartbeat(this.#runtime.ports.clock, payload);
    const commits = assignment.commitsOf(payload);
    try {
      for (const message of payload.batch.messages) {
        await commits.room();
        const isOver = () => this.#stopping || heartbeat.failed() || assignment !== this.#assignment;
        if (isOver() || !payload.isRunning() || payload.isStale()) break;
        const record = recordOfKafkaJs(topic, partition, message);
        const againMs = await heartbeat.during(this.#take(record, assignment.begun));
        if (againMs === "left" || assignment !== this.#assignment) break;
        if (againMs !== null) {
          this.#pause(topic, partition, againMs);
          break;
        }
        payload.resolveOffset(message.offset);
        commits.settled(nextOffset(payload, message));
      }
      await commits.flushed();
    } finally {
      heartbeat.end();
    }
    heartbeat.rethrow();
  }

  #take(record: KafkaRecord, begun: Begun): Promise<number | null> {
    const running = this.#settling
      .take(record, begun.add(record))
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }

  #pause(topic: string, partition: number, forMs: number): void {
    if (this.#stopping) return;
    const paused = [{ topic, partitions: [partition] }];
    this.#consumer.pause(paused);
    const resume = () => {
      this.#resumptions.delete(cancel);
      try {
        this.#consumer.resume(paused);
      } catch (error) {
        // The client is not consuming at the moment; when it starts again, no partition is paused.
        this.#report(error);
      }
    };
    const cancel = this.#runtime.ports.clock.startTimer(forMs, resume, "background");
    this.#resumptions.add(cancel);
  }

  #report(error: unknown): void {
    reportConsumer(this.#runtime, this.#options.topics.join(", "), error);
  }
}

/** The state of partitions from one batch to the next, for as long as they stay assigned. */
class Assignment {
  readonly begun = new Begun();
  readonly #commits = new Map<string, OffsetCommits>();

  commitsOf({ batch: { topic, partition }, commitOffsetsIfNecessary }: KafkaJsBatchPayload): OffsetCommits {
    const place = `${topic}:${partition}`;
    const known = this.#commits.get(place);
    if (known !== undefined) return known;
    const commits = new OffsetCommits((offset) => {
      const partitions = [{ partition, offset: String(offset) }];
      return commitOffsetsIfNecessary({ topics: [{ topic, partitions }] });
    });
    this.#commits.set(place, commits);
    return commits;
  }
}

/** After the last record of a batch there may be control records, which the client skips. */
function nextOffset({ batch }: KafkaJsBatchPayload, message: KafkaJsMessage): bigint {
  const isLast = message === batch.messages.at(-1);
  return BigInt(isLast ? batch.lastOffset() : message.offset) + 1n;
}

/** Notifies the group that a batch is still running, and notices when the group is being rebalanced. */
class Heartbeat {
  readonly #clock: Clock;
  readonly #payload: KafkaJsBatchPayload;
  readonly #leaving = new AbortController();
  #failure: { readonly error: unknown } | null = null;
  #cancel: CancelTimer = () => {};
  #ended = false;

  constructor(clock: Clock, payload: KafkaJsBatchPayload) {
    this.#clock = clock;
    this.#payload = payload;
    this.#again();
  }

  failed(): boolean {
    return this.#failure !== null;
  }

  rethrow(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** The value of `running`; "left" if a rebalance cannot wait for it any longer. */
  async during<T>(running: Promise<T>): Promise<T | "left"> {
    const tooLong = Promise.withResolvers<"left">();
    const leave = () =>
      void pause(this.#clock, leaveAfterMs, over.signal).then(() => tooLong.resolve("left"));
    const over = new AbortController();
    const { signal } = this.#leaving;
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await Promise.race([running, tooLong.promise]);
    } finally {
      over.abort();
      signal.removeEventListener("abort", leave);
    }
  }

  end(): void {
    this.#cancel();
    this.#ended = true;
  }

  #again(): void {
    this.#cancel = this.#clock.startTimer(beatMs, () => void this.#beat(), "background");
  }

  async #beat(): Promise<void> {
    try {
      await this.#payload.heartbeat();
      if (!this.#ended) this.#again();
    } catch (error) {
      this.#failure = { error };
      this.#leaving.abort();
    }
  }
}
