/** Whether replies to clients are true, and such as a sequential key could have given. */
import type { LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import type { Bound } from "./bound.ts";
import { isFinal } from "./change.ts";
import { admissionToken, type Life } from "./life.ts";
import { type RequestEnd, storedAnswerText } from "./roles.ts";
import type { Shared } from "./shared.ts";

export interface Listener {
  /** Which of the bodies it asked with. */
  readonly body: number;
  /** Whether any other was asked with. */
  readonly several: boolean;
}

/** Replies that state something about the key; a reply that leaves it in doubt does not. */
const informative: ReadonlySet<string> = new Set([
  "in_progress",
  "unknown",
  "accepted",
  "expired",
  "executed, not stored",
]);

/** How a request ended, and the replies that its process had got until then. */
export interface EndedRequest {
  readonly outcome: string;
  /** Where its process stood before it got the last reply. */
  readonly from: Life;
  readonly last: unknown;
}

export function judgeReplies(
  { rows }: Shared,
  ended: EndedRequest,
  { body, several }: Listener,
): string | null {
  const record = rows[0]?.record ?? null;
  const reply = replyOf(ended);
  if (reply.kind.startsWith("broken")) return `L1: a client got ${reply.kind}`;
  if (reply.kind.startsWith("key misuse")) {
    const owner = record === null ? null : record.fingerprint.digest[0];
    return several && owner !== body
      ? null
      : `I14: a client got ${reply.kind}, and there is ${record?.state ?? "nothing"}`;
  }
  if (reply.answer !== null) return judgeAnswer(reply, record, body);
  const own = record?.state === "in_progress" && record.fence.token === admissionToken(ended.from);
  if (own && reply.kind === "in_progress") {
    return "L1: a client got in_progress of its own admission, which nobody runs";
  }
  if (informative.has(reply.kind) && hasSeenFinal(ended))
    return `I14: a client got ${reply.kind} although the answer was there when it asked`;
  return null;
}

function judgeAnswer(
  { kind, id, answer }: RequestEnd,
  record: LatchkeyRecord | null,
  body: number,
): string | null {
  const invariant = kind === "replay" ? "I3" : "I4";
  if (record === null || record.id !== id) return `I8: got an answer of ${id}, of which there is no record`;
  if (!("answer" in record) || record.answer === null)
    return `${invariant}: got ${answer} of ${id}, which is ${record.state}`;
  const stored = storedAnswerText(record.answer);
  if (stored !== answer) return `${invariant}: got ${answer} of ${id}, whose record says ${stored}`;
  return record.fingerprint.digest[0] === body ? null : `I2: got the answer to another body: ${answer}`;
}

/** Nobody is refused, or left in doubt, when nothing has gone wrong. */
export function judgeReason(ended: EndedRequest, before: Bound, left: Bound): string | null {
  const isFaulty =
    left.crashes < before.crashes || left.leaseEnds < before.leaseEnds || left.lost < before.lost;
  if (isFaulty) return null;
  const { kind } = replyOf(ended);
  const isWell = ["executed", "replay", "in_progress"].includes(kind) || kind.startsWith("key misuse");
  return isWell ? null : `L1: a client got ${kind}, and nothing has gone wrong`;
}

export function replyOf({ outcome }: { readonly outcome: string | null }): RequestEnd {
  if (outcome === null || !outcome.startsWith("{"))
    return { kind: outcome ?? "nothing", id: null, answer: null };
  return JSON.parse(outcome) as RequestEnd;
}

function hasSeenFinal({ from, last }: EndedRequest): boolean {
  if (isFinal(recordIn(last))) return true;
  for (let at: Life | null = from; at !== null; at = at.parent) {
    if (at.input.kind === "reply" && isFinal(recordIn(at.input.value))) return true;
  }
  return false;
}

/** What a look-up has found; null: it was none, or found nothing. */
function recordIn(value: unknown): LatchkeyRecord | null {
  if (typeof value !== "object" || value === null) return null;
  const reading = "reading" in value ? value.reading : value;
  return (reading as { readonly record?: LatchkeyRecord | null } | null)?.record ?? null;
}
