/** The meaning of the error codes of records, effects and dead messages, as text. */
import type { RecordState } from "../engine/record.ts";
import type { MessageDeath } from "../messages/reasons.ts";

/** `inDoubt` is added only while the outcome is unknown: a record that continues keeps its last code. */
interface Reason {
  readonly happened: string;
  readonly inDoubt?: string;
}

const maybeOutside = "Its effects outside the database may have happened.";

const reasons: Readonly<Record<string, Reason>> = {
  "answer-not-encoded": {
    happened: "The handler ran, but its answer could not be stored.",
    inDoubt: maybeOutside,
  },
  "attempt-limit": { happened: "The handler ran longer than its limit.", inDoubt: maybeOutside },
  "attempts-spent": {
    happened: "All its attempts failed, or their processes died or froze.",
    inDoubt: maybeOutside,
  },
  "awaits-delivery": { happened: "It waits for an effect, whose `onDelivered` gives its answer." },
  "call-in-doubt": {
    happened: "A call was sent, and its response never arrived.",
    inDoubt: "If it is sent again, it could happen twice.",
  },
  "closed-downstream": {
    happened: "The other service has closed the call: it did not happen and no longer can.",
  },
  "commit-in-doubt": { happened: "It could not be determined in time whether its last write happened." },
  "dedupe-window-over": {
    happened: "A call was sent, and its response never arrived.",
    inDoubt: "The other service may have forgotten its key: if it is sent again, it could happen twice.",
  },
  "effect-refused": { happened: "The other service refused a call for good." },
  "handler-threw": { happened: "The handler threw.", inDoubt: maybeOutside },
  "journal-unread": { happened: "Its steps could not be read." },
  "lease-ended": { happened: "The process that ran it died or froze.", inDoubt: maybeOutside },
  "looked-up": { happened: "The operation's look-up found that it failed." },
  "not-started": { happened: "The attempt was given back before its work began." },
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
    happened: "Its finished steps differ from those of the code that tried to resume it.",
    inDoubt: "Continuing could repeat or skip one.",
  },
  timeout: { happened: "No worker started it in time." },
  "transaction-changed": {
    happened: "The handler ended Latchkey's transaction itself.",
    inDoubt: "Its writes may have been committed without its record.",
  },
  "version-changed": {
    happened: "Another version of the operation began its steps.",
    inDoubt: "Continuing could repeat or skip one.",
  },
};

/** Null if there is nothing to explain. */
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
    "It has happened, but the operation that waits for its answer had not ended its attempt.",
  "attempts-spent": "It was tried as often as its effect allows, and failed each time.",
  "call-in-doubt": "It was sent, and its response never arrived. If it is sent again, it could happen twice.",
  "commit-in-doubt": "It has happened, but it could not be determined in time whether its end was written.",
  "closed-downstream":
    "The other service has closed it: it did not happen, and its key is refused from now on.",
  "dedupe-window-over":
    "It was sent, its response never arrived, and the other service may have forgotten its key.",
  "effect-refused": "The other service refused it for good.",
  "input-not-readable": "The process that tried to send it could not decode its input.",
  "kills-its-process": "Process after process died while sending it: it may kill the process that sends it.",
  "not-executed": "Its last send failed without having any effect.",
  "not-started": "It was given back before it was sent.",
  "on-delivered-failed": "It has happened, but `onDelivered` failed each time.",
  "result-not-stored": "It has happened, but its result could not be stored.",
  "waits-its-turn":
    "A process died while sending it. Such effects are sent one at a time, to find out which one kills the process.",
  "transaction-changed": "It has happened, but `onDelivered` ended Latchkey's transaction itself.",
};

/** Null if there is nothing to explain. */
export function effectReasonOf(errorCode: string | null): string | null {
  return errorCode !== null && Object.hasOwn(effectReasons, errorCode)
    ? (effectReasons[errorCode] ?? null)
    : null;
}

interface Death {
  readonly text: string;
  /** When a redrive is right. Null: never, because it would die of the same cause. */
  readonly redriveWhen: string | null;
}

const mended = "If the cause of the failure is fixed: it is published again, and runs once";

const deaths: Readonly<Record<MessageDeath, Death>> = {
  "missing-id": {
    text: "The message has no id, so duplicates of it cannot be recognised.",
    redriveWhen: "If `republish` gives it an id: it runs under that id",
  },
  "invalid-id": {
    text: "Its id is too long, cannot be stored, or is the text of a missing value (undefined, null).",
    redriveWhen: null,
  },
  "tenant-missing": {
    text: "Its tenant could not be determined.",
    redriveWhen: "If its tenant can now be determined: it is published again, and runs once",
  },
  undecodable: {
    text: "`decode` could not read it.",
    redriveWhen: "If `decode` can now read it: it is published again, and runs once",
  },
  "key-misuse": {
    text: "A message with the same id and other content has run. That one is untouched.",
    redriveWhen: null,
  },
  refused: { text: "Its handler refused it for good.", redriveWhen: mended },
  failed: { text: "It was tried as often as its inbox allows, and failed each time.", redriveWhen: mended },
  "kills-its-process": {
    text: "Process after process died while running it: it may kill the process that runs it.",
    redriveWhen: "If it no longer kills its process: it is published again, and runs once",
  },
  "outcome-unknown": {
    text: "It could not be determined whether it happened. Its record waits for a person, too: see `latchkey list`.",
    redriveWhen: "Once its record is settled as not executed: it is published again, and runs once",
  },
  timeout: {
    text: "It was accepted, but no worker started it in time.",
    redriveWhen: "Once its record is forgotten and a worker runs: it is published again, and runs once",
  },
};

export function messageReasonOf(reason: string): string | null {
  return Object.hasOwn(deaths, reason) ? deaths[reason as MessageDeath].text : null;
}

/** When a redrive is right for this reason. Null: never. */
export function redriveMessageWhen(reason: string): string | null {
  return Object.hasOwn(deaths, reason) ? deaths[reason as MessageDeath].redriveWhen : mended;
}
