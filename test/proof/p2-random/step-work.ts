/** What operations do that own their work: phase, call, phase; or a phase and a delivery that gives the answer. */

import { isLatchkeyError } from "../../../packages/latchkey/src/errors.ts";
import type { DeferredAttempt, RunAnswer } from "../../../packages/latchkey/src/operations/owned-work.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { WorldError } from "./asked.ts";
import { chargeName, enqueueOptions, mailName, type OperationPlan, type StepsInput } from "./config.ts";
import { nonceOf } from "./life-log.ts";
import type { Process } from "./process.ts";
import type { Stage } from "./stage.ts";

type StepsAttempt = DeferredAttempt<MemoryTransaction>;
type Run = (input: StepsInput, attempt: StepsAttempt) => Promise<RunAnswer>;

const behaviours = 12;

export function stepsOf(stage: Stage, process: Process, plan: OperationPlan): Run {
  return noMistake(stage, async (input, attempt) => {
    const life = stage.lives.all.get(attempt.id);
    if (life === undefined) stage.report.fail("I8", "run starts for a life that was never begun");
    if (life?.record.fingerprint.digest[0] !== input.digest) {
      stage.report.fail("I2", `run of ${plan.name} starts with the input of another request`);
    }
    const phase = (step: string, enqueues: boolean) =>
      phaseWork(stage, process, plan, attempt, input, step, enqueues);
    const first = await attempt.phase("first", phase("first", plan.enqueues || plan.shape === "answered"));
    if (plan.shape === "answered") return attempt.answeredBy(process.effect(mailName(plan)));
    const sending = { life: attempt.id, place: "charged", by: attempt.fence.attempt };
    const { id } = await attempt.call("charged", process.effect(chargeName(plan)), sending);
    const answer = (last: number): RunAnswer => ({
      status: 201,
      body: { first: `row ${first}`, charge: `charge ${id}`, last: `nonce ${last}` },
    });
    if (plan.finishes) {
      const last = phase("last", false);
      return attempt.finish("last", async (tx) => answer(await last(tx)));
    }
    return answer(await attempt.phase("last", phase("last", false)));
  });
}

/** A step throws what the world does, or what the library says that it throws. */
function noMistake(stage: Stage, run: Run): Run {
  return async (input, attempt) => {
    try {
      return await run(input, attempt);
    } catch (error) {
      const known = error instanceof WorldError || isLatchkeyError(error);
      if (!known) stage.report.fail("L1", `a step threw ${String(error)}`);
      throw error;
    }
  };
}

/** The work of one phase. Its result is the number of the row that it has inserted. */
function phaseWork(
  stage: Stage,
  process: Process,
  plan: OperationPlan,
  attempt: StepsAttempt,
  { digest }: StepsInput,
  step: string,
  enqueues: boolean,
): (tx: MemoryTransaction) => Promise<number> {
  return async (tx) => {
    const life = stage.lives.all.get(attempt.id);
    const tenant = life?.record.tenant ?? "";
    const finishedBy = life?.finishedBy.get(step);
    if (finishedBy !== undefined && attempt.fence.attempt > finishedBy.attempt) {
      stage.report.fail(
        "I10",
        `phase ${step} of ${attempt.id} runs again after attempt ${finishedBy.attempt}`,
      );
    }
    const nonce = stage.nextNonce();
    await stage.point(process, `phase ${step}`, tenant);
    const act = stage.behaviour(process, tenant, behaviours);
    if (act === 1) throw new WorldError(`in phase ${step}`);
    const input = { life: attempt.id, place: `mail ${nonce}`, by: nonce };
    const enqueue = () => attempt.enqueue(process.effect(mailName(plan)), input, enqueueOptions(plan)).id;
    const enqueued = enqueues ? [enqueue()] : [];
    await tx.insert("orders", { life: attempt.id, step, nonce, digest, enqueued });
    if (act === 3) throw new WorldError(`in phase ${step}, after its writes`);
    if (act === 5) await stage.point(process, `phase ${step} before its end`, tenant);
    return nonce;
  };
}

/** What a completed record of steps says must be what has happened. */
export function checkStepsAnswer(stage: Stage, life: string, answer: string): void {
  const row = Number(/row (\d+)/.exec(answer)?.[1]);
  const charge = Number(/charge (\d+)/.exec(answer)?.[1]);
  const last = nonceOf(answer) ?? Number.NaN;
  const { effects, downstream, report } = stage;
  const [first, end] = [effects.committed(row), effects.committed(last)];
  if (first?.life !== life || first.step !== "first") report.fail("I10", `${life} answers with row ${row}`);
  if (end?.life !== life || end.step !== "last") report.fail("I10", `${life} answers with last row ${last}`);
  if (downstream.countAt(life, "charged") !== 1 || !downstream.wasCharged(life, charge)) {
    report.fail("I7", `${life} answers with charge ${charge}`);
  }
}
