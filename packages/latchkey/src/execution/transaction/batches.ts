/**
 * Submissions of one operation that share transactions: those that have come while one transaction ran are the next one's.
 * Each has a part of it, which is undone by itself when its handler fails. Whatever keeps a transaction from committing sends
 * those that had a part in it to transactions of their own.
 */

import { StoreError } from "../../errors.ts";
import type { Operation } from "../../operations/operation.ts";
import { admissionRequest } from "../admission.ts";
import type { Runtime } from "../runtime.ts";
import { type BatchMember, memberOf, SharedTransaction } from "./shared-transaction.ts";
import { type Job, type Round, rerun, type Started, settle } from "./transaction-ends.ts";

export class TransactionBatches<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: Operation;
  readonly #size: number;
  #waiting: BatchMember<Tx>[] = [];
  readonly #running = new Set<SharedTransaction<Tx>>();
  #closed = false;

  /** @param size so many submissions share a transaction at most */
  constructor(runtime: Runtime<Tx>, operation: Operation, size: number) {
    this.#runtime = runtime;
    this.#operation = operation;
    this.#size = size;
  }

  /**
   * One round of a submission, in a transaction that it shares. Null: it goes on in transactions of its own.
   *
   * @throws {StoreError} `not_sent` once this is closed and its turn has not come; and as a round of its own does.
   */
  async round(job: Job<Tx>): Promise<Round> {
    const { ports } = this.#runtime;
    const request = admissionRequest(job.operation, job.submission, ports.random.token());
    const started: Started = { start: null, atMs: ports.clock.monotonicMs() };
    if (this.#closed) throw stopped();
    const { member, decided } = memberOf(job, request, started);
    this.#waiting.push(member);
    this.#begin();
    const outcome = await decided;
    if (outcome !== null) return settle(job, outcome, started);
    return started.start === null ? null : rerun(job, "batch");
  }

  /** What waits is not begun any more, also in a transaction that runs. */
  close(): void {
    this.#closed = true;
    for (const transaction of this.#running) transaction.stop();
    for (const { fail } of this.#waiting.splice(0)) fail(stopped());
  }

  /** What is a whole batch need not wait for another to end. */
  #begin(): void {
    while (this.#waiting.length >= (this.#running.size === 0 ? 1 : this.#size)) {
      void this.#run(this.#take());
    }
  }

  async #run(members: readonly BatchMember<Tx>[]): Promise<void> {
    const transaction = new SharedTransaction(this.#runtime, this.#operation, members);
    this.#running.add(transaction);
    const left = await transaction.run();
    this.#running.delete(transaction);
    if (this.#closed) for (const { fail } of left) fail(stopped());
    else this.#waiting.unshift(...left);
    this.#begin();
  }

  /** A second one of a key is decided about when the first has been. */
  #take(): readonly BatchMember<Tx>[] {
    const taken: BatchMember<Tx>[] = [];
    const left: BatchMember<Tx>[] = [];
    const keys = new Set<string>();
    for (const member of this.#waiting) {
      const { tenant, scope, key } = member.job.submission.key;
      const text = JSON.stringify([tenant, scope, key]);
      const fits = taken.length < this.#size && !keys.has(text);
      if (fits) keys.add(text);
      (fits ? taken : left).push(member);
    }
    this.#waiting = left;
    return taken;
  }
}

function stopped(): StoreError {
  return new StoreError("not_sent", { message: "The consumer was stopped before the message's turn came" });
}
