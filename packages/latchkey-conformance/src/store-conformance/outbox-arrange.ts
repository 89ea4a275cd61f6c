/** Effects in a given state, for the cases about the outbox. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import type {
  DeadNote,
  DeliveryEnd,
  EffectClaim,
  EffectState,
  EffectWant,
  NewEffect,
  OutboxEffect,
  OutboxRescue,
  OutboxSupport,
} from "latchkey/internal";
import { day, leaseMs, minute, newId, newKey, newToken, second } from "./arrange.ts";
import type { CaseContext } from "./case.ts";
import { hex } from "./check.ts";
import { bytes, newDownstreamKey } from "./journal-arrange.ts";
import { commitOf, newRow, transactional, writing } from "./transactions-arrange.ts";

export const effectName = "receipts.send";
export const keepMs = day;

export function outboxOf(store: CaseContext["store"]): OutboxSupport {
  assert.ok(store.outbox, "a store with transactions must have an outbox");
  return store.outbox;
}

export function newEffect(overrides: Partial<NewEffect> = {}): NewEffect {
  return {
    id: newId(),
    effect: effectName,
    downstreamKey: newDownstreamKey(),
    step: "",
    index: 0,
    aggregate: null,
    ordered: false,
    input: bytes("effect input"),
    delayMs: 0,
    ...overrides,
  };
}

/** The outbox's row of an effect that was just written. */
export function enqueuedAs(
  { delayMs: _, ...given }: NewEffect,
  record: RecordKey & Pick<OutboxEffect, "operation"> & { readonly id: string },
  fingerprint: Uint8Array,
  createdAt: number,
): OutboxEffect {
  const { tenant, scope, key, id: recordId, operation } = record;
  return {
    ...given,
    tenant,
    scope,
    key,
    recordId,
    operation,
    fingerprint,
    state: "pending",
    generation: 0,
    createdAt,
    fence: { attempt: 0, token: "" },
    sends: 0,
    returns: 0,
    doubtfulSince: null,
    result: null,
    lastErrorCode: null,
    finishedAt: null,
  };
}

/** One transaction that enqueues these effects, on its own key. */
export async function enqueueAll(
  context: CaseContext,
  effects: readonly NewEffect[],
  key: RecordKey = newKey(),
): Promise<readonly OutboxEffect[]> {
  const commit = commitOf(key, { effects });
  const outcome = await writing(transactional(context), key, newRow(), () => commit);
  assert.equal(outcome.kind, "committed", "a transaction with effects must commit");
  return effectsOf(context, commit.life.id);
}

export async function enqueue(
  context: CaseContext,
  overrides: Partial<NewEffect> = {},
  key: RecordKey = newKey(),
): Promise<OutboxEffect> {
  const [effect] = await enqueueAll(context, [newEffect(overrides)], key);
  assert.ok(effect, "an effect of a committed transaction must be stored");
  return effect;
}

export function effectsOf(context: CaseContext, recordId: string): Promise<readonly OutboxEffect[]> {
  return outboxOf(context.other).ofRecord(recordId);
}

/** Reads an effect that must exist. */
export async function effectNow(
  context: CaseContext,
  { id, recordId }: Pick<OutboxEffect, "id" | "recordId">,
): Promise<OutboxEffect> {
  const effect = (await effectsOf(context, recordId)).find((candidate) => candidate.id === id);
  assert.ok(effect, "the effect must be stored");
  return effect;
}

export function claim(
  context: CaseContext,
  wants: readonly EffectWant[] = [{ effect: effectName, limit: 100 }],
  token: string = newToken(),
): Promise<readonly OutboxEffect[]> {
  return outboxOf(context.store).claim(wants, token, leaseMs);
}

export function claimAtMost(context: CaseContext, limit: number): Promise<readonly OutboxEffect[]> {
  return claim(context, [{ effect: effectName, limit }]);
}

export const idsOf = (effects: readonly { readonly id: string }[]) => effects.map(({ id }) => id);

/** Claims what is due, which must be this effect only. */
export async function claimOnly(
  context: CaseContext,
  { id }: { readonly id: string },
): Promise<OutboxEffect> {
  const [claimed, ...more] = await claim(context);
  assert.ok(claimed && more.length === 0, "exactly one effect must be due");
  assert.equal(claimed.id, id, "it must be the one that was enqueued");
  return claimed;
}

/** Enqueues an effect and claims it. */
export async function claimNew(
  context: CaseContext,
  overrides: Partial<NewEffect> = {},
  key?: RecordKey,
): Promise<OutboxEffect> {
  return claimOnly(context, await enqueue(context, overrides, key));
}

export function claimOf({ id, fence }: EffectClaim): EffectClaim {
  return { id, fence };
}

