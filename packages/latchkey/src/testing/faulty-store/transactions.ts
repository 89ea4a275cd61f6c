/** Faults of transactions: the connection can be lost while one opens, while it is open, and when it ends. */
import type {
  OpenTransaction,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../../stores/store.ts";
import type { Course } from "./fault.ts";
import { type FaultyProcess, failureOf } from "./process.ts";

/** The work's own value; null where the process died before there was one. */
type Kept<T> = { readonly value: T } | null;
type Work<Tx, T> = (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>;

const lost: TransactionWork<null> = { end: "abandon", value: null };

export function faultyTransactions<Tx>(
  inner: TransactionSupport<Tx>,
  process: FaultyProcess,
): TransactionSupport<Tx> {
  return {
    run: (request, work) => new FaultyTransaction(inner, process, request, work).run(),
    resolve: (key, id, fence, timeoutMs) =>
      process.call("resolve", key, () => inner.resolve(key, id, fence, timeoutMs)),
  };
}

class FaultyTransaction<Tx, T> {
  readonly #inner: TransactionSupport<Tx>;
  readonly #process: FaultyProcess;
  readonly #request: TransactionRequest;
  readonly #work: Work<Tx, T>;
  readonly #heard = Promise.withResolvers<TransactionOutcome<T>>();
  #ending: Ending | null = null;

  constructor(
    inner: TransactionSupport<Tx>,
    process: FaultyProcess,
    request: TransactionRequest,
    work: Work<Tx, T>,
  ) {
    this.#inner = inner;
    this.#process = process;
    this.#request = request;
    this.#work = work;
  }

  async run(): Promise<TransactionOutcome<T>> {
    const opening = await this.#process.courseOf("open", this.#request.key);
    if (opening.effect === "none") {
      await this.#process.hearing(opening);
      throw failureOf("open", opening);
    }
    this.#inner
      .run<Kept<T>>(this.#request, (open) => this.#inside(open, opening))
      .then((outcome) => this.#hear(outcome))
      .catch((error: unknown) => {
        if (!this.#process.isDead) this.#heard.reject(error);
      });
    return this.#heard.promise;
  }

  async #inside(open: OpenTransaction<Tx>, opening: Course): Promise<TransactionWork<Kept<T>>> {
    if (opening.hears !== "reply") return this.#loseOpening(opening);
    if ((await this.#process.outlives(opening.until)) === null) return lost;
    const ran = await this.#runWork(open);
    if (ran === null) return lost;
    const course = await this.#process.courseOf(ran.end, this.#request.key);
    this.#ending = { end: ran.end, course };
    if (course.effect !== "now") {
      if (course.hears === "nothing") this.#process.kill();
      else this.#heard.resolve(unheard(this.#ending, ran.value));
      if (course.effect === "none") return lost;
      await course.until;
    }
    return { ...ran, value: { value: ran.value } };
  }

  /** It is open, but nobody has heard of it. `late`: the other side needs that long to notice. */
  async #loseOpening(opening: Course): Promise<TransactionWork<Kept<T>>> {
    if (opening.hears === "nothing") this.#process.kill();
    else this.#heard.reject(failureOf("open", opening));
    await opening.until;
    return lost;
  }

  async #runWork(open: OpenTransaction<Tx>): Promise<TransactionWork<T> | null> {
    try {
      const ran = await this.#process.outlives(this.#work(open));
      return ran === null ? null : ran.value;
    } catch (error) {
      const course = await this.#process.courseOf("rollback", this.#request.key);
      if (course.hears === "nothing") this.#process.kill();
      else await this.#process.outlives(course.until);
      throw error;
    }
  }

  async #hear(outcome: TransactionOutcome<Kept<T>>): Promise<void> {
    const ending = this.#ending;
    if (outcome.value === null || ending === null) return;
    const { value } = outcome.value;
    if (ending.course.hears === "reply") await this.#process.outlives(ending.course.until);
    await this.#process.hearing(ending.course);
    this.#heard.resolve(ending.course.hears === "reply" ? { ...outcome, value } : unheard(ending, value));
  }
}

interface Ending {
  readonly end: TransactionWork<unknown>["end"];
  readonly course: Course;
}

/** What a caller is told whose connection broke at the end. Only a COMMIT can be in doubt. */
function unheard<T>({ end, course }: Ending, value: T): TransactionOutcome<T> {
  if (end !== "commit") return { kind: "rolled_back", value };
  const error = failureOf(end, course);
  return course.hears === "not_sent"
    ? { kind: "refused", value, because: "other", error }
    : { kind: "in_doubt", value, error };
}
