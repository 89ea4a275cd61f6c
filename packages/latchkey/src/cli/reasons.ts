/** What a record's last error code means, in words. */
import type { RecordState } from "../engine/record.ts";

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
    happened: "A call was sent and nobody heard how it ended.",
    inDoubt: "Sent again it could happen twice.",
  },
  "closed-downstream": {
    happened: "The other side has closed the call: it did not happen and no longer can.",
  },
  "commit-in-doubt": { happened: "Whether its last write happened could not be found out in time." },
  "dedupe-window-over": {
    happened: "A call was sent and nobody heard how it ended.",
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
