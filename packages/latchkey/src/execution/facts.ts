/** Records facts about a record for people who inspect it. */
import type { LatchkeyRecord } from "../engine/record.ts";
import type { Result } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { parseTraceparent } from "../telemetry/traceparent.ts";
import type { Submitted } from "./attempt-span.ts";
import type { Runtime } from "./runtime.ts";

type Repeat = { readonly recordId: string | null; readonly because: string | null };

/** Records a repeated request and how it was answered. */
export function noteRepeat<Tx>(
  { facts }: Pick<Runtime<Tx>, "facts">,
  { settings }: Operation,
  { key, span }: Submitted,
  result: Result,
): void {
  if (facts === null || !settings.facts) return;
  const repeat = repeatOf(result);
  if (repeat === null) return;
  const traceId = span === undefined ? null : traceIdOf(span.traceparent);
  const { recordId, because } = repeat;
  facts.note({ kind: "repeat", key, recordId, what: result.kind, because, traceId });
}

/** Null: it was the first request of its key, or was not admitted. */
function repeatOf(result: Result): Repeat | null {
  switch (result.kind) {
    case "replay":
    case "timeout":
    case "in_progress":
    case "unknown":
      return { recordId: result.recordId, because: null };
    case "key_misuse":
      return { recordId: null, because: result.because };
    case "expired":
      return { recordId: null, because: null };
    default:
      return null;
  }
}

/** Records what the outcome-reconciler found out about an unknown record. */
export function noteLookUp<Tx>(
  { facts, operations }: Pick<Runtime<Tx>, "facts" | "operations">,
  record: LatchkeyRecord,
  what: string,
  because: string | null = null,
): void {
  if (operations.get(record.operation)?.settings.facts !== true) return;
  const { tenant, scope, key, id: recordId } = record;
  facts?.note({ kind: "look_up", key: { tenant, scope, key }, recordId, what, because, traceId: null });
}

function traceIdOf(traceparent: string | null): string | null {
  return parseTraceparent(traceparent)?.traceId ?? null;
}
