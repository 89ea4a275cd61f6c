/** Turns rows of the outbox into effects, and arguments of the outbox into values; lists of rows are JSON texts. */
import type { SqlRow } from "../../../sql/transaction.ts";
import type { DeliveryEnd, EffectClaim, EffectState, NewEffect, OutboxEffect } from "../../outbox.ts";
import { checkStorable } from "../../storable.ts";
import { optionalsText } from "../statements/array-text.ts";
import {
  booleanOf,
  bytesOf,
  momentOf,
  nullableMoment,
  nullableText,
  numberOf,
  textOf,
} from "../statements/rows.ts";

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

export function hexOf(bytes: Uint8Array): string;
export function hexOf(bytes: Uint8Array | null): string | null;
export function hexOf(bytes: Uint8Array | null): string | null {
  return bytes === null
    ? null
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

export function claimsList(claims: readonly EffectClaim[]): string {
  return JSON.stringify(claims.map(claimRow));
}

function claimRow({ id, fence }: EffectClaim) {
  return { id, attempt: fence.attempt, token: fence.token };
}

type Delivered = Extract<DeliveryEnd, { readonly event: "deliver" }>;

export function areDeliveries(ends: readonly DeliveryEnd[]): ends is readonly Delivered[] {
  return ends.every(({ event }) => event === "deliver");
}

/** A list for each column. */
export function deliveryLists(ends: readonly Delivered[]) {
  const ids: string[] = [];
  const attempts: number[] = [];
  const tokens: string[] = [];
  const results: (string | null)[] = [];
  const keeps: number[] = [];
  for (const { id, fence, result, keepMs } of ends) {
    ids.push(id);
    attempts.push(fence.attempt);
    tokens.push(fence.token);
    results.push(hexOf(result));
    keeps.push(keepMs);
  }
  return {
    ids: `{${ids.join()}}`,
    attempts: `{${attempts.join()}}`,
    tokens: `{${tokens.join()}}`,
    results: optionalsText(results),
    keeps_ms: `{${keeps.join()}}`,
  };
}

/** @throws {TypeError} when a text cannot be stored */
export function endsList(ends: readonly DeliveryEnd[]): string {
  return JSON.stringify(ends.map((end) => ({ ...claimRow(end), event: end.event, ...endRow(end) })));
}

function endRow(end: DeliveryEnd) {
  switch (end.event) {
    case "deliver":
      return { result: hexOf(end.result), keep_ms: end.keepMs };
    case "keep_result":
      return { result: hexOf(end.result) };
    case "retry": {
      checkStorable("errorCode", end.errorCode);
      const { errorCode, afterMs, doubtful, returned, unsent } = end;
      return { error_code: errorCode, after_ms: afterMs, doubtful, returned, unsent };
    }
    case "reopen":
      checkStorable("downstreamKey", end.downstreamKey);
      return { downstream_key: end.downstreamKey };
    case "give_back":
      return { unsent: end.unsent, doubtful: end.doubtful };
    case "die":
      checkStorable("errorCode", end.errorCode);
      return { error_code: end.errorCode, returned: end.returned, unsent: end.unsent };
    default:
      return end satisfies never;
  }
}

/** @throws {TypeError} when a text cannot be stored */
export function effectValues(effect: NewEffect) {
  const { id, downstreamKey, step, index, aggregate, ordered, input, delayMs, trace = null } = effect;
  for (const [what, text] of Object.entries({ effect: effect.effect, downstreamKey, step })) {
    checkStorable(what, text);
  }
  if (aggregate !== null) checkStorable("aggregate", aggregate);
  return {
    effect_id: id,
    effect: effect.effect,
    downstream_key: downstreamKey,
    step,
    index,
    aggregate,
    ordered,
    effect_input: input,
    delay_ms: delayMs,
    trace,
  };
}

/** @throws {TypeError} when a text cannot be stored */
export function effectsList(effects: readonly NewEffect[]): string {
  const rows = effects.map((effect) => {
    const { effect_input: input, ...rest } = effectValues(effect);
    return { ...rest, input: hexOf(input) };
  });
  return JSON.stringify(rows);
}
