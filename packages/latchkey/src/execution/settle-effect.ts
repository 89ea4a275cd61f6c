/** Settles an effect in the outbox: the other service confirms it before its delivery has. */
import { createHash } from "node:crypto";
import { uuidVersion7 } from "../ports.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import type { AuditNote } from "../stores/settlement.ts";
import type { Runtime } from "./runtime.ts";
import type { SettleResult, SettleWith } from "./settlement-terms.ts";
import { encodeEffectResult } from "./stored-values.ts";

/**
 * Stores the result: the dispatcher finishes the delivery with it, including `onDelivered`, and sends nothing. Only a result
 * can be settled here; that an effect did not happen is for the delivery itself, or for `redrive`.
 */
export async function settleEffect<Tx>(
  runtime: Runtime<Tx>,
  effect: OutboxEffect,
  { settlement, proof }: { readonly settlement: SettleWith; readonly proof: Omit<AuditNote, "id"> },
): Promise<SettleResult> {
  const { outbox } = runtime.store;
  const { id, generation, recordId, tenant, scope, key } = effect;
  if (outbox === null || !("result" in settlement) || settlement.call !== undefined) {
    return { kind: "no_such_call", recordId };
  }
  const result = await encodeEffectResult(runtime, effect, settlement.result);
  const note = { id: noteId(effect, settlement.result, proof), ...proof };
  if (await outbox.confirm({ id, generation, result }, note)) {
    const about = { ...runtime.about(effect.operation, { tenant, scope, key }), recordId };
    runtime.emit({ ...about, type: "settled", event: "confirm", actor: proof.actor, proof: proof.proof });
    return { kind: "settled", recordId };
  }
  const now = (await outbox.ofRecord(recordId)).find((one) => one.id === id);
  if (now === undefined) return { kind: "not_found" };
  return { kind: now.generation === generation ? "already_delivered" : "no_such_call", recordId };
}

/** The same settlement of the same effect has the same audit row, however often it is repeated. */
function noteId(
  { id, createdAt, downstreamKey }: OutboxEffect,
  result: unknown,
  proof: Omit<AuditNote, "id">,
): string {
  const identity = JSON.stringify(["effect", id, downstreamKey, result, proof]);
  return uuidVersion7(createdAt, createHash("sha256").update(identity).digest());
}
