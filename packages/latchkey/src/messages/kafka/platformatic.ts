/**
 * Consuming with @platformatic/kafka: one stream brings the records of all partitions, which are put into a lane for each. A
 * stream begins at the committed offsets, so every assignment of partitions gets a stream of its own, and what an earlier one
 * had brought is dropped.
 */
import type { Runtime } from "../../execution/runtime.ts";
import { pause } from "../../ports.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import { Pauses, reportConsumer } from "../consuming.ts";
import type { PlatformaticConsumer, PlatformaticMessage, PlatformaticStream } from "./client.ts";
import type { ConsumeTopics } from "./kafkajs.ts";
import { Lanes } from "./lanes.ts";
import { recordOfPlatformatic } from "./record.ts";
import type { Settling } from "./settling.ts";
import { UntilOver } from "./until-over.ts";

/** How long after a stream has ended without our doing another one is asked for. */
const consumeAgainPauses = { firstMs: 1_000, maxMs: 10_000 };
/**
 * The client sends heartbeats of the generation before while it joins the next one. A coordinator that answers them late, with
 * an error, makes it join again at once, and so on without end.
 */
const joinsWithoutHeartbeatMax = 10;
/** For leaving a group that may not answer. Its coordinator forgets the member when the session ends. */
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
  /** What the client believes of its membership is wrong, and it does not find out by itself. */
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

  /** Until `stop`; then until everything that has begun is settled. */
  async run(): Promise<void> {
    const consumer = this.#consumer;
    // The client has failed to join its group again, and will not try another time.
    const left = (error: unknown) => {
      this.#report(error);
      this.#failed.resolve("ended");
      this.#failed = Promise.withResolvers();
    };
    const lost = (how: string) => {
      this.#lost = true;
      left(new Error(`${how}; the consumer leaves its group and joins it anew`));
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
        if (!this.#stopping) this.#report(new Error("The stream of records has ended; it is opened again"));
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
        // The new one first: without any stream the consumer would forget its topics, and join its group again.
        const next = await this.#openOrEnd();
        stream.destroy();
        stream = next;
      }
    } finally {
      stream?.destroy();
    }
  }

  /** Null when the client gives up before it has opened one, or we stop. */
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
      // After a join that failed, `consume` takes the consumer for a member, and its stream would stay empty.
      if (!this.#consumer.isActive()) await this.#consumer.joinGroup({});
    } catch (error) {
      stream.destroy();
      throw error;
    }
    return stream;
  }

  /** Until it ends, another assignment is there, or we stop. */
  async #read(stream: PlatformaticStream): Promise<"ended" | "joined" | "stopped"> {
    const over = new UntilOver(
      Promise.race([this.#joined.promise, this.#failed.promise, this.#stopped.promise]),
    );
    const lanes = new Lanes(
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
        const full = lanes.add(recordOfPlatformatic(one.value as PlatformaticMessage));
        const left = await over.or(full);
        if (left !== undefined) return left;
      }
    } finally {
      if (this.#stopping) await lanes.finish();
      else this.#watch(lanes.drop());
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
