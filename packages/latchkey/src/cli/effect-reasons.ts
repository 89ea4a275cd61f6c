/** Why an effect is dead or waits, in words, and what a person may do about a dead one. */
import type { OutboxEffect } from "../stores/outbox.ts";
import type { Choice } from "./advice.ts";

const reasons: Readonly<Record<string, string>> = {
  "answer-too-early":
    "It has happened, and the operation that waits for its answer had not ended its attempt yet.",
  "attempts-spent": "It was tried as often as its effect allows, and failed each time.",
  "call-in-doubt": "It was sent and nobody heard how that ended. Sent again it could happen twice.",
  "commit-in-doubt": "It has happened, and whether its end was written could not be found out in time.",
  "closed-downstream":
    "The other side has closed it: it did not happen, and is refused under its key from now on.",
  "dedupe-window-over":
    "It was sent, nobody heard how that ended, and the other side may have forgotten its key by now.",
  "effect-refused": "The other side refused it for good.",
  "input-not-readable": "Its input could not be decoded by the process that was to send it.",
  "kills-its-process":
    "Its sends did not come back, one after the other: it may kill the process that sends it.",
  "not-executed": "Its last send failed without having any effect.",
  "not-started": "It was given back before it was sent.",
  "on-delivered-failed": "It has happened, but `onDelivered` failed each time.",
  "result-not-stored": "It has happened, but its result could not be stored.",
  "waits-its-turn":
    "A send of it ended with its process. It is sent when no other such effect is, so that it is seen which of them kills.",
  "transaction-changed": "It has happened, but `onDelivered` ended Latchkey's transaction itself.",
};

/** Null when there is nothing to explain. */
export function effectReasonOf(errorCode: string | null): string | null {
  return errorCode !== null && Object.hasOwn(reasons, errorCode) ? (reasons[errorCode] ?? null) : null;
}

/** Empty unless it is dead. */
export function deadChoices(effect: OutboxEffect): readonly Choice[] {
  if (effect.state !== "dead") return [];
  const signed = `--operator <you> --reason <why> ${effect.id}`;
  const redrive = { when: whenRedriven(effect), command: `latchkey redrive ${signed}` };
  const never = {
    when: `If the other side has nothing under ${effect.downstreamKey} and never will: it is sent as if it never had been`,
    command: `latchkey redrive --never-happened ${signed}`,
  };
  const discard = {
    when: "If it happened, or shall never happen: it is not sent any more",
    command: `latchkey discard ${signed}`,
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
