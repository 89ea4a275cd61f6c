/** What happens next with a record without an operator, and what an operator may do. */
import type { LatchkeyRecord, UnknownRecord } from "../engine/record.ts";
import type { CallStep, Journal } from "../stores/journal.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { redriveMessageWhen } from "./reasons.ts";
import { timeText } from "./times.ts";

/** One action that an operator may take. */
export interface Choice {
  /** When the action is right. */
  readonly when: string;
  readonly action: Action;
}

export type Action =
  | {
      readonly kind: "settle";
      readonly outcome: "call";
      readonly call: string;
      readonly downstreamKey: string;
    }
  | { readonly kind: "settle"; readonly outcome: "not-executed"; readonly proof: "operator" }
  | {
      readonly kind: "settle";
      readonly outcome: "not-executed";
      readonly proof: "closed-downstream";
      readonly downstreamKey: string;
    }
  | { readonly kind: "settle"; readonly outcome: "completed" | "failed" }
  /** `cleared`: no earlier send has happened or ever will. */
  | { readonly kind: "redrive"; readonly doubt: "kept" | "cleared" }
  | { readonly kind: "discard" };

export function whatHappensNext(record: LatchkeyRecord, now: number): readonly string[] {
  const time = (epochMs: number) => timeText(epochMs, now);
  switch (record.state) {
    case "pending":
      return [`A worker runs it. After ${time(record.expiresAt)} it fails with 408.`];
    case "in_progress":
      return record.leaseEndsAt > now
        ? [`Its owner holds it until ${time(record.leaseEndsAt)}, and renews that lease while it lives.`]
        : [
            `Its owner has not renewed its lease, which ended ${time(record.leaseEndsAt)}.`,
            "The next request or the lease-rescuer takes it over or marks it unknown, depending on the operation's leaseEnd.",
          ];
    case "completed":
    case "failed":
      return [
        `Retries get the stored answer until ${time(record.expiresAt)}.`,
        `The key may run as new from ${time(record.forgetAt)}.`,
      ];
    case "retryable":
      if (record.lastErrorCode === "awaits-delivery") {
        return ["It waits for an effect, whose delivery gives its answer; see its effects."];
      }
      return [
        "The next request with this key continues it after the last finished step, unless a worker does so first.",
      ];
    case "unknown":
      return unknownNext(record, time);
    case "expired":
      return [`Its answer is gone. The key may run as new from ${time(record.forgetAt)}.`];
    default:
      return record satisfies never;
  }
}

function unknownNext({ reconcileAfter }: UnknownRecord, time: (epochMs: number) => string) {
  const locked = "Retries with this key are refused (409 outcome-unknown) until it is settled.";
  return reconcileAfter === null
    ? [locked, "Nothing automatic is left: it waits for a person."]
    : [locked, `The outcome-reconciler looks it up ${time(reconcileAfter)}, if one runs for this operation.`];
}

/** The call whose outcome is in doubt. Steps run one after the other, so there is at most one. */
export function callInDoubt(journal: Journal | null): CallStep | null {
  for (const step of journal?.steps ?? []) {
    if (step.kind === "call" && step.state === "started") return step;
  }
  return null;
}

/** Empty unless the record is unknown. */
export function whatAPersonMayDo(record: LatchkeyRecord, journal: Journal | null): readonly Choice[] {
  if (record.state !== "unknown") return [];
  const call = callInDoubt(journal);
  const notExecuted = {
    when: whenNotExecuted(record, call),
    action: { kind: "settle", outcome: "not-executed", proof: "operator" },
  } as const;
  const finished = [
    {
      when: "If all of it happened: retries get this answer, and nothing more runs",
      action: { kind: "settle", outcome: "completed" },
    },
    {
      when: "If it did not happen and shall not run again: retries get this answer, and nothing more runs",
      action: { kind: "settle", outcome: "failed" },
    },
  ] as const;
  if (call === null) return [notExecuted, ...finished];
  const { name, downstreamKey } = call;
  return [
    {
      when: `If the other service has the call under ${downstreamKey}: the call gets its result, and the rest runs`,
      action: { kind: "settle", outcome: "call", call: name, downstreamKey },
    },
    notExecuted,
    {
      when: "If the other service has closed the call, so that it can never happen: it is sent again under a new key",
      action: { kind: "settle", outcome: "not-executed", proof: "closed-downstream", downstreamKey },
    },
    ...finished,
  ];
}

/** With these codes the steps do not fit the code, so a record settled as not executed would become unknown again at once. */
const misfits: readonly (string | null)[] = ["version-changed", "steps-changed"];

function whenNotExecuted({ lastErrorCode }: UnknownRecord, call: CallStep | null): string {
  const what = call === null ? "it" : `the call ${call.name}`;
  const running = misfits.includes(lastErrorCode) ? ", and the code that began its steps runs again" : "";
  return `If ${what} did not happen and no longer can${running}: it continues after the last finished step`;
}

/** Empty unless the effect is dead. */
export function deadEffectChoices(effect: OutboxEffect): readonly Choice[] {
  if (effect.state !== "dead") return [];
  const redrive: Choice = { when: whenRedriven(effect), action: { kind: "redrive", doubt: "kept" } };
  const never: Choice = {
    when: `If the other service has nothing under ${effect.downstreamKey} and never will: it is sent as if for the first time`,
    action: { kind: "redrive", doubt: "cleared" },
  };
  const discard: Choice = {
    when: "If it happened, or must never happen: it is not sent again",
    action: { kind: "discard" },
  };
  const doubtful = effect.doubtfulSince !== null && effect.result === null;
  if (effect.lastErrorCode === "closed-downstream") return [discard];
  const mayBeCleared = doubtful && effect.lastErrorCode !== "result-not-stored";
  return [redrive, ...(mayBeCleared ? [never] : []), discard];
}

function whenRedriven({ doubtfulSince, result, lastErrorCode }: OutboxEffect): string {
  if (result !== null)
    return "If the cause of `onDelivered`'s failure is fixed: it runs again, and nothing is sent";
  if (doubtfulSince === null)
    return "If the cause of the failure is fixed: it is sent again under the same key";
  return lastErrorCode === "call-in-doubt"
    ? "If the effect's definition can now find out whether it happened: it then decides"
    : "If the cause of the failure is fixed: it is tried again, and its earlier send stays in doubt";
}

/** @param reason why the message is dead */
export function deadMessageChoices(reason: string): readonly Choice[] {
  const when = redriveMessageWhen(reason);
  const redrive = when === null ? [] : [{ when, action: { kind: "redrive", doubt: "kept" } } as const];
  return [
    ...redrive,
    { when: "If it happened, or must never happen: its dead letter is removed", action: { kind: "discard" } },
  ];
}
