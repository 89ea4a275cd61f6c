/** A person settles what nothing automatic can. It knows what has happened, and sees to it that no more does. */
import type { OperatorProof, SettleWith } from "../../../packages/latchkey/src/execution/settle.ts";
import { foundAnswer } from "./answers.ts";
import type { LifeLog } from "./life-log.ts";
import type { World } from "./world.ts";

/** Of a doubt that came up after the last decision there is a new reason: the old one would be taken for the old decision. */
function personAbout({ audit }: World, { id }: LifeLog): OperatorProof {
  const decided = audit.filter(({ recordId }) => recordId === id).length;
  return { operator: "anna", reason: `asked the other side after ${decided} decisions` };
}

export function decideAsPerson(world: World): void {
  const waiting = [...world.lives.current.values()].filter(
    ({ record }) => record.state === "unknown" && record.reconcileAfter === null,
  );
  if (waiting.length > 0) decideAbout(world, world.choices.pick(waiting));
}

export function decideAbout(world: World, life: LifeLog): void {
  const { record, plan } = life;
  const operator = world.operator();
  const target = { tenant: record.tenant, operation: plan.name, key: record.key, recordId: record.id };
  const person = personAbout(world, life);
  const settling = operator.latchkey.settle(target, decisionOf(world, life, person), person).then(
    ({ kind }) => world.report.reach(`a person: ${kind}`),
    (error: unknown) => world.report.fail("L3", `settling ${life.id} threw ${String(error)}`),
  );
  world.track(operator, `settling of ${life.id}`, settling);
}

function decisionOf({ downstream }: World, life: LifeLog, person: OperatorProof): SettleWith {
  const started = life.steps.find((step) => step.kind === "call" && step.state === "started");
  if (started?.kind === "call") {
    const closed = downstream.close(started.downstreamKey);
    return "happened" in closed
      ? { call: started.name, result: closed.happened }
      : { notExecuted: "closed-downstream", downstreamKey: started.downstreamKey };
  }
  const charge = downstream.directOf(life.id)[0];
  if (charge !== undefined) return { completed: foundAnswer(charge.nonce) };
  downstream.closeThrough(life.id, life.record.fence.attempt);
  return { notExecuted: person };
}
