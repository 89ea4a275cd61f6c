/**
 * Consuming with @platformatic/kafka: one stream delivers the records of all partitions, which are sorted into one queue per
 * partition. A stream begins at the committed offsets, so every assignment of partitions gets a stream of its own, and
 * waiting records of an earlier one are dropped.
 */
import type { Runtime } from "../../execution/runtime.ts";
import { pause } from "../../ports.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import { Pauses, reportConsumer } from "../consuming.ts";
import type { PlatformaticConsumer, PlatformaticMessage, PlatformaticStream } from "./client.ts";
import type { ConsumeTopics } from "./kafkajs.ts";
import { PartitionQueues } from "./partition-queues.ts";
import { recordOfPlatformatic } from "./record.ts";
import type { Settling } from "./settling.ts";
import { UntilOver } from "./until-over.ts";

/** The pauses before another stream is opened after one that has ended unexpectedly. */
const consumeAgainPauses = { firstMs: 1_000, maxMs: 10_000 };
/**
 * The client sends heartbeats for the previous generation while it joins the next one. A coordinator that answers them late,
 * with an error, makes it join again at once, and so on without end.
 */
const joinsWithoutHeartbeatMax = 10;
/** The time limit for leaving a group whose coordinator may not answer; it removes the member when the session ends. */
const leaveMs = 10_000;

export class PlatformaticConsuming<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #consumer: PlatformaticConsumer;
  readonly #options: ConsumeTopics;
  readonly #settling: Settling<Tx>;
  readonly #pauses: Pauses<Tx>;
  readonly #running = new Set<Promise<unknown>>();
  #joined = Promise.withResolvers<"joined">();
  #failed = Promise.withResolvers<"ended">();
  #joinsSinceHeartbeat = 0;
  /** The client's state of its membership is wrong, and it will not notice by itself. */
  #lost = false;
  readonly #stopped = Promise.withResolvers<"stopped">();
  #stopping = false;

  constructor(
    runtime: Runtime<Tx>,
    consumer: PlatformaticConsumer,
    options: ConsumeTopics,
    settling: Settling<Tx>,
  ) {
    this.#runtime = runtime;
    this.#consumer = consumer;
    this.#options = options;
    this.#settling = settling;
    this.#pauses = new Pauses(runtime);
  }

  /** Runs until `stop`, and then until everything that has begun is settled. */
  async run(): Promise<void> {
    const consumer = this.#consumer;
    // Called when the client has failed to rejoin its group and will not try again.
    const left = (error: unknown) => {
      this.#report(error);
      this.#failed.resolve("ended");
      this.#failed = Promise.withResolvers();
    };
    const lost = (how: string) => {
      this.#lost = true;
      left(new Error(`${how}; the consumer leaves its group and joins it again`));
    };
    const joined = () => {
      this.#joinsSinceHeartbeat += 1;
      if (this.#joinsSinceHeartbeat > joinsWithoutHeartbeatMax)
        lost("No heartbeat was answered between joins");
      this.#joined.resolve("joined");
      this.#joined = Promise.withResolvers();
    };
    const alive = () => {
      this.#joinsSinceHeartbeat = 0;
    };
    const stalled = () => lost("Heartbeats are not answered");
    consumer.on("consumer:group:join", joined);
    consumer.on("consumer:heartbeat:end", alive);
    consumer.on("consumer:heartbeat:stalled", stalled);
    consumer.on("error", left);
    const { random } = this.#runtime.ports;
    for (let tries = 1; !this.#stopping; tries++) {
      try {
        await this.#consume();
        tries = 1;
        if (!this.#stopping) this.#report(new Error("The stream of records has ended; a new one is opened"));
      } catch (error) {
        this.#report(error);
      }
      if (this.#stopping) break;
      if (this.#lost) await this.#leave();
      await this.#pauses.for(retryPauseMs(tries, random, consumeAgainPauses));
    }
    await Promise.all(this.#running);
    await this.#leave();
    consumer.off("consumer:group:join", joined);
    consumer.off("consumer:heartbeat:end", alive);
    consumer.off("consumer:heartbeat:stalled", stalled);
    consumer.off("error", left);
  }

  stop(): void {
    this.#stopping = true;
    this.#pauses.close();
    this.#stopped.resolve("stopped");
  }

  async #leave(): Promise<void> {
    this.#lost = false;
    this.#joinsSinceHeartbeat = 0;
    const over = new AbortController();
    const left = this.#consumer.leaveGroup(true).catch((error: unknown) => this.#report(error));
    await Promise.race([left, pause(this.#runtime.ports.clock, leaveMs, over.signal, "awaited")]);
    over.abort();
  }

  async #consume(): Promise<void> {
    let stream = await this.#openOrEnd();
    try {
      while (stream !== null && !this.#stopping) {
        const ended = await this.#read(stream);
        if (ended !== "joined") return;
        // The new stream is opened first, because without any stream the consumer would drop its topics and rejoin its group.
        const next = await this.#openOrEnd();
        stream.destroy();
        stream = next;
      }
    } finally {
      stream?.destroy();
    }
  }

  /** Null if the client gives up before it has opened a stream, or `stop` was called. */
  async #openOrEnd(): Promise<PlatformaticStream | null> {
    const opening = this.#open();
    const first = await Promise.race([opening, this.#failed.promise, this.#stopped.promise]);
    if (typeof first !== "string") return first;
    opening.then(
      (late) => late.destroy(),
      () => {},
    );
    return null;
  }

  async #open(): Promise<PlatformaticStream> {
    const { topics, fromBeginning } = this.#options;
    const fallbackMode = fromBeginning ? "earliest" : "latest";
    const stream = await this.#consumer.consume({
      topics: [...topics],
      mode: "committed",
      fallbackMode,
      autocommit: false,
    });
    try {
      // After a failed join, `consume` treats the consumer as a member although it is none, and the stream would stay empty.
      if (!this.#consumer.isActive()) await this.#consumer.joinGroup({});
    } catch (error) {
      stream.destroy();
      throw error;
    }
    return stream;
  }

  /** Reads until the stream ends, there is another assignment, or `stop` was called. */
  async #read(stream: PlatformaticStream): Promise<"ended" | "joined" | "stopped"> {
    const over = new UntilOver(
      Promise.race([this.#joined.promise, this.#failed.promise, this.#stopped.promise]),
    );
    const queues = new PartitionQueues(
      this.#runtime,
      this.#settling,
      this.#options.concurrency,
      ({ topic, partition, leaderEpoch }) =>
        (offset) =>
          this.#consumer.commit({ offsets: [{ topic, partition, offset, leaderEpoch }] }),
    );
    const records = stream[Symbol.asyncIterator]();
    try {
      for (;;) {
        const one = await over.or(records.next());
        if (typeof one === "string") return one;
        if (one.done === true) return "ended";
        const full = queues.add(recordOfPlatformatic(one.value as PlatformaticMessage));
        const left = await over.or(full);
        if (left !== undefined) return left;
      }
    } finally {
      if (this.#stopping) await queues.finish();
      else this.#watch(queues.drop());
    }
  }

  #watch(ending: Promise<void>): void {
    const watched = ending.finally(() => this.#running.delete(watched));
    this.#running.add(watched);
  }

  #report(error: unknown): void {
    reportConsumer(this.#runtime, this.#options.topics.join(", "), error);
  }
}
