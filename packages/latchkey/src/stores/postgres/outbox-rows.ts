/** Rows of the outbox, made into effects. */
import type { SqlRow } from "../../sql/transaction.ts";
import type { EffectState, OutboxEffect } from "../outbox.ts";
import { booleanOf, bytesOf, momentOf, nullableMoment, nullableText, numberOf, textOf } from "./rows.ts";

export function effectOf(row: SqlRow): OutboxEffect {
  const result = nullableText(row, "result");
  const trace = nullableText(row, "trace");
  const effect: OutboxEffect = {
    tenant: textOf(row, "tenant"),
    scope: textOf(row, "scope"),
    key: textOf(row, "key"),
    id: textOf(row, "id"),
    state: booleanOf(row, "started") ? "started" : (textOf(row, "state") as EffectState),
    recordId: textOf(row, "record_id"),
    operation: textOf(row, "operation"),
    fingerprint: bytesOf(textOf(row, "fingerprint")),
    effect: textOf(row, "effect"),
    step: textOf(row, "step"),
    index: numberOf(row, "index"),
    generation: numberOf(row, "generation"),
    downstreamKey: textOf(row, "downstream_key"),
    aggregate: nullableText(row, "aggregate"),
    ordered: booleanOf(row, "ordered"),
    input: bytesOf(textOf(row, "input")),
    createdAt: momentOf(row, "created_at"),
    fence: {
      attempt: numberOf(row, "attempt"),
      token: nullableText(row, "token")?.replaceAll("-", "") ?? "",
    },
    sends: numberOf(row, "sends"),
    returns: numberOf(row, "returns"),
    doubtfulSince: nullableMoment(row, "doubtful_since"),
    result: result === null ? null : bytesOf(result),
    lastErrorCode: nullableText(row, "last_error_code"),
    finishedAt: nullableMoment(row, "finished_at"),
  };
  return trace === null ? effect : { ...effect, trace };
}
