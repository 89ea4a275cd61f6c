/** What happens next with a record by itself, and what a person may do. */
import type { LatchkeyRecord, UnknownRecord } from "../engine/record.ts";
import type { CallStep, Journal } from "../stores/journal.ts";
import { shellName, shellWord, timeText } from "./text.ts";

/** One thing that a person may do. */
export interface Choice {
  /** When it is right to do it. */
  readonly when: string;
  readonly command: string;
}

export function whatHappensNext(record: LatchkeyRecord, now: number): readonly string[] {
  const time = (epochMs: number) => timeText(epochMs, now);
  switch (record.state) {
    case "pending":
      return [`A worker runs it. After ${time(record.expiresAt)} it fails with 408.`];
    case "in_progress":
      return record.leaseEndsAt > now
        ? [`Its owner has it until ${time(record.leaseEndsAt)}, and renews that while it lives.`]
        : [
            `Its owner has not been heard of: the lease ended ${time(record.leaseEndsAt)}.`,
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
  const settle = (outcome: string, when: string): Choice => ({
    when,
    command: `latchkey settle ${outcome} --operator <you> --reason <why> ${shellName(record)}`,
  });
  const call = callInDoubt(journal);
  const happened =
    call === null
      ? []
      : [
          settle(
            `--call ${shellWord(call.name)} --result '<json>'`,
            `If the other side has the call under ${call.downstreamKey}: with its result the rest then runs`,
          ),
        ];
  const closed =
    call === null
      ? []
      : [
          settle(
            `--not-executed --proof closed-downstream --downstream-key ${shellWord(call.downstreamKey)}`,
            "If the other side has closed the call, so that it can never happen: it is made again under a new key",
          ),
        ];
  return [
    ...happened,
    settle("--not-executed", whenNotExecuted(record, call)),
    ...closed,
    settle(
      `--completed '{"status":201,"body":{}}'`,
      "If all of it happened: retries get this answer, and nothing more runs",
    ),
    settle(
      `--failed '{"status":502,"body":{}}'`,
      "If it is to stay undone: retries get this answer, and nothing more runs",
    ),
  ];
}

/** Settled so, a record whose steps do not fit would be unknown again at once. */
const misfits: readonly (string | null)[] = ["version-changed", "steps-changed"];

function whenNotExecuted({ lastErrorCode }: UnknownRecord, call: CallStep | null): string {
  const what = call === null ? "it" : `the call ${call.name}`;
  const running = misfits.includes(lastErrorCode) ? ", and the code that began its steps runs again" : "";
  return `If ${what} did not happen and no longer can${running}: it goes on after the last finished step`;
}
