/** An operator's decisions about dead effects and messages. */
import type { Runtime } from "../execution/runtime.ts";
import type { OperatorProof } from "../execution/settle.ts";
import type { DeadMessages, Republish } from "../messages/dead-messages.ts";
import type { DeadVerdict, OutboxEffect } from "../stores/outbox.ts";
import { retryStoreCall } from "../time/retry-until.ts";
import { type DeadName, deathName, findDead } from "./dead-names.ts";

/** How long a discarded effect stays visible. */
export const discardedKeepMs = 24 * 60 * 60 * 1_000;

export interface DeadLetters {
  readonly runtime: Pick<Runtime<unknown>, "store" | "ports">;
  /** Null: the store has no messages. */
  readonly messages: DeadMessages | null;
  /** Null: messages cannot be published again here. */
  readonly republish: Republish | null;
}

export interface Decided {
  /** What was found under the name. Null: no dead effect or message has it. */
  readonly kind: "effect" | "message" | null;
  /** The audit row's id. Null: nothing was written. */
  readonly audit: string | null;
}

/**
 * Decides about one death and writes an audit row. An effect and a message never share an id: both are random.
 *
 * @throws {StoreError} when the store could not be used
 * @throws the error of `republish`; the message stays dead.
 */
export async function decideDead(
  { runtime, messages, republish }: DeadLetters,
  { id, attempt }: DeadName,
  verdict: DeadVerdict,
  by: OperatorProof,
): Promise<Decided> {
  const { store, ports } = runtime;
  const { outbox } = store;
  if (outbox !== null) {
    const auditId = ports.random.uuid(ports.clock.wallMs());
    const note = { id: auditId, actor: by.operator, reason: by.reason };
    const done = await retryStoreCall(ports, () => outbox.decide(id, { ...verdict, attempt }, note));
    if (done) return { kind: "effect", audit: note.id };
  }
  // A message dies once under one id; if it dies again, that is another dead letter.
  if (messages === null || attempt !== null) return { kind: null, audit: null };
  if ((await messages.find(id)) === null) return { kind: null, audit: null };
  if (verdict.event === "discard") return { kind: "message", audit: await messages.discard(id, by) };
  if (republish === null) return { kind: "message", audit: null };
  return { kind: "message", audit: await messages.redrive(id, by, republish) };
}

/** What `decideDead` would find and whether it would act, without a write. */
export async function checkDead(
  { runtime: { store }, messages, republish }: DeadLetters,
  name: DeadName,
  { event }: DeadVerdict,
): Promise<{ readonly kind: Decided["kind"]; readonly may: boolean }> {
  const effect = await findDead(store.outbox, name.id);
  if (effect !== null) return { kind: "effect", may: await isThisDeath(store, effect, name) };
  if (name.attempt !== null || (await messages?.find(name.id)) == null) return { kind: null, may: false };
  return { kind: "message", may: event === "discard" || republish !== null };
}

/** A name without a number means the first death: no operator has decided about the effect before. */
async function isThisDeath(
  store: Runtime<unknown>["store"],
  effect: OutboxEffect,
  name: DeadName,
): Promise<boolean> {
  if (name.attempt !== null) return deathName(effect) === `${name.id}@${name.attempt}`;
  const { tenant, scope, key, id } = effect;
  const decided = await store.settlement.audit({ tenant, scope, key });
  return !decided.some(({ effectId, from }) => effectId === id && from === "dead");
}
