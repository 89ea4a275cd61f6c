/** The states of a record: which edges there are, who may take them and when, and with what proof. */
import type { Fence, LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import type { CallStep } from "../../../packages/latchkey/src/stores/journal.ts";
import type { AuditEntry } from "../../../packages/latchkey/src/stores/settlement.ts";
import type { Change } from "./change.ts";
import { find, isClosedThrough } from "./other-side.ts";
import { isSame } from "./text.ts";

const edges: ReadonlySet<string> = new Set([
  "none>in_progress",
  "none>completed",
  "in_progress>completed",
  "in_progress>failed",
  "in_progress>retryable",
  "in_progress>unknown",
  "in_progress>in_progress",
  "in_progress>none",
  "retryable>in_progress",
  "retryable>completed",
  "retryable>unknown",
  "unknown>completed",
  "unknown>retryable",
  "unknown>failed",
  "unknown>unknown",
]);

export function judgeEdge(change: Change): string | null {
  const { was, is, reach } = change;
  const [before, after] = [was?.record ?? null, is?.record ?? null];
  if (isSame(was, is)) return null;
  const edge = `${before?.state ?? "none"}>${after?.state ?? "none"}`;
  if (!edges.has(edge)) return `I5: no such edge: ${edge} by ${change.ask.port}`;
  if (before === null) return after === null ? null : judgeBeginning(change, after);
  if (after === null) return judgeRelease(change, before);
  if (before.id !== after.id) return `I5: ${edge} replaced the life of ${before.id}`;
  if (!isSame(before.fingerprint, after.fingerprint)) return `I2: ${edge} changed the fingerprint`;
  if (edge === "in_progress>unknown") reach("a record became unknown");
  if (edge === "in_progress>retryable") reach("a record became retryable");
  return judgeFence(change, before, after) ?? judgeExit(change, before, after);
}

function judgeBeginning({ plan }: Change, { state, fence, id }: LatchkeyRecord): string | null {
  if (fence.attempt !== 1) return `I13: ${id} begins with attempt ${fence.attempt}`;
  const expected = plan.shape === "transaction" || plan.shape === "enqueue" ? "completed" : "in_progress";
  return state === expected ? null : `I5: ${id} begins as ${state}`;
}

/** A key that is free runs as new: nothing of it may have happened. */
function judgeRelease({ was, before, plan }: Change, { id }: LatchkeyRecord): string | null {
  if (was !== null && was.life.steps.length > 0) return `I10: ${id} is released with steps recorded`;
  if (before.tables.length > 0) return `I1: ${id} is released although it has committed rows`;
  const isHarmless = plan.leaseEnd === "rerun" || before.other.direct.length === 0;
  return isHarmless ? null : `I1: ${id} is released although it took effect`;
}

function judgeFence(change: Change, before: LatchkeyRecord, after: LatchkeyRecord): string | null {
  const { ask, plan, before: shared, reach } = change;
  const raised = after.fence.attempt - before.fence.attempt;
  const begins = before.state === "retryable" || (before.state === "in_progress" && ask.port === "takeOver");
  if (raised !== (begins ? 1 : 0)) return `I13: ${ask.port} raised the attempt of ${after.id} by ${raised}`;
  if (ask.port === "journal.refence") reach("an owner took a new token");
  if (before.state === "retryable" && begins) reach("a retryable record went on");
  if (before.state !== "in_progress") return null;
  const lease = shared.now < before.leaseEndsAt;
  if (ask.port === "takeOver") {
    reach("a takeover happened");
    if (lease) return `I4: ${after.id} is taken over before its lease ended`;
    if (plan.leaseEnd === "reconcile") return `I6: ${after.id} is taken over under reconcile`;
  }
  if (ask.port === "giveUp") {
    reach("a dead attempt was given up");
    if (lease) return `I4: ${after.id} is given up before its lease ended`;
  }
  return null;
}

/** What was unknown is not any more. */
function judgeExit(change: Change, before: LatchkeyRecord, after: LatchkeyRecord): string | null {
  if (before.state !== "unknown" || after.state === "unknown") return null;
  const { reach, was, is, plan } = change;
  reach(`unknown settled to ${after.state}`);
  const entry = change.after.audit[change.before.audit.length];
  if (entry === undefined) return `I6: ${after.id} is settled without an audit row`;
  reach(`settled: ${entry.event}, ${entry.proof}`);
  if (!isTrue(change, entry))
    return `I6: ${after.id} is settled by ${entry.event}: its proof ${entry.proof} is not true`;
  const left = is?.life.steps.some((step) => step.kind === "call" && step.state === "started") ?? false;
  if (left && after.state === "retryable" && plan.kind !== "provider")
    return `I6: ${was?.record.id} goes on with a call in doubt`;
  return null;
}

/** Whether what the proof says is so, by the other side's own ledger. */
function isTrue({ was, before, plan }: Change, { proof, event }: AuditEntry): boolean {
  if (was === null) return false;
  const { other } = before;
  const started = was.life.steps.find(
    (step): step is CallStep => step.kind === "call" && step.state === "started",
  );
  const key = started?.downstreamKey ?? null;
  const { id, fence } = was.record;
  const tookEffect = other.direct.some(({ life }) => life === id);
  switch (proof) {
    case "no-call-in-doubt":
      return key === null && plan.shape === "steps";
    case "downstream-deduplicates":
      return key !== null && plan.kind === "provider";
    case "closed-downstream":
      if (key !== null) return other.closed.includes(key) && find(other, key) === null;
      return !tookEffect && isClosedThrough(other, { life: id, attempt: fence.attempt });
    case "found-downstream":
      return key === null ? tookEffect : find(other, key) !== null;
    case "owner":
      return event !== "settle_call" || (key !== null && find(other, key) !== null);
    default:
      return false;
  }
}

/** Whether a write under this fence may pass. */
export function isAllowed(record: LatchkeyRecord | null, id: string, fence: Fence): boolean {
  return record?.state === "in_progress" && record.id === id && isSame(record.fence, fence);
}
