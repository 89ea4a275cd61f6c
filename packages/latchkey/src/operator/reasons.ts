/** What the error codes of records, effects and dead messages mean, in words. */
import type { RecordState } from "../engine/record.ts";
import type { MessageDeath } from "../messages/reasons.ts";

/** `inDoubt` is added while the outcome is unknown: a record that goes on keeps its last code. */
interface Reason {
  readonly happened: string;
  readonly inDoubt?: string;
}

const maybeOutside = "What it had done outside by then may have happened.";

const reasons: Readonly<Record<string, Reason>> = {
  "answer-not-encoded": {
    happened: "The handler ran, but its answer could not be stored.",
    inDoubt: maybeOutside,
  },
  "attempt-limit": { happened: "The handler ran longer than its limit.", inDoubt: maybeOutside },
  "attempts-spent": {
    happened: "Its attempts failed, or their processes died or froze, until all of them were spent.",
    inDoubt: maybeOutside,
  },
  "awaits-delivery": { happened: "It waits for an effect, whose `onDelivered` gives its answer." },
  "call-in-doubt": {
    happened: "A call was sent, and its response never arrived.",
    inDoubt: "Sent again it could happen twice.",
  },
  "closed-downstream": {
    happened: "The other side has closed the call: it did not happen and no longer can.",
  },
  "commit-in-doubt": { happened: "Whether its last write happened could not be found out in time." },
  "dedupe-window-over": {
    happened: "A call was sent, and its response never arrived.",
    inDoubt: "The other side may have forgotten its key by now: sent again it could happen twice.",
  },
  "effect-refused": { happened: "The other side refused a call for good." },
  "handler-threw": { happened: "The handler threw.", inDoubt: maybeOutside },
  "journal-unread": { happened: "Its steps could not be read." },
  "lease-ended": { happened: "The process that ran it died or froze.", inDoubt: maybeOutside },
  "looked-up": { happened: "The operation's look-up found that it has failed." },
  "not-started": { happened: "The attempt was given back before any of its work began." },
  "past-expiry": {
    happened: "The process that ran it died or froze, and the time to resume it is over.",
    inDoubt: maybeOutside,
  },
  "result-not-stored": {
    happened: "A call happened, but its result could not be stored.",
    inDoubt: "Settle the call with its result.",
  },
  "settled-failed": { happened: "It was settled as failed." },
  "steps-changed": {
    happened: "Its finished steps are not those of the code that was to resume it.",
    inDoubt: "Going on could repeat or skip one.",
  },
  timeout: { happened: "No worker began it in time." },
  "transaction-changed": {
    happened: "The handler ended Latchkey's transaction itself.",
    inDoubt: "Its writes may have been committed without its record.",
  },
  "version-changed": {
    happened: "Its steps were begun by another version of the operation.",
    inDoubt: "Going on could repeat or skip one.",
  },
};

/** Null when there is nothing to explain. */
export function reasonOf(errorCode: string | null, state: RecordState): string | null {
  if (errorCode === null) return null;
  const reason = Object.hasOwn(reasons, errorCode) ? reasons[errorCode] : ofStatus(errorCode);
  if (reason === undefined) return null;
  const { happened, inDoubt } = reason;
  return state === "unknown" && inDoubt !== undefined ? `${happened} ${inDoubt}` : happened;
}

function ofStatus(errorCode: string): Reason | undefined {
  const status = /^status-(\d{3})$/u.exec(errorCode)?.[1];
  return status === undefined
    ? undefined
    : { happened: `The handler answered ${status}.`, inDoubt: maybeOutside };
}

const effectReasons: Readonly<Record<string, string>> = {
  "answer-too-early":
    "It has happened, and the operation that waits for its answer had not ended its attempt yet.",
  "attempts-spent": "It was tried as often as its effect allows, and failed each time.",
  "call-in-doubt": "It was sent, and its response never arrived. Sent again it could happen twice.",
  "commit-in-doubt": "It has happened, and whether its end was written could not be found out in time.",
  "closed-downstream":
    "The other side has closed it: it did not happen, and is refused under its key from now on.",
  "dedupe-window-over":
    "It was sent, its response never arrived, and the other side may have forgotten its key by now.",
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
  return errorCode !== null && Object.hasOwn(effectReasons, errorCode)
    ? (effectReasons[errorCode] ?? null)
    : null;
}

interface Death {
  readonly text: string;
  /** When it is right to redrive it. Null: never, it would die of the same again. */
  readonly redriveWhen: string | null;
}

const mended = "If what made it fail is mended: it is published again, and runs once";

const deaths: Readonly<Record<MessageDeath, Death>> = {
  "missing-id": {
    text: "The message has no id, so duplicates of it cannot be recognised.",
    redriveWhen: "If `republish` gives it an id: it runs under that one",
  },
  "invalid-id": {
    text: "Its id is too long, cannot be stored, or stands for none (undefined, null).",
    redriveWhen: null,
  },
  "tenant-missing": {
    text: "Its tenant could not be determined.",
    redriveWhen: "If its tenant can be determined by now: it is published again, and runs once",
  },
  undecodable: {
    text: "It is not what `decode` reads.",
    redriveWhen: "If `decode` reads it by now: it is published again, and runs once",
  },
  "key-misuse": {
    text: "A message of the same id has run that said something else. That one is untouched.",
    redriveWhen: null,
  },
  refused: { text: "Its handler said that it shall never run.", redriveWhen: mended },
  failed: { text: "It was tried as often as its inbox allows, and failed each time.", redriveWhen: mended },
  "kills-its-process": {
    text: "The processes that ran it died, one after the other: it may kill the process that runs it.",
    redriveWhen: "If it kills no more: it is published again, and runs once",
  },
  "outcome-unknown": {
    text: "Whether it has happened could not be found out. Its record waits for a person, too: see `latchkey list`.",
    redriveWhen: "Once its record is settled as not executed: it is published again, and runs once",
  },
  timeout: {
    text: "It was accepted, and no worker took it up in time.",
    redriveWhen: "Once its record is forgotten and a worker runs: it is published again, and runs once",
  },
};

export function messageReasonOf(reason: string): string | null {
  return Object.hasOwn(deaths, reason) ? deaths[reason as MessageDeath].text : null;
}

/** When it is right to redrive what died of this. Null: never. */
export function redriveMessageWhen(reason: string): string | null {
  return Object.hasOwn(deaths, reason) ? deaths[reason as MessageDeath].redriveWhen : mended;
}
