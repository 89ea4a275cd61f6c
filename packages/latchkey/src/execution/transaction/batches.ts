/**
 * Submissions of one operation that share transactions: those that arrive while a transaction runs share the next one. Each has
 * its own part, which is undone separately if its handler fails. If the transaction cannot commit, its members continue in
 * separate transactions.
 */

import { StoreError } from "../../errors.ts";
import type { Operation } from "../../operations/operation.ts";
import { admissionRequest } from "../admission.ts";
import type { Runtime } from "../runtime.ts";
import type { Job, Round, RoundState } from "./job.ts";
import { type BatchMember, memberOf, SharedTransaction } from "./shared-transaction.ts";
import { rerun, resultAfter } from "./transaction-ends.ts";

export class TransactionBatches<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: Operation;
  readonly #size: number;
  #waiting: BatchMember<Tx>[] = [];
  readonly #running = new Set<SharedTransaction<Tx>>();
  #closed = false;

  /** @param size the most submissions that share a transaction */
  constructor(runtime: Runtime<Tx>, operation: Operation, size: number) {
    this.#runtime = runtime;
    this.#operation = operation;
    this.#size = size;
  }

  /**
   * Runs one round of a submission in a shared transaction. Null: it continues in its own transactions.
   *
   * @throws {StoreError} `not_sent` if this is closed before its turn, or before it would run again; otherwise the errors of a separate round.
   */
  async round(job: Job<Tx>): Promise<Round> {
    const { ports } = this.#runtime;
    const request = admissionRequest(job.operation, job.submission, ports.random.token());
    const roundState: RoundState = { admitted: null, startedAtMs: ports.clock.monotonicMs() };
    this.requireOpen();
    const { member, decided } = memberOf(job, request, roundState);
    this.#waiting.push(member);
    this.#begin();
    const outcome = await decided;
    const round = outcome === null ? null : await resultAfter(job, outcome, roundState);
    if (round !== null) return round;
    this.requireOpen();
    return outcome === null && roundState.admitted !== null ? rerun(job, "batch") : null;
  }

  requireOpen(): void {
    if (this.#closed) throw stopped();
  }

  /**
   * Rejects submissions whose turn has not come, also in a running transaction, and those of which nothing is committed and
   * that would continue in separate transactions.
   */
  close(): void {
    this.#closed = true;
    for (const transaction of this.#running) transaction.stop();
    for (const { fail } of this.#waiting.splice(0)) fail(stopped());
  }

  /** A full batch does not wait until the running transaction ends. */
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

  /** Takes one submission per key: a second one is decided after the first. */
  #take(): readonly BatchMember<Tx>[] {
    const taken: BatchMember<Tx>[] = [];
    const left: BatchMember<Tx>[] = [];
    const keys = new Set<string>();
    let looked = 0;
    for (const member of this.#waiting) {
      if (taken.length === this.#size) break;
      looked += 1;
      const { tenant, scope, key } = member.job.submission.key;
      const text = JSON.stringify([tenant, scope, key]);
      if (keys.has(text)) {
        left.push(member);
      } else {
        keys.add(text);
        taken.push(member);
      }
    }
    this.#waiting = [...left, ...this.#waiting.slice(looked)];
    return taken;
  }
}

function stopped(): StoreError {
  return new StoreError("not_sent", { message: "The consumer was stopped before the message's turn came" });
}
