/** The outcome of a transaction of which a closing statement, or COMMIT itself, was refused. */
import { isLatchkeyError, StoreError } from "../../../errors.ts";
import { isOfServer, isViolationOf, refusalOf, withServersWords } from "../../../sql/sql-errors.ts";
import type { BridgeOutcome } from "../../../sql/transaction.ts";
import type { TransactionOutcome } from "../../transactions.ts";
import type { SeenSessions } from "./session-statements.ts";

type Refused<T> = Extract<BridgeOutcome<T>, { readonly kind: "refused" }>;

export function refused<T>(
  schema: string,
  sessions: SeenSessions,
  outcome: Refused<T>,
): Exclude<TransactionOutcome<T>, { readonly kind: "committed" }> {
  const { value, sqlState, during, error } = outcome;
  if (isViolationOf(error, { schema, table: "records", constraint: "records_pkey" }))
    return { kind: "lost", value };
  const refusal = refusalOf(sqlState);
  switch (refusal) {
    case "serialization":
    case "aborted":
      return { kind: "refused", value, because: refusal, error };
    case "guard":
    case "changed":
      // At COMMIT itself a user's deferred trigger may raise the same state; only 25P01 (no transaction is open) is always ours.
      if (during === "commit" && sqlState !== "25P01")
        return { kind: "refused", value, because: "other", error };
      return refusal === "guard" ? { kind: "lost", value } : { kind: "changed", value };
    case "other":
      // The handler may have changed the role in a way that its statements' texts do not show. It runs again; then the role is restored.
      if (isPrivilege(outcome) && sessions.restoreFromNowOn())
        return { kind: "refused", value, because: "serialization", error };
      return { kind: "refused", value, because: "other", error: errorOf(outcome) };
    default:
      return refusal satisfies never;
  }
}

function isPrivilege({ during, sqlState }: Refused<unknown>): boolean {
  return during === "closing" && sqlState === "42501";
}

/** Closing statements are Latchkey's own. COMMIT runs deferred triggers and constraints, whose errors are the user's. */
function errorOf({ during, sqlState, error }: Refused<unknown>): unknown {
  if (isLatchkeyError(error)) return error;
  if (during !== "closing" && !isOfServer(sqlState)) return error;
  const message = withServersWords("The record could not be written, so everything was rolled back", error);
  const remedy =
    sqlState === "42501" ? ". A handler that changes the role must reset it before it answers" : "";
  return new StoreError("rolled_back", { cause: error, message: message + remedy });
}
