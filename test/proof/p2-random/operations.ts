/** The operations and effects of a schedule, as each process defines them. */

import type { OperationOptions } from "../../../packages/latchkey/src/operations/operation.ts";
import type { LookedUp, LookupQuestion } from "../../../packages/latchkey/src/operations/owned-work.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { foundAnswer } from "./answers.ts";
import {
  chargeName,
  isDirect,
  leaseMs,
  mailName,
  type OperationPlan,
  pendingLimitMs,
  transactionLimitMs,
} from "./config.ts";
import type { Charge, SendInput } from "./downstream.ts";
import type { Process, WorldEffect } from "./process.ts";
import { ask, type ChargeOptions, chargeOptions } from "./sends.ts";
import type { Stage } from "./stage.ts";
import { stepsOf } from "./step-work.ts";

export function defineAll(stage: Stage, process: Process): void {
  for (const plan of stage.config.operations) {
    defineEffects(stage, process, plan);
    const { latchkey } = process;
    const operation = isDirect(plan)
      ? latchkey.operation(plan.name, directOptions(stage, process, plan))
      : latchkey.operation(plan.name, {
          ...optionsOf(plan),
          execution: plan.execution,
          version: "1",
          run: stepsOf(stage, process, plan),
        } as never);
    process.operations.set(plan.name, operation as never);
  }
}

function optionsOf(plan: OperationPlan): OperationOptions {
  const { keyScope, reuse, retentionMs, forgetAfterMs, serverErrors, attemptsMax, attemptLimitMs } = plan;
  const common = { keyScope, reuse, retentionMs, forgetAfterMs, serverErrors };
  const { waitMs, leaseEnd, execution } = plan;
  const leased = execution === "transaction" ? {} : { leaseMs, leaseEnd, attemptsMax, attemptLimitMs };
  const limited = execution === "lease" && isDirect(plan) ? {} : { transactionLimitMs };
  const pending = execution === "deferred" ? { pendingLimitMs } : {};
  return { ...common, ...leased, ...limited, ...pending, waitMs };
}

function directOptions(stage: Stage, process: Process, plan: OperationPlan): OperationOptions<"lease"> {
  const lookup = (question: LookupQuestion) => lookedUp(stage, process, question);
  const asked = plan.shape === "asked" ? { lookup } : {};
  return { ...optionsOf(plan), execution: plan.execution as "lease", ...asked };
}

/** The other side knows what a route's handler did there, and can see to it that it does no more. */
function lookedUp(stage: Stage, process: Process, { recordId }: LookupQuestion): Promise<LookedUp> {
  return ask(stage, process, "look-up of the operation", () => {
    const charge = stage.downstream.directOf(recordId)[0];
    if (charge !== undefined) return { kind: "completed", answer: foundAnswer(charge.nonce) };
    const life = stage.lives.all.get(recordId);
    stage.downstream.closeThrough(recordId, life?.record.fence.attempt ?? 0);
    return { kind: "not_executed", proof: "closed-downstream" };
  });
}

function defineEffects(stage: Stage, process: Process, plan: OperationPlan): void {
  const { kind, shape, enqueues, ordered } = plan;
  const define = (name: string, options: () => ChargeOptions) => {
    if (process.effects.has(name)) return;
    const effect = process.latchkey.effect<SendInput, Charge>(name, options());
    process.effects.set(name, effect as WorldEffect);
  };
  if (shape === "steps" || shape === "deferred") {
    define(chargeName(plan), () => chargeOptions(stage, process, kind));
  }
  if (shape === "enqueue" || shape === "answered" || enqueues) {
    const charging = chargeOptions(stage, process, kind);
    define(mailName(plan), () => ({
      ...charging,
      ...(ordered ? { delivery: { ...charging.delivery, ordered } } : {}),
      ...(shape === "answered" ? { onDelivered: answering(stage) } : {}),
    }));
  }
}

/** Writes a row with the end of the delivery, and answers. */
function answering(stage: Stage): NonNullable<ChargeOptions["onDelivered"]> {
  return async (delivered, tx: MemoryTransaction) => {
    const nonce = stage.nextNonce();
    const { input, result, recordId } = delivered;
    const row = { life: recordId, step: `delivered ${input.place}`, nonce, digest: null, enqueued: [] };
    await tx.insert("deliveries", row);
    delivered.answer({ status: 201, body: { charge: `charge ${result.id}`, answered: `nonce ${nonce}` } });
  };
}