/** Begins a send. */
export async function startOnly(context: CaseContext, claimed: OutboxEffect): Promise<OutboxEffect> {
  assert.deepEqual(await outboxOf(context.store).start([claimOf(claimed)], leaseMs), [claimed.id]);
  return effectNow(context, claimed);
}

export async function startNew(
  context: CaseContext,
  overrides: Partial<NewEffect> = {},
  key?: RecordKey,
): Promise<OutboxEffect> {
  return startOnly(context, await claimNew(context, overrides, key));
}

export type EndEvent = DeliveryEnd["event"];

/** One end of each kind. */
export const deliveryEnds: Readonly<Record<EndEvent, (claim: EffectClaim) => DeliveryEnd>> = {
  deliver: (claim) => ({ ...claimOf(claim), event: "deliver", result: bytes("result"), keepMs }),
  keep_result: (claim) => ({ ...claimOf(claim), event: "keep_result", result: bytes("result") }),
  retry: (claim) => ({
    ...claimOf(claim),
    event: "retry",
    errorCode: "socket-lost",
    afterMs: 10 * minute,
    doubtful: true,
    returned: true,
  }),
  reopen: (claim) => ({ ...claimOf(claim), event: "reopen", downstreamKey: "lk_reopened" }),
  give_back: (claim) => ({ ...claimOf(claim), event: "give_back" }),
  die: (claim) => ({ ...claimOf(claim), event: "die", errorCode: "effect-refused", returned: true }),
};

export const endEvents = Object.keys(deliveryEnds).filter(
  (event): event is EndEvent => event in deliveryEnds,
);

/** Ends one claim, which must still be valid. */
export async function endOnly(context: CaseContext, end: DeliveryEnd): Promise<OutboxEffect | null> {
  assert.deepEqual(await outboxOf(context.store).end([end]), [end.id], `${end.event} must be written`);
  const listed = await Promise.all(
    effectStates.map((state) =>
      outboxOf(context.other).list({ state, effect: null, tenant: null, limit: 1_000, after: null }),
    ),
  );
  return listed.flat().find(({ id }) => id === end.id) ?? null;
}

export function retryAt(
  claimed: EffectClaim,
  afterMs: number,
  overrides: { readonly doubtful?: boolean; readonly returned?: boolean } = {},
): DeliveryEnd {
  const { doubtful = true, returned = false } = overrides;
  return { ...claimOf(claimed), event: "retry", errorCode: "later", afterMs, doubtful, returned };
}

export const effectStates: readonly EffectState[] = ["pending", "claimed", "started", "delivered", "dead"];

/** Enqueues an effect and brings it to a state. It must be the only one that is due. */
export async function putEffectIn(
  context: CaseContext,
  state: EffectState,
  overrides: Partial<NewEffect> = {},
  key?: RecordKey,
): Promise<OutboxEffect> {
  if (state === "pending") return enqueue(context, overrides, key);
  const claimed = await claimNew(context, overrides, key);
  if (state === "claimed") return claimed;
  const started = await startOnly(context, claimed);
  if (state === "delivered") await endOnly(context, deliveryEnds.deliver(claimed));
  if (state === "dead") await endOnly(context, deliveryEnds.die(claimed));
  const effect = state === "started" ? started : await effectNow(context, claimed);
  assert.equal(effect.state, state, `the effect was brought to ${state}`);
  return effect;
}

/** Lets all leases end, and releases the claims. */
export async function rescueAll(context: CaseContext): Promise<OutboxRescue> {
  await context.advance(leaseMs + second);
  return outboxOf(context.other).rescue(1_000);
}

export function deadNote(overrides: Partial<DeadNote> = {}): DeadNote {
  return { id: newId(), actor: "operator-1", reason: "checked by hand", ...overrides };
}

/** Asserts that exactly the expected fields have the expected values. */
export function sameEffect(
  actual: OutboxEffect | null | undefined,
  expected: OutboxEffect | null,
  message: string,
): void {
  assert.deepEqual(actual && comparableEffect(actual), expected && comparableEffect(expected), message);
}

function comparableEffect(effect: OutboxEffect) {
  const { attempt, token } = effect.fence;
  return {
    ...effect,
    fence: { attempt, token },
    fingerprint: hex(effect.fingerprint),
    input: hex(effect.input),
    result: effect.result && hex(effect.result),
  };
}

/** Runs `act` and asserts that the effect is the same afterwards, and due at the same time. */
export async function leavesEffect<T>(
  context: CaseContext,
  effect: Pick<OutboxEffect, "id" | "recordId">,
  what: string,
  act: () => Promise<T>,
): Promise<T> {
  const before = await effectNow(context, effect);
  const result = await act();
  sameEffect(await effectNow(context, effect), before, `${what} must leave the effect as it was`);
  return result;
}
