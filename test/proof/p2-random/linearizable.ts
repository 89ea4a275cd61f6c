/**
 * Whether the replies to the clients of one key can be put in one order, each answer somewhere between its question and
 * itself, so that a sequential key would have given the same (Wing and Gong 1993). What a client did not get, because of a
 * fault, may or may not have happened, and asks for nothing.
 */
import type { Asked } from "./asked.ts";
import type { LifeLog } from "./life-log.ts";

type Lives = ReadonlyMap<string, LifeLog>;

interface Observation {
  readonly asked: Asked;
  readonly ended: number;
}

/** The answers that say something about the key. */
const informative: ReadonlySet<string> = new Set([
  "executed",
  "replay",
  "timeout",
  "in_progress",
  "accepted",
  "unknown",
  "expired",
  "key_misuse",
]);

/** Null: they can. Otherwise the replies, in the order of its beginning. */
export function notLinearizable(history: readonly Asked[], lives: Lives): string | null {
  const replies = history.flatMap((asked): readonly Observation[] =>
    asked.reply !== null && asked.ended !== null && informative.has(asked.reply.kind)
      ? [{ asked, ended: asked.ended }]
      : [],
  );
  if (replies.length === 0 || canFollow(replies, history, lives, 0, null, new Set())) return null;
  return replies.map(({ asked, ended }) => `[${asked.begun}-${ended}] ${replyText(asked)}`).join(", ");
}

/** @param done bit set of those that are in order already; `life`: whose answer the key gives now, by its id */
function canFollow(
  replies: readonly Observation[],
  history: readonly Asked[],
  lives: Lives,
  done: number,
  life: string | null,
  dead: Set<string>,
): boolean {
  if (done === 2 ** replies.length - 1) return true;
  const state = `${done} ${life}`;
  if (dead.has(state)) return false;
  // Nothing may come after what ended before it began.
  const firstEnd = Math.min(
    ...replies.map(({ ended }, at) => (isIn(done, at) ? Number.POSITIVE_INFINITY : ended)),
  );
  for (const [at, { asked }] of replies.entries()) {
    if (isIn(done, at) || asked.begun > firstEnd) continue;
    const next = after(asked, history, lives, life);
    if (next !== false && canFollow(replies, history, lives, done + 2 ** at, next, dead)) return true;
  }
  dead.add(state);
  return false;
}

function isIn(done: number, at: number): boolean {
  return Math.floor(done / 2 ** at) % 2 === 1;
}

/** The life whose answer the key gives after this; false: a sequential key could not have given it. */
function after(
  asked: Asked,
  history: readonly Asked[],
  lives: Lives,
  current: string | null,
): string | null | false {
  const { reply } = asked;
  const there = current === null ? null : (lives.get(current) ?? null);
  switch (reply?.kind) {
    case "executed":
      if (current === reply.recordId || !mayBeginAnew(there, asked)) return false;
      return reply.stored ? reply.recordId : current;
    case "replay":
    case "timeout": {
      if (!isWithin(lives.get(reply.recordId), asked)) return false;
      return current === reply.recordId || mayBeginAnew(there, asked) ? reply.recordId : false;
    }
    case "in_progress":
    case "accepted":
    case "unknown":
      return mayBeginAnew(there, asked) ? current : false;
    case "expired":
      return there !== null && asked.endedMs < (there.finished?.expiresAt ?? 0) ? false : current;
    case "key_misuse":
      return isMisuse(there, asked, history) ? current : false;
    default:
      return current;
  }
}

/** No answer was there yet, or its time was over before this reply. */
function mayBeginAnew(there: LifeLog | null, { plan, endedMs }: Asked): boolean {
  if (there?.finished == null) return true;
  const { expiresAt, forgetAt } = there.finished;
  return endedMs >= (plan.reuse === "execute" ? expiresAt : forgetAt);
}

/** It was asked before the answer's time was over. */
function isWithin(life: LifeLog | undefined, { begunMs }: Asked): boolean {
  return life?.finished != null && begunMs < life.finished.expiresAt;
}

/** Somebody else's request is, or may be, what the key belongs to. */
function isMisuse(there: LifeLog | null, asked: Asked, history: readonly Asked[]): boolean {
  if (there !== null && !mayBeginAnew(there, asked)) return differs(asked, ownerOf(there));
  const ended = asked.ended ?? Number.POSITIVE_INFINITY;
  return history.some((other) => other !== asked && other.begun < ended && differs(asked, ownerAsked(other)));
}

interface Owner {
  readonly principal: string | null;
  readonly operation: string;
  readonly digest: number;
}

function ownerOf({ record, plan }: LifeLog): Owner {
  return { principal: record.principal, operation: plan.name, digest: record.fingerprint.digest[0] ?? -1 };
}

function ownerAsked({ principal, plan, digest }: Asked): Owner {
  return { principal, operation: plan.name, digest };
}

function differs({ reply, principal, plan, digest }: Asked, owner: Owner): boolean {
  switch (reply?.kind === "key_misuse" ? reply.because : null) {
    case "principal":
      return owner.principal !== principal;
    case "operation":
      return owner.operation !== plan.name;
    case "fingerprint":
      return owner.digest !== digest;
    default:
      return false;
  }
}

function replyText({ plan, digest, principal, reply }: Asked): string {
  const about = reply !== null && "recordId" in reply ? ` ${reply.recordId}` : "";
  return `${plan.name} body ${digest} by ${principal}: ${reply?.kind}${about}`;
}
