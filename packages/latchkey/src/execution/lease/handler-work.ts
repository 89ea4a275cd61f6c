/** A route's handler under a lease: one unit, whose outcome is unknown if it does not reach its end. */
import { classifyAnswer } from "../../engine/classify.ts";
import type { InProgressRecord } from "../../engine/record.ts";
import { LatchkeyError, NotExecuted } from "../../errors.ts";
import { type Answer, encodeAnswer } from "../../operations/answer.ts";
import type { Work } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { Limited } from "../../time/time-limit.ts";
import type { AttemptHandle } from "../handle.ts";
import type { Runtime } from "../runtime.ts";
import { codecContext } from "../stored-values.ts";
import { settleLate } from "./late-settlement.ts";
import type { Conclusion, LeasedWork } from "./leased-work.ts";

/** How soon the operation's own look-up runs. */
const lookupAfterMs = 1_000;

export function handlerWork<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  work: Work<Tx, "lease">,
): LeasedWork {
  return {
    ownsWork: false,
    input: async () => null,
    begin(held, handle) {
      const over = Promise.withResolvers<void>();
      let working: Promise<Answer> | null = null;
      let refused: Conclusion | null = null;
      return {
        over: over.resolve,
        async work() {
          refused = await refusal(runtime, held.record());
          if (refused !== null) throw new LatchkeyError("steps-changed");
          working = work({ attempt: handle.attempt });
          return working;
        },
        async conclude(ran) {
          if (refused !== null) return refused;
          if (ran.kind === "timed_out") {
            // The signal has asked the handler to stop; if it still answers, that answer is the outcome.
            void over.promise
              .then(() => working)
              .then(
                (answer) => late(answer),
                () => {},
              );
          }
          return { ...(await concluded(runtime, operation, held.record(), handle, ran)), ended: null };
        },
      };
      async function late(answer: Answer | null): Promise<void> {
        if (answer === null) return;
        const ran = { kind: "returned", value: answer } as const;
        const { end } = await concluded(runtime, operation, held.record(), handle, ran);
        if (end.event === "complete") await settleLate(runtime, held.record(), end);
      }
    },
  };
}

/** Refuses a life with steps, from when its operation owned its work: a handler would repeat them. */
async function refusal<Tx>(runtime: Runtime<Tx>, record: InProgressRecord): Promise<Conclusion | null> {
  if (record.fence.attempt === 1) return null;
  try {
    const journal = await runtime.store.journal.read(record, record.id);
    if (journal !== null && journal.steps.length === 0) return null;
  } catch (error) {
    const end = { event: "retry_later", errorCode: "journal-unread", resumeAfterMs: null } as const;
    return { ran: { kind: "threw", error }, end, ended: null };
  }
  const end = { event: "doubt", errorCode: "steps-changed", reconcileAfterMs: null } as const;
  return { ran: { kind: "in_doubt" }, end, ended: null };
}

/** An answer that cannot be stored counts as an error: something has happened, and it cannot be replayed. */
async function concluded<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  record: InProgressRecord,
  handle: AttemptHandle,
  ran: Limited<Answer>,
): Promise<{ readonly ran: Limited<Answer>; readonly end: AttemptEnd }> {
  try {
    return { ran, end: await endOf(runtime, operation, record, handle, ran) };
  } catch (error) {
    return { ran: { kind: "threw", error }, end: doubt(operation, "answer-not-encoded") };
  }
}

async function endOf<Tx>(
  runtime: Runtime<Tx>,
  operation: Operation,
  record: InProgressRecord,
  handle: AttemptHandle,
  ran: Limited<Answer>,
): Promise<AttemptEnd> {
  if (ran.kind === "timed_out") return doubt(operation, "attempt-limit");
  if (ran.kind === "threw") return endOfThrow(operation, handle, ran.error);
  const disposition = classifyAnswer({
    execution: "lease",
    status: ran.value.status,
    declined: handle.declined(),
    serverErrors: operation.settings.serverErrors,
  });
  if (disposition === "release") return { event: "release" };
  if (disposition === "doubt") return doubt(operation, `status-${ran.value.status}`);
  const context = codecContext(record, record.id, record.fingerprint.digest, "answer");
  const encoded = encodeAnswer(ran.value, operation.settings.answerLimitBytes);
  return {
    event: "complete",
    answer: await runtime.codec.encode(encoded, context),
    retention: handle.retention(),
    errorCode: null,
  };
}

function endOfThrow(operation: Operation, handle: AttemptHandle, error: unknown): AttemptEnd {
  const proven = error instanceof NotExecuted || provesNotExecuted(operation, error);
  return proven || handle.declined() ? { event: "release" } : doubt(operation, "handler-threw");
}

/** A predicate that throws or returns a promise proves nothing. */
function provesNotExecuted(operation: Operation, error: unknown): boolean {
  try {
    return operation.settings.isNotExecuted(error) === true;
  } catch {
    return false;
  }
}

function doubt({ settings }: Operation, errorCode: string): AttemptEnd {
  return { event: "doubt", errorCode, reconcileAfterMs: settings.lookup === null ? null : lookupAfterMs };
}
