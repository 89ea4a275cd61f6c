/** Runs the records of one assignment: those of a partition one after the other, several partitions at once. */
import type { Runtime } from "../../execution/runtime.ts";
import { Pauses, reportConsumer } from "../consuming.ts";
import { OffsetCommits } from "./commits.ts";
import type { KafkaRecord } from "./record.ts";
import { Begun, type Settling } from "./settling.ts";
import { UntilOver } from "./until-over.ts";

/** How many records may wait in memory. Beyond that no partition is read, because the client cannot pause a single one. */
const waitingMax = 500;
const commitAgainMs = 1_000;

interface PartitionQueue {
  readonly queue: KafkaRecord[];
  readonly commits: OffsetCommits;
}

type CommitOf = (record: KafkaRecord) => (offset: bigint) => Promise<void>;

export class PartitionQueues<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #settling: Settling<Tx>;
  readonly #commitOf: CommitOf;
  readonly #pauses: Pauses<Tx>;
  readonly #semaphore: Semaphore;
  readonly #partitions = new Map<string, PartitionQueue>();
  readonly #working = new Set<Promise<void>>();
  readonly #begun = new Begun();
  #waiting = 0;
  #room = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<void>();
  readonly #over = new UntilOver(this.#closed.promise);
  #state: "open" | "finishing" | "dropped" = "open";

  /** @param commitOf commits offsets of a record's partition */
  constructor(runtime: Runtime<Tx>, settling: Settling<Tx>, concurrency: number, commitOf: CommitOf) {
    this.#runtime = runtime;
    this.#settling = settling;
    this.#commitOf = commitOf;
    this.#pauses = new Pauses(runtime);
    this.#semaphore = new Semaphore(concurrency);
  }

  /** Resolves when another record may be added; never after the queues are closed. */
  async add(record: KafkaRecord): Promise<void> {
    const name = `${record.topic}:${record.partition}`;
    const partition = this.#partitions.get(name) ?? {
      queue: [],
      commits: new OffsetCommits(this.#commitOf(record)),
    };
    this.#partitions.set(name, partition);
    this.#waiting += 1;
    if (partition.queue.push(record) === 1) this.#begin(partition);
    while (this.#waiting >= waitingMax) await this.#room.promise;
  }

  /** Drops the waiting records. The running ones end without a commit of their offsets; resolves when they have ended. */
  async drop(): Promise<void> {
    await this.#close("dropped");
  }

  /** Drops the waiting records; resolves when the running ones have ended and the offsets of settled ones are committed, or the commit has failed. */
  async finish(): Promise<void> {
    await this.#close("finishing");
    const flushed = [...this.#partitions.values()].map(({ commits }) => commits.flushed());
    for (const result of await Promise.allSettled(flushed))
      if (result.status === "rejected") this.#report(result.reason);
  }

  async #close(state: "finishing" | "dropped"): Promise<void> {
    this.#state = state;
    this.#closed.resolve();
    this.#pauses.close();
    await Promise.all(this.#working);
  }

  #begin(partition: PartitionQueue): void {
    const working = this.#work(partition).finally(() => this.#working.delete(working));
    this.#working.add(working);
  }

  async #work({ queue, commits }: PartitionQueue): Promise<void> {
    for (let record = queue[0]; record !== undefined; record = queue[0]) {
      if (!(await this.#mayGoOn(commits))) {
        if (this.#state !== "open") return;
        continue;
      }
      const againMs = await this.#take(record);
      if (againMs === "closed" || this.#state === "dropped") return;
      if (againMs !== null) {
        await this.#pauses.for(againMs);
        continue;
      }
      queue.shift();
      commits.settled(record.offset + 1n);
      this.#waiting -= 1;
      this.#room.resolve();
      this.#room = Promise.withResolvers();
    }
  }

  #take(record: KafkaRecord): Promise<number | null | "closed"> {
    return this.#semaphore.with(async () => {
      if (this.#state !== "open") return "closed";
      return this.#settling.take(record, this.#begun.add(record));
    });
  }

  async #mayGoOn(commits: OffsetCommits): Promise<boolean> {
    try {
      await this.#over.or(commits.room());
    } catch (error) {
      this.#report(error);
      await this.#pauses.for(commitAgainMs);
      return false;
    }
    return this.#state === "open";
  }

  #report(error: unknown): void {
    reportConsumer(this.#runtime, "Kafka", error);
  }
}

/** Limits how many work at once, and admits them in the order of their calls. */
class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(free: number) {
    this.#free = free;
  }

  async with<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((begin) => this.#waiting.push(begin));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
