/** Commits the offset of one partition, one request at a time; records that are settled in the meantime go with the next one. */

/**
 * How many records of a partition may be settled beyond its committed offset. For the next owner of the partition, that
 * many records and one more may have begun; no later one has.
 */
export const uncommittedMax = 100;

export class OffsetCommits {
  readonly #commit: (offset: bigint) => Promise<void>;
  #next: bigint | null = null;
  #uncommitted = 0;
  #running: Promise<void> | null = null;
  #failure: { readonly error: unknown } | null = null;

  /** @param commit makes `offset` the first one that is delivered to the next owner of the partition */
  constructor(commit: (offset: bigint) => Promise<void>) {
    this.#commit = commit;
  }

  /** Notes that everything before `next` is settled. */
  settled(next: bigint): void {
    this.#next = next;
    this.#uncommitted += 1;
    this.#start();
  }

  /** Resolves when another record may begin. Rejects with the error of a failed commit; the next call tries that again. */
  async room(): Promise<void> {
    await this.#until(() => this.#uncommitted < uncommittedMax);
  }

  /** Resolves when everything that is settled is committed. Rejects as `room` does. */
  async flushed(): Promise<void> {
    await this.#until(() => this.#uncommitted === 0);
  }

  async #until(enough: () => boolean): Promise<void> {
    while (this.#failure !== null || !enough()) {
      if (this.#failure !== null) {
        const { error } = this.#failure;
        this.#failure = null;
        throw error;
      }
      this.#start();
      await this.#running;
    }
  }

  #start(): void {
    if (this.#running !== null || this.#next === null) return;
    this.#running = this.#one(this.#next, this.#uncommitted).finally(() => {
      this.#running = null;
      if (this.#failure === null) this.#start();
    });
    this.#next = null;
  }

  async #one(offset: bigint, settled: number): Promise<void> {
    try {
      await this.#commit(offset);
      this.#uncommitted -= settled;
    } catch (error) {
      this.#next ??= offset;
      this.#failure = { error };
    }
  }
}
