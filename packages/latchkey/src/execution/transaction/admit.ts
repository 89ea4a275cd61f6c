/** Decides whether a transaction's handler runs, from what its transaction has read. */
import { type AdmissionRequest, decide } from "../../engine/decide.ts";
import { type Guard, sameFence } from "../../engine/record.ts";
import type { NewLife } from "../../stores/life.ts";
import type { Admission } from "../../stores/transactions.ts";
import { traceOf } from "../attempt-span.ts";
import { summarized } from "../summarize.ts";
import type { AdmittedLife, Job, Ran } from "./job.ts";

export type Admitted =
  | { readonly kind: "runs"; readonly admittedLife: AdmittedLife }
  /** The value that the transaction ends with instead. */
  | { readonly kind: "ends"; readonly ran: Ran };

/**
 * @param lifeOf returns the new life, or the next attempt of the `retryable` one; null: the handler was started for another
 * @throws {StoreError} when nothing can be written in this transaction
 */
export async function admit<Tx>(
  job: Job<Tx>,
  { reading, exclusive, refusal }: Admission,
  request: AdmissionRequest,
  lifeOf: (retried: Guard | null, now: number) => NewLife | null,
): Promise<Admitted> {
  const { record, now } = reading;
  const verdict = decide(record, request, now);
  switch (verdict.kind) {
    case "answer":
      return ends({ kind: "decided", decision: verdict.decision, now });
    case "give_up":
      return ends({ kind: "dead_lease", guard: verdict.guard, because: verdict.because });
    case "own":
      return ends(runningElsewhere(verdict.record.id, now));
    case "create":
    case "take_over": {
      // A record to be replaced belongs to another life, perhaps of another principal: its id is not disclosed.
      const runningId = verdict.kind === "create" ? null : verdict.guard.id;
      if (!exclusive) return ends(runningElsewhere(runningId, now));
      if (refusal) throw refusal;
      const refused = verdict.kind === "create" ? await job.countNewKey() : null;
      if (refused !== null) return ends({ kind: "limited", result: refused });
      const replaces = verdict.kind === "create" ? verdict.replaces : verdict.guard;
      if (verdict.kind === "take_over") job.submission.span?.link(record?.trace);
      const begun = lifeOf(verdict.kind === "create" ? null : verdict.guard, now);
      if (begun === null) return ends({ kind: "again" });
      const { runtime, operation, submission } = job;
      const life =
        verdict.kind === "take_over" || submission.summarize === undefined
          ? begun
          : { ...begun, ...(await summarized(runtime, operation, submission, begun.id)) };
      if (verdict.kind === "take_over" && !isSame(job.stepless.guard, verdict.guard)) {
        return ends({ kind: "retried", admittedLife: { life, replaces }, guard: verdict.guard });
      }
      return { kind: "runs", admittedLife: { life, replaces } };
    }
    default:
      return verdict satisfies never;
  }
}

/** A new life, or the next attempt of the `retryable` one. */
export function newLife<Tx>(job: Job<Tx>, retried: Guard | null, token: string, now: number): NewLife {
  const { key, fingerprint, principal } = job.submission;
  return {
    tenant: key.tenant,
    scope: key.scope,
    key: key.key,
    id: retried?.id ?? job.runtime.ports.random.uuid(now),
    operation: job.operation.name,
    fingerprint,
    principal,
    fence: { attempt: (retried?.fence.attempt ?? 0) + 1, token },
    ...(job.submission.span === undefined ? {} : traceOf(job.submission.span)),
  };
}

export function runningElsewhere(recordId: string | null, now: number): Extract<Ran, { kind: "decided" }> {
  const decision = { kind: "in_progress", recordId, createdAt: null, leaseEndsAt: null } as const;
  return { kind: "decided", decision, now };
}

function isSame(left: Guard | null, right: Guard): boolean {
  return left !== null && left.id === right.id && sameFence(left.fence, right.fence);
}

function ends(ran: Ran): Admitted {
  return { kind: "ends", ran };
}
