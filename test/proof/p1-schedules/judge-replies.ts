/** What clients are told: the truth, and what a sequential key could have said. */
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

/** What says something about the key; who is left in doubt is told nothing. */
const telling: ReadonlySet<string> = new Set([
  "in_progress",
  "unknown",
  "accepted",
  "expired",
  "executed, not stored",
]);

/** How a request ended, and what it had heard until then. */
export interface Hearing {
  readonly outcome: string;
  /** Where its process stood before it heard the last thing. */
  readonly from: Life;
  readonly last: unknown;
}

export function judgeReplies({ rows }: Shared, hearing: Hearing, { body, several }: Listener): string | null {
  const record = rows[0]?.record ?? null;
  const told = replyOf(hearing);
  if (told.kind.startsWith("broken")) return `L1: a client was told ${told.kind}`;
  if (told.kind.startsWith("key misuse")) {
    const owner = record === null ? null : record.fingerprint.digest[0];
    return several && owner !== body
      ? null
      : `I14: a client was told ${told.kind}, and there is ${record?.state ?? "nothing"}`;
  }
  if (told.answer !== null) return judgeAnswer(told, record, body);
  const own = record?.state === "in_progress" && record.fence.token === admissionToken(hearing.from);
  if (own && told.kind === "in_progress") {
    return "L1: a client was told in_progress of its own admission, which nobody runs";
  }
  if (telling.has(told.kind) && hasSeenFinal(hearing))
    return `I14: a client was told ${told.kind} although the answer was there when it asked`;
  return null;
}

function judgeAnswer(
  { kind, id, answer }: RequestEnd,
  record: LatchkeyRecord | null,
  body: number,
): string | null {
  const invariant = kind === "replay" ? "I3" : "I4";
  if (record === null || record.id !== id) return `I8: told an answer of ${id}, of which there is no record`;
  if (!("answer" in record) || record.answer === null)
    return `${invariant}: told ${answer} of ${id}, which is ${record.state}`;
  const stored = storedAnswerText(record.answer);
  if (stored !== answer) return `${invariant}: told ${answer} of ${id}, whose record says ${stored}`;
  return record.fingerprint.digest[0] === body ? null : `I2: told the answer to another body: ${answer}`;
}

/** Nobody is refused, or left in doubt, when nothing has gone wrong. */
export function judgeReason(hearing: Hearing, before: Bound, left: Bound): string | null {
  const isFaulty =
    left.crashes < before.crashes || left.leaseEnds < before.leaseEnds || left.lost < before.lost;
  if (isFaulty) return null;
  const { kind } = replyOf(hearing);
  const isWell = ["executed", "replay", "in_progress"].includes(kind) || kind.startsWith("key misuse");
  return isWell ? null : `L1: a client was told ${kind}, and nothing has gone wrong`;
}

export function replyOf({ outcome }: { readonly outcome: string | null }): RequestEnd {
  if (outcome === null || !outcome.startsWith("{"))
    return { kind: outcome ?? "nothing", id: null, answer: null };
  return JSON.parse(outcome) as RequestEnd;
}

function hasSeenFinal({ from, last }: Hearing): boolean {
  if (isFinal(recordIn(last))) return true;
  for (let at: Life | null = from; at !== null; at = at.parent) {
    if (at.input.kind === "told" && isFinal(recordIn(at.input.value))) return true;
  }
  return false;
}

/** What a look-up has found; null: it was none, or found nothing. */
function recordIn(value: unknown): LatchkeyRecord | null {
  if (typeof value !== "object" || value === null) return null;
  const reading = "reading" in value ? value.reading : value;
  return (reading as { readonly record?: LatchkeyRecord | null } | null)?.record ?? null;
}
