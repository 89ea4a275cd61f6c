/** Whether the proof of a settlement is true: the other side's own ledger says so. */
import type { LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import type { Step } from "../../../packages/latchkey/src/stores/journal.ts";
import type { AuditEntry } from "../../../packages/latchkey/src/stores/settlement.ts";
import type { Downstream } from "./downstream.ts";
import type { LifeLog } from "./life-log.ts";

/** A record that has left `unknown`. */
export interface Exit {
  readonly life: LifeLog;
  readonly to: LatchkeyRecord["state"];
  /** As they were before. */
  readonly steps: readonly Step[];
}

export function isTrue(downstream: Downstream, { life, steps }: Exit, { proof, event }: AuditEntry): boolean {
  const started = steps.find((step) => step.kind === "call" && step.state === "started");
  const key = started?.kind === "call" ? started.downstreamKey : null;
  const { attempt } = life.record.fence;
  switch (proof) {
    case "no-call-in-doubt":
      return key === null && (life.plan.shape === "steps" || life.plan.execution === "deferred");
    case "downstream-deduplicates":
      return key !== null && life.plan.kind === "provider";
    case "closed-downstream":
      return key === null
        ? downstream.isClosedThrough(life.id, attempt) && downstream.directOf(life.id).length === 0
        : downstream.isClosed(key) && downstream.find(key) === null;
    case "found-downstream":
      return key === null ? downstream.directOf(life.id).length > 0 : downstream.find(key) !== null;
    case "owner":
      return event === "settle_call" ? key !== null && downstream.find(key) !== null : true;
    case "operator":
      return true;
    default:
      return false;
  }
}
