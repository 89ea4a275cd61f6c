/** The steps of a life: finished ones never change, recovery points only advance, calls keep their key and their input. */
import type { CallStep, Step } from "../../../packages/latchkey/src/stores/journal.ts";
import type { Change } from "./change.ts";
import { isSame } from "./text.ts";

export function judgeSteps(change: Change): string | null {
  const { was, is } = change;
  if (was === null || is === null || was.record.id !== is.record.id) return null;
  for (const step of was.life.steps) {
    const now = is.life.steps.find(({ name }) => name === step.name);
    if (now === undefined) return `I10: step ${step.name} has gone`;
    if (isFinished(step) && !isSame(step, now)) return `I10: finished step ${step.name} was changed`;
    const violation = step.kind === "call" && now.kind === "call" ? judgeCall(change, step, now) : null;
    if (violation !== null) return violation;
  }
  return judgeRecoveryPoint(was.life, is.life);
}

interface Life {
  readonly steps: readonly Step[];
  readonly recoveryPoint: string | null;
}

function judgeRecoveryPoint(was: Life, is: Life): string | null {
  if (was.recoveryPoint === is.recoveryPoint) return null;
  const there = is.steps.find(({ name }) => name === is.recoveryPoint);
  if (there === undefined || !isFinished(there))
    return `I10: recovery point ${is.recoveryPoint} is no finished step`;
  const behind = was.steps.find(({ name }) => name === was.recoveryPoint);
  return behind !== undefined && there.position < behind.position
    ? `I10: the recovery point went back from ${behind.name} to ${there.name}`
    : null;
}

function judgeCall({ before, reach }: Change, was: CallStep, is: CallStep): string | null {
  if (!isSame(was.input, is.input)) return `I7: call ${is.name} has another input`;
  const raised = is.generation - was.generation;
  if (raised < 0 || (was.downstreamKey === is.downstreamKey) !== (raised === 0)) {
    return `I7: call ${is.name} of generation ${is.generation} has the key ${is.downstreamKey}`;
  }
  if (raised === 0) return null;
  reach("a closed call got its next generation");
  return before.other.closed.includes(was.downstreamKey)
    ? null
    : `I6: call ${is.name} was reopened without being closed`;
}

function isFinished(step: Step): boolean {
  return step.kind === "phase" || step.state === "finished" || step.state === "refused";
}
