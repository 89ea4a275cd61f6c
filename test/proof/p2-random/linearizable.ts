/**
 * Whether what the clients of one key were told can be put in one order, each answer somewhere between its question and
 * itself, so that a sequential key would have said the same (Wing and Gong 1993). What a client was not told, because of a
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
const telling: ReadonlySet<string> = new Set([
  "executed",
  "replay",
  "timeout",
  "in_progress",
  "accepted",
  "unknown",
  "expired",
  "key_misuse",
]);

/** Null: they can. Otherwise what was told, in the order of its beginning. */
export function notLinearizable(history: readonly Asked[], lives: Lives): string | null {
  const told = history.flatMap((asked): readonly Observation[] =>
    asked.said !== null && asked.ended !== null && telling.has(asked.said.kind)
      ? [{ asked, ended: asked.ended }]
      : [],
  );
  if (told.length === 0 || canFollow(told, history, lives, 0, null, new Set())) return null;
  return told.map(({ asked, ended }) => `[${asked.begun}-${ended}] ${saidText(asked)}`).join(", ");
}

/** @param done bit set of those that are in order already; `life`: whose answer the key gives now, by its id */
function canFollow(
  told: readonly Observation[],
  history: readonly Asked[],
  lives: Lives,
  done: number,
  life: string | null,
  dead: Set<string>,
): boolean {
  if (done === 2 ** told.length - 1) return true;
  const state = `${done} ${life}`;
  if (dead.has(state)) return false;
  // Nothing may come after what ended before it began.
  const firstEnd = Math.min(
    ...told.map(({ ended }, at) => (isIn(done, at) ? Number.POSITIVE_INFINITY : ended)),
  );
  for (const [at, { asked }] of told.entries()) {
    if (isIn(done, at) || asked.begun > firstEnd) continue;
    const next = after(asked, history, lives, life);
    if (next !== false && canFollow(told, history, lives, done + 2 ** at, next, dead)) return true;
  }
  dead.add(state);
  return false;
}

function isIn(done: number, at: number): boolean {
  return Math.floor(done / 2 ** at) % 2 === 1;
}

/** The life whose answer the key gives after this; false: a sequential key could not have said it. */
function after(
  asked: Asked,
  history: readonly Asked[],
  lives: Lives,
  current: string | null,
): string | null | false {
  const { said } = asked;
  const there = current === null ? null : (lives.get(current) ?? null);
  switch (said?.kind) {
    case "executed":
      if (current === said.recordId || !mayBeginAnew(there, asked)) return false;
      return said.stored ? said.recordId : current;
    case "replay":
    case "timeout": {
      if (!isWithin(lives.get(said.recordId), asked)) return false;
      return current === said.recordId || mayBeginAnew(there, asked) ? said.recordId : false;
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

/** No answer was there yet, or its time was over before this was told. */
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

function differs({ said, principal, plan, digest }: Asked, owner: Owner): boolean {
  switch (said?.kind === "key_misuse" ? said.because : null) {
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

function saidText({ plan, digest, principal, said }: Asked): string {
  const about = said !== null && "recordId" in said ? ` ${said.recordId}` : "";
  return `${plan.name} body ${digest} by ${principal}: ${said?.kind}${about}`;
}
