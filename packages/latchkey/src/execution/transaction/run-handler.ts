/** Runs the handler of a transaction, and decides how the transaction ends. */
import { classifyAnswer, type Disposition } from "../../engine/classify.ts";
import { LatchkeyError } from "../../errors.ts";
import { type Answer, encodeAnswer } from "../../operations/answer.ts";
import type { Enqueue } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { NewLife } from "../../stores/life.ts";
import type { OpenTransaction, TransactionWork } from "../../stores/transactions.ts";
import { withLimit } from "../../time/time-limit.ts";
import { noteAttempt } from "../attempt-span.ts";
import { type AttemptHandle, createHandle, sentKeyOf } from "../handle.ts";
import { codecContext } from "../stored-values.ts";
import type { Admitted } from "./admit.ts";
import { EffectList, noEffects } from "./enqueue.ts";
import type { AnsweredRan, Job, Ran } from "./job.ts";

/** The handler's side of its transaction, admitted or not. */
export type HandlerTransaction<Tx> = Pick<OpenTransaction<Tx>, "tx" | "used" | "flush" | "revoke">;

/** The handler's admission, as known when the handler has ended. */
export interface HandlerAdmission {
  /** Absent: the handler was admitted before it ran. Otherwise opens the transaction if needed; never rejects. */
  readonly ensureDecided?: () => Promise<unknown>;
  /** Null: not decided, because the handler failed before it used its `tx`. */
  result(): Admitted | null;
}

/** @param now the store's time, or an estimate */
export async function runHandler<Tx>(
  job: Job<Tx>,
  open: HandlerTransaction<Tx>,
  life: NewLife,
  now: number,
  admission: HandlerAdmission,
): Promise<TransactionWork<Ran>> {
  const { runtime, operation } = job;
  const abort = new AbortController();
  const { span } = job.submission;
  if (span !== undefined) noteAttempt(span, life);
  const effects = new EffectList(runtime, { recordId: life.id, step: "", now, span });
  const enqueue: Enqueue = (effect, input, options) => effects.enqueue(effect, input, options);
  const handle = createHandle(life, abort.signal, operation.settings, sentKeyOf(job.submission), enqueue);
  job.onHandlerStart();
  const ran = await withLimit(runtime.ports.clock, operation.settings.transactionLimitMs, () =>
    admission.ensureDecided === undefined
      ? answered(job, open, handle)
      : answeredOptimistic(job, open, handle, admission, admission.ensureDecided),
  );
  open.revoke();
  effects.close();
  const admitted = admission.result();
  const instead = admitted?.kind === "ends" ? admitted.ran : null;
  if (ran.kind === "timed_out") {
    const error = new LatchkeyError("attempt-limit");
    abort.abort(error);
    return { end: "abandon", value: instead ?? { kind: "threw", error } };
  }
  if (instead !== null) return rollback(instead);
  if (ran.kind === "threw") return rollback({ kind: "threw", error: ran.error });
  if (admitted?.kind !== "runs") throw new TypeError("A handler answered without being admitted");
  const { value: answer } = ran;
  const retention = handle.retention();
  return await concludes(
    job,
    open,
    handle,
    { ...admitted.admittedLife, kind: "answered", answer, enqueued: false, retention },
    effects,
  );
}

function answered<Tx>(job: Job<Tx>, open: HandlerTransaction<Tx>, handle: AttemptHandle): Promise<Answer> {
  const { tx, flush } = open;
  const answering = job.work({ tx, attempt: handle.attempt });
  return flush === undefined ? answering : flushed(job, handle, answering, flush);
}

async function flushed<Tx>(
  { operation }: Job<Tx>,
  handle: AttemptHandle,
  answering: Promise<Answer>,
  flush: () => Promise<void>,
): Promise<Answer> {
  const answer = await answering;
  if (dispositionOf(operation, handle, answer) === "keep") await flush();
  return answer;
}

/** Under optimistic admission the transaction may open while the handler runs, or at its end. */
async function answeredOptimistic<Tx>(
  job: Job<Tx>,
  open: HandlerTransaction<Tx>,
  handle: AttemptHandle,
  admission: HandlerAdmission,
  ensureDecided: () => Promise<unknown>,
): Promise<Answer> {
  const { tx, flush } = open;
  let answer: Answer;
  try {
    answer = await job.work({ tx, attempt: handle.attempt });
  } catch (error) {
    // A statement that the handler did not await may still be opening the transaction.
    if (open.used()) await ensureDecided();
    throw error;
  }
  // Its work was done elsewhere, and a duplicate would repeat it.
  if (!open.used() && answer.status < 400) throw new LatchkeyError("tx-unused");
  await ensureDecided();
  const runs = admission.result()?.kind === "runs";
  if (runs && flush !== undefined && dispositionOf(job.operation, handle, answer) === "keep") await flush();
  return answer;
}

function dispositionOf({ settings }: Operation, handle: AttemptHandle, { status }: Answer): Disposition {
  const { serverErrors } = settings;
  return classifyAnswer({ execution: "transaction", status, declined: handle.declined(), serverErrors });
}

async function concludes<Tx>(
  job: Job<Tx>,
  open: HandlerTransaction<Tx>,
  handle: AttemptHandle,
  ran: AnsweredRan,
  effects: EffectList<Tx>,
): Promise<TransactionWork<Ran>> {
  const { runtime, operation } = job;
  const { answerLimitBytes } = operation.settings;
  const { answer, life, replaces } = ran;
  const disposition = dispositionOf(operation, handle, answer);
  if (disposition === "release" || disposition === "doubt") return rollback(ran);
  const enqueued = !effects.isEmpty && disposition === "keep";
  if (disposition === "keep" && !enqueued && forgotTx(operation, open, answer)) {
    if (runtime.strict) return rollback({ kind: "threw", error: new LatchkeyError("tx-unused") });
    runtime.emit({ type: "tx_unused", ...runtime.about(operation.name, life) });
  }
  const context = codecContext(life, life.id, life.fingerprint.digest, "answer");
  return {
    end: "commit",
    value: enqueued ? { ...ran, enqueued } : ran,
    life,
    replaces,
    answer: await runtime.codec.encode(encodeAnswer(answer, answerLimitBytes), context),
    retention: handle.retention(),
    undoWrites: disposition === "keep_answer_only",
    effects: enqueued ? await effects.encoded(life) : noEffects,
  };
}

function forgotTx<Tx>(operation: Operation, open: HandlerTransaction<Tx>, answer: Answer): boolean {
  return operation.settings.writes === "required" && answer.status < 300 && !open.used();
}

export function rollback(value: Ran): TransactionWork<Ran> {
  return { end: "rollback", value };
}
