/** Deliveries, for the cases about how they end. */
import assert from "node:assert/strict";
import type { LatchkeyRecord } from "latchkey";
import {
  type DeliveryRequest,
  type DeliveryWork,
  type Guard,
  guardOf,
  type OpenPhase,
  type OutboxEffect,
} from "latchkey/internal";
import { defaultRetention, minute, readRecord } from "./arrange.ts";
import type { CaseContext } from "./case.ts";
import { beginWork, bytes, isCommitted, keyOf, runPhase } from "./journal-arrange.ts";
import {
  claim,
  claimOf,
  deliveryEnds,
  effectNow,
  endOnly,
  keepMs,
  leavesEffect,
  newEffect,
  startNew,
  startOnly,
} from "./outbox-arrange.ts";
import { newRow, transactional } from "./transactions-arrange.ts";

/** A claim, with the tenant whose database has its effect. */
export type TenantClaim = Pick<OutboxEffect, "id" | "fence" | "tenant">;

export type DeliveryCommit = Extract<DeliveryWork<string>, { readonly end: "commit" }>;

export function deliveryCommit(answers: DeliveryCommit["answers"] = null): DeliveryCommit {
  return { end: "commit", value: "value", answers };
}

export function deliveryRequest(
  claim: TenantClaim,
  overrides: Partial<DeliveryRequest> = {},
): DeliveryRequest {
  return { claim: claimOf(claim), tenant: claim.tenant, idleLimitMs: minute, keepMs, ...overrides };
}

/** One whole delivery: writes `row`, then ends as `work` says. */
export function delivering(
  context: CaseContext,
  claim: TenantClaim,
  row: string,
  work: (open: OpenPhase<unknown>) => DeliveryWork<string> | Promise<DeliveryWork<string>>,
) {
  const { support, business } = transactional(context);
  return support.deliver(deliveryRequest(claim), async (open) => {
    await business.write(open.tx, row);
    return work(open);
  });
}

/** A new effect whose send was begun, and whose result is stored. */
export async function keptNew(context: CaseContext): Promise<OutboxEffect> {
  const started = await startNew(context);
  await endOnly(context, deliveryEnds.keep_result(started));
  return effectNow(context, started);
}

/** Asserts that a delivery does not commit: neither its row nor a change of the effect may be stored. */
export async function losesDelivery(
  context: CaseContext,
  effect: OutboxEffect,
  claim: TenantClaim,
  what: string,
  commit: DeliveryCommit = deliveryCommit(),
): Promise<void> {
  const row = newRow();
  const outcome = await leavesEffect(context, effect, what, () =>
    delivering(context, claim, row, () => commit),
  );
  assert.deepEqual({ ...outcome }, { kind: "lost", value: "value" }, `${what} must be lost`);
  assert.ok(!(await isCommitted(context, row)), `${what} must leave no row`);
}

/** A record that waits for the answer of its effect, whose result is stored. */
export async function awaitingAnswer(context: CaseContext) {
  const begun = await beginWork(context);
  await runPhase(context, begun, "reserve", { effects: [newEffect({ step: "reserve" })] });
  const waits = { event: "retry_later", errorCode: "awaits-delivery", resumeAfterMs: null } as const;
  assert.ok(await context.store.end(keyOf(begun), begun.id, begun.fence, waits));
  const [claimed] = await claim(context);
  assert.ok(claimed);
  const started = await startOnly(context, claimed);
  await endOnly(context, deliveryEnds.keep_result(started));
  const record = await readRecord(context, keyOf(begun));
  return { record, effect: await effectNow(context, started) };
}

export const answer = bytes("answered by the effect");

export function answersOf(record: LatchkeyRecord, guard: Guard = guardOf(record)): DeliveryCommit {
  return deliveryCommit({ key: keyOf(record), guard, answer, retention: defaultRetention });
}
