/** The span of one submission: its decision, and the context that its record links back to. */
import type { Sent } from "../effects/run-effect.ts";
import type { InProgressRecord, LatchkeyRecord } from "../engine/record.ts";
import type { Result, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { NewLife } from "../stores/life.ts";
import type { AttemptEnd } from "../stores/store.ts";
import { parseTraceparent } from "../telemetry/traceparent.ts";
import type { TraceSpan, Tracing } from "../telemetry/tracing.ts";
import type { Runtime } from "./runtime.ts";

/** A submission with its span, if the service is traced. */
export interface Submitted extends Submission {
  readonly span?: TraceSpan;
}

export function withSpan(submission: Submission, span: TraceSpan | null): Submitted {
  return span === null ? submission : { ...submission, span };
}

/** Runs a request's submission in its span, a child of the current span. */
export function inRequestSpan(
  tracing: Tracing,
  operation: Operation,
  submission: Submission,
  run: (submission: Submitted) => Promise<Result>,
): Promise<Result> {
  return tracing.inSpan(startOf(operation, "request"), (span) =>
    noted(span, () => run({ ...submission, span })),
  );
}

/** Runs a worker's attempt in a trace of its own, linked to the span in which the record's life began. */
export function inWorkerSpan<Tx, R extends Result | null>(
  { tracing }: Pick<Runtime<Tx>, "tracing">,
  operation: Operation,
  { trace }: LatchkeyRecord,
  run: (span: TraceSpan | null) => Promise<R>,
): Promise<R> {
  if (tracing === null) return run(null);
  const start = { ...startOf(operation, "worker"), links: [trace], root: true };
  return tracing.inSpan(start, (span) => noted(span, run));
}

function startOf({ name, execution }: Operation, by: "request" | "worker") {
  const attributes = { "latchkey.operation": name, "latchkey.execution": execution, "latchkey.by": by };
  return { name: `execute ${name}`, kind: "internal", attributes } as const;
}

async function noted<R extends Result | null>(
  span: TraceSpan,
  run: (span: TraceSpan) => Promise<R>,
): Promise<R> {
  const result = await run(span);
  if (result !== null) note(span, result);
  return result;
}

/** Called before a handler runs. */
export function noteAttempt(span: TraceSpan, { id, fence }: Pick<InProgressRecord, "id" | "fence">): void {
  span.set({ "latchkey.decision": "execute", "latchkey.record.id": id, "latchkey.attempt": fence.attempt });
}

/** Records the state after the attempt's own write; a released record has none. */
export function noteEnd(span: TraceSpan, { event }: Pick<AttemptEnd, "event">): void {
  if (event !== "release") span.set({ "latchkey.state": stateAfter[event] });
}

const stateAfter = {
  complete: "completed",
  fail: "failed",
  retry_later: "retryable",
  doubt: "unknown",
} as const satisfies Record<Exclude<AttemptEnd["event"], "release">, string>;

function note(span: TraceSpan, result: Result): void {
  span.set({ "latchkey.decision": result.kind === "executed" ? "execute" : result.kind });
  if ("recordId" in result && result.recordId !== null) span.set({ "latchkey.record.id": result.recordId });
  switch (result.kind) {
    case "executed":
      noteAnswer(span, result.answer.status);
      return;
    case "replay":
      span.link(result.trace);
      span.set({ "latchkey.state": "completed" });
      noteAnswer(span, result.answer.status);
      return;
    case "commit_in_doubt":
      span.fail("commit-in-doubt");
      return;
    case "key_misuse":
    case "too_many_keys":
      span.set({ "latchkey.because": result.because });
      return;
    default: {
      const state = stateOf[result.kind];
      if (state !== null) span.set({ "latchkey.state": state });
    }
  }
}

const stateOf = {
  accepted: "pending",
  in_progress: "in_progress",
  unknown: "unknown",
  expired: "expired",
  timeout: "failed",
} as const;

function noteAnswer(span: TraceSpan, status: number): void {
  span.set({ "http.response.status_code": status });
  if (status >= 500) span.fail(String(status));
}

/** Records what a send proved. */
export function noteSent(span: TraceSpan, { kind }: Sent): void {
  span.set({ "latchkey.outcome": kind });
  if (kind !== "returned") span.fail(failures[kind]);
}

const failures = {
  refused: "effect-refused",
  not_executed: "not-executed",
  in_doubt: "call-in-doubt",
} as const satisfies Record<Exclude<Sent["kind"], "returned">, string>;

const none: Pick<NewLife, "trace"> = {};

/** For records and effects that begin in this span. The value is validated here, because any tracer may supply it. */
export function traceOf(span: TraceSpan | null | undefined): Pick<NewLife, "trace"> {
  const trace = span?.traceparent ?? null;
  return trace === null || parseTraceparent(trace) === null ? none : { trace };
}
