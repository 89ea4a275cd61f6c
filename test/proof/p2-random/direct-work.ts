/** What handlers do whose work is handed over with the request. */

import { NotExecuted } from "../../../packages/latchkey/src/errors.ts";
import type { Answer } from "../../../packages/latchkey/src/operations/answer.ts";
import type { Attempt, Work } from "../../../packages/latchkey/src/operations/attempt.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { handlerAnswer } from "./answers.ts";
import { type Asked, WorldError } from "./asked.ts";
import { enqueueOptions, mailName } from "./config.ts";
import { fenceText } from "./life-log.ts";
import type { Process } from "./process.ts";
import type { Stage } from "./stage.ts";

/** A kept refusal without work, errors before and after it, and answers of each class. */
const behaviours = 12;

export function transactionWork(
  stage: Stage,
  process: Process,
  asked: Asked,
): Work<MemoryTransaction, "transaction"> {
  const { plan, key, digest } = asked;
  return async ({ tx, attempt }) => {
    const nonce = stage.nextNonce();
    asked.nonces.push(nonce);
    await stage.point(process, "handler", key.tenant);
    const act = stage.behaviour(process, key.tenant, behaviours);
    if (act === 1) throw new WorldError("before its writes");
    if (act === 2) return handlerAnswer(422, attempt.id, nonce, false);
    const input = { life: attempt.id, place: `mail ${nonce}`, by: nonce };
    const enqueue = () => attempt.enqueue(process.effect(mailName(plan)), input, enqueueOptions(plan)).id;
    const enqueued = plan.shape === "enqueue" ? [enqueue()] : [];
    await tx.insert("orders", { life: attempt.id, step: "", nonce, digest, enqueued });
    if (act % 2 === 1) await stage.point(process, "handler before its answer", key.tenant);
    if (act === 3) throw new WorldError("after its writes");
    if (act === 4) attempt.release();
    const status = statusOf(act);
    return handlerAnswer(status, attempt.id, nonce, status < 500);
  };
}

function statusOf(act: number): number {
  const statuses: Readonly<Record<number, number>> = { 5: 500, 6: 429, 7: 404, 8: 503 };
  return statuses[act] ?? 201;
}

export function leaseWork(stage: Stage, process: Process, asked: Asked): Work<MemoryTransaction, "lease"> {
  const { plan, key } = asked;
  return async ({ attempt }) => {
    const nonce = stage.nextNonce();
    asked.nonces.push(nonce);
    checkStart(stage, process, asked, attempt);
    await stage.point(process, "handler", key.tenant);
    const act = stage.behaviour(process, key.tenant, behaviours);
    const early = beforeEffect(act, attempt, nonce);
    if (early !== null) return early;
    if (act === 6 && plan.serverErrors === "release") return handlerAnswer(500, attempt.id, nonce, false);
    charge(stage, asked, attempt, nonce);
    if (act % 2 === 1) await stage.point(process, "handler before its answer", key.tenant);
    if (act === 5) throw new WorldError("after its effect");
    return handlerAnswer(act === 6 ? 500 : 201, attempt.id, nonce, false);
  };
}

function beforeEffect(act: number, attempt: Attempt, nonce: number): Answer | null {
  switch (act) {
    case 1:
      throw new NotExecuted({ message: "nothing happened" });
    case 2:
      return handlerAnswer(422, attempt.id, nonce, false);
    case 3:
      attempt.release();
      return handlerAnswer(409, attempt.id, nonce, false);
    case 4:
      throw new WorldError("before its effect");
    default:
      return null;
  }
}

/** Under `reconcile` a life takes effect once, whoever runs its handler. */
function charge(stage: Stage, { plan }: Asked, { id, fence }: Attempt, nonce: number): void {
  stage.downstream.chargeDirectly({ life: id, attempt: fence.attempt, nonce });
  const count = stage.downstream.directOf(id).length;
  if (plan.shape !== "rerun" && count > 1) stage.report.fail("I1", `${id} took effect ${count} times`);
  if (count > 1) stage.report.reach("a handler ran again under rerun");
}

/** Business code starts only for an attempt that the store has admitted, and, the first time, while it holds. */
function checkStart(stage: Stage, process: Process, { plan, digest }: Asked, { id, fence }: Attempt): void {
  const life = stage.lives.all.get(id);
  if (life === undefined || !life.fences.has(fenceText(fence))) {
    stage.report.fail("I8", `a handler of ${plan.name} starts for an attempt that was not admitted`);
    return;
  }
  if (life.record.fingerprint.digest[0] !== digest) {
    stage.report.fail("I2", `a handler of ${plan.name} starts for the body of another request`);
  }
  // A later attempt reads the journal first, and the lease may end under it.
  if (fence.attempt > 1) return;
  const { record } = life;
  const holds = record.state === "in_progress" && stage.clock.nowMs < record.leaseEndsAt;
  if (!holds || life.owner !== process) {
    stage.report.fail("I8", `a handler of ${plan.name} starts without its lease`);
  }
}
