/** Effects as the commands show them. */
import type { OutboxEffect } from "../stores/outbox.ts";
import { effectReasonOf } from "./effect-reasons.ts";
import { type Readable, readJson } from "./readable.ts";
import { isoTime } from "./text.ts";

export type EffectView = ReturnType<typeof effectView>;

/** What is known of it, without what it carries. */
export function effectView(effect: OutboxEffect) {
  const { id, state, tenant, scope, key, operation, recordId, step, index, aggregate, ordered } = effect;
  const { generation, downstreamKey, sends, returns, lastErrorCode } = effect;
  return {
    id,
    effect: effect.effect,
    state,
    tenant,
    scope,
    key,
    operation,
    recordId,
    step,
    index,
    aggregate,
    ordered,
    generation,
    downstreamKey,
    sends,
    returns,
    createdAt: isoTime(effect.createdAt),
    doubtfulSince: optionalTime(effect.doubtfulSince),
    finishedAt: optionalTime(effect.finishedAt),
    lastErrorCode,
    reason: effectReasonOf(lastErrorCode),
  };
}

export type EffectPiecesView = EffectView & {
  readonly input: Readable<unknown>;
  readonly result: Readable<unknown> | null;
};

export function effectPiecesView(effect: OutboxEffect): EffectPiecesView {
  const { input, result } = effect;
  return {
    ...effectView(effect),
    input: readJson(input),
    result: result === null ? null : readJson(result),
  };
}

function optionalTime(epochMs: number | null): string | null {
  return epochMs === null ? null : isoTime(epochMs);
}
