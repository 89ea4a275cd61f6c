/** What happens next with a record by itself, and what a person may do. */
import type { LatchkeyRecord, UnknownRecord } from "../engine/record.ts";
import type { CallStep, Journal } from "../stores/journal.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { redriveMessageWhen } from "./reasons.ts";
import { timeText } from "./times.ts";

/** One thing that a person may do. */
export interface Choice {
  /** When it is right to do it. */
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
        ? [`Its owner has it until ${time(record.leaseEndsAt)}, and renews that while it lives.`]
        : [
            `Its owner has not renewed its lease, which ended ${time(record.leaseEndsAt)}.`,
            "The next request or the lease-rescuer takes it over, or calls it unknown; the operation's lease end decides.",
          ];
    case "completed":
    case "failed":
      return [
        `Retries get the stored answer until ${time(record.expiresAt)}.`,
        `The key may run as new from ${time(record.forgetAt)}.`,
      ];
    case "retryable":
      if (record.lastErrorCode === "awaits-delivery") {
        return ["The effect that it waits for gives its answer once it is delivered; see its effects."];
      }
      return [
        "The next request with this key goes on after the last finished step; a worker may be earlier.",
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
    : [
        locked,
        `The outcome-reconciler looks at it ${time(reconcileAfter)}, where one runs for this operation.`,
      ];
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
      when: "If it is to stay undone: retries get this answer, and nothing more runs",
      action: { kind: "settle", outcome: "failed" },
    },
  ] as const;
  if (call === null) return [notExecuted, ...finished];
  const { name, downstreamKey } = call;
  return [
    {
      when: `If the other side has the call under ${downstreamKey}: with its result the rest then runs`,
      action: { kind: "settle", outcome: "call", call: name, downstreamKey },
    },
    notExecuted,
    {
      when: "If the other side has closed the call, so that it can never happen: it is made again under a new key",
      action: { kind: "settle", outcome: "not-executed", proof: "closed-downstream", downstreamKey },
    },
    ...finished,
  ];
}

/** Settled so, a record whose steps do not fit would be unknown again at once. */
const misfits: readonly (string | null)[] = ["version-changed", "steps-changed"];

function whenNotExecuted({ lastErrorCode }: UnknownRecord, call: CallStep | null): string {
  const what = call === null ? "it" : `the call ${call.name}`;
  const running = misfits.includes(lastErrorCode) ? ", and the code that began its steps runs again" : "";
  return `If ${what} did not happen and no longer can${running}: it goes on after the last finished step`;
}

/** Empty unless it is dead. */
export function deadEffectChoices(effect: OutboxEffect): readonly Choice[] {
  if (effect.state !== "dead") return [];
  const redrive: Choice = { when: whenRedriven(effect), action: { kind: "redrive", doubt: "kept" } };
  const never: Choice = {
    when: `If the other side has nothing under ${effect.downstreamKey} and never will: it is sent as if it never had been`,
    action: { kind: "redrive", doubt: "cleared" },
  };
  const discard: Choice = {
    when: "If it happened, or shall never happen: it is not sent any more",
    action: { kind: "discard" },
  };
  const doubtful = effect.doubtfulSince !== null && effect.result === null;
  if (effect.lastErrorCode === "closed-downstream") return [discard];
  const mayBeCleared = doubtful && effect.lastErrorCode !== "result-not-stored";
  return [redrive, ...(mayBeCleared ? [never] : []), discard];
}

function whenRedriven({ doubtfulSince, result, lastErrorCode }: OutboxEffect): string {
  if (result !== null) return "If what `onDelivered` needs is mended: it runs again, and nothing is sent";
  if (doubtfulSince === null) return "If what made it fail is mended: it is sent again, under the same key";
  return lastErrorCode === "call-in-doubt"
    ? "If its effect's definition can find out by now: the doubt stays, and is decided by it"
    : "If what made it fail is mended: it goes on, and what is in doubt stays so";
}

/** @param reason why the message is dead */
export function deadMessageChoices(reason: string): readonly Choice[] {
  const when = redriveMessageWhen(reason);
  const redrive = when === null ? [] : [{ when, action: { kind: "redrive", doubt: "kept" } } as const];
  return [
    ...redrive,
    { when: "If it happened, or shall never happen: its letter is removed", action: { kind: "discard" } },
  ];
}
