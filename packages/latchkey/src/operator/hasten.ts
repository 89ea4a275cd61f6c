/** Operators forget a key before its time, or have a waiting record tried again at once. */
import { guardOf, type LatchkeyRecord } from "../engine/record.ts";
import type { OperatorProof } from "../execution/settle.ts";
import type { Ports } from "../ports.ts";
import type { Store } from "../stores/store.ts";
import { retryStoreCall } from "../time/retry-until.ts";
import { readAnswer } from "./readable.ts";
import type { Refused, SeenRecord } from "./settle.ts";
import { type RecordView, recordView } from "./views.ts";

export interface HastenParts {
  readonly store: Store<unknown>;
  readonly ports: Ports;
}

export type HastenRequest =
  /** The key may run as new. `mayRunAgain`: even if its operation has happened, so that it may happen twice. */
  | { readonly event: "forget"; readonly mayRunAgain: boolean }
  /** A waiting record is due now. Never runs anything that may have happened. */
  | { readonly event: "retry" };

export type Hastened =
  | {
      readonly kind: "done";
      /** The audit row's id. Null for a dry run, which writes nothing. */
      readonly audit: string | null;
      /** The record before the change. */
      readonly record: RecordView;
    }
  | Refused;

export interface RetryOptions {
  /** Makes all checks and writes nothing. Default: false. */
  readonly dryRun?: boolean;
}

export interface ForgetOptions extends RetryOptions {
  /** Allows it even if the operation has happened: it may then happen a second time. Default: false, which refuses that. */
  readonly mayRunAgain?: boolean;
}

/**
 * Hastens one life if it has not changed since the operator saw it, and writes an audit row.
 *
 * @param dryRun makes all checks and writes nothing
 * @throws {StoreError} when the store could not be used; repeating the call is harmless.
 */
export async function hastenSeen(
  { store, ports }: HastenParts,
  seen: SeenRecord,
  request: HastenRequest,
  { operator, reason }: OperatorProof,
  dryRun = false,
): Promise<Hastened> {
  const { record, now } = await store.readById(null, seen.recordId);
  if (record === null) return refused("The record no longer exists.", goneDetail, null);
  if (record.fence.attempt !== seen.attempt) {
    return refused("It has continued in the meantime.", "Look at the record again.", record);
  }
  const refusal =
    request.event === "forget"
      ? whyNotForget(record, now, request.mayRunAgain)
      : await whyNotRetry(store, record);
  if (refusal !== null) return refusal;
  if (dryRun) return { kind: "done", audit: null, record: recordView(record) };
  const note = { id: ports.random.uuid(now), actor: operator, proof: "operator", reason };
  const { tenant, scope, key } = record;
  const done = await retryStoreCall(ports, () =>
    store.settlement.hasten({ tenant, scope, key }, guardOf(record), note),
  );
  if (done) return { kind: "done", audit: note.id, record: recordView(record) };
  return refused(
    "It was changed at the same moment, or no longer waits for anything.",
    "Another person or a worker was faster. You changed nothing.",
    record,
  );
}

const goneDetail = "It was released because nothing happened, was forgotten, or its key has a new life.";

function refused(title: string, detail: string, record: LatchkeyRecord | null): Refused {
  return { kind: "refused", title, detail, record: record && recordView(record) };
}

function whyNotForget(record: LatchkeyRecord, now: number, mayRunAgain: boolean): Refused | null {
  switch (record.state) {
    case "failed":
      return isForgotten(record.forgetAt, now, record);
    case "completed":
    case "expired":
      if (mayRunAgain) return isForgotten(record.forgetAt, now, record);
      return refused("Its operation has happened.", whatHappened(record), record);
    case "unknown":
      return refused(
        "Its outcome is not known.",
        "If you forget it, it could happen twice. Settle it instead: latchkey settle.",
        record,
      );
    case "retryable":
      return refused(
        "It waits to be continued.",
        "Its finished steps would run again. Use latchkey retry.",
        record,
      );
    case "pending":
    case "in_progress":
      return refused("It is not finished.", "Wait until it is.", record);
    default:
      return record satisfies never;
  }
}

function isForgotten(forgetAt: number, now: number, record: LatchkeyRecord): Refused | null {
  if (forgetAt > now) return null;
  return refused("Its time is already over.", "The key may run as new.", record);
}

/** The text for an operator who is about to let it happen again. */
function whatHappened(record: LatchkeyRecord): string {
  const again =
    "If you forget it, the key runs as new: a client that still retries makes it happen a second time. Make sure that it did not happen or was undone, then allow it with --may-run-again.";
  if (!("answer" in record) || record.answer === null) return `Its answer is gone. ${again}`;
  const answer = readAnswer(record.answer);
  const status = "value" in answer ? ` with status ${answer.value.status}` : "";
  return `Its first answer${status} is stored. ${again}`;
}

async function whyNotRetry(store: Store<unknown>, record: LatchkeyRecord): Promise<Refused | null> {
  switch (record.state) {
    case "unknown":
      return null;
    case "retryable": {
      const { tenant, scope, key, id } = record;
      const journal = await store.journal.read({ tenant, scope, key }, id);
      if (journal?.input != null) return null;
      return refused(
        "No worker can continue it.",
        "Its operation does not own its work: the next request with this key continues it.",
        record,
      );
    }
    case "completed":
    case "failed":
    case "expired":
      return refused(
        "It is finished.",
        "A finished key runs again only when it is forgotten: latchkey forget.",
        record,
      );
    case "pending":
    case "in_progress":
      return refused("It is under way.", "A worker or its own request is running it.", record);
    default:
      return record satisfies never;
  }
}
