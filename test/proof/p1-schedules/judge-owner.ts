/** Who may write: an attempt while its fence is the last one, a guard that names what is there, a claim that holds. */
import type { Fence, Fingerprint, Guard, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { Owner } from "../../../packages/latchkey/src/stores/journal.ts";
import type { EffectClaim } from "../../../packages/latchkey/src/stores/outbox.ts";
import { isCommit } from "./ask.ts";
import type { Change } from "./change.ts";
import { isAllowed } from "./judge-edges.ts";
import { isSame } from "./text.ts";

export function judgeOwner(change: Change): string | null {
  const owner = ownerOf(change);
  if (owner !== null) return judgeOwned(change, owner);
  const guard = guardOf(change);
  if (guard !== null) return judgeGuarded(change, guard);
  return judgeClaims(change);
}

/** Whose write it is, where only the owner of a running attempt may make it. */
function ownerOf({ ask: { port, args } }: Change): Owner | null {
  switch (port) {
    case "renew":
    case "end":
      return { key: args[0] as RecordKey, id: args[1] as string, fence: args[2] as Fence };
    case "journal.startCall":
    case "journal.endCall":
    case "journal.refence":
      return args[0] as Owner;
    case "commitPhase":
      return (args[1] as { readonly owner: Owner }).owner;
    default:
      return null;
  }
}

function judgeOwned(change: Change, { id, fence }: Owner): string | null {
  const { ask, was, is, reach, before, after } = change;
  const own =
    ask.port === "journal.refence" ? { attempt: fence.attempt, token: ask.args[1] as string } : fence;
  const record = was?.record ?? null;
  const holds = isAllowed(record, id, fence) || isAllowed(record, id, own);
  if (holds) return null;
  const untouched = isSame(was, is) && before.tables.length === after.tables.length;
  if (!untouched) return `I4: ${ask.port} let a stale owner through (attempt ${fence.attempt})`;
  reach(ask.port === "end" ? "a stale completion was refused" : `a stale ${ask.port} was refused`);
  return null;
}

/** What it was decided on. */
function guardOf({ ask: { port, args } }: Change): { readonly guard: Guard | null } | null {
  switch (port) {
    case "create":
    case "takeOver":
    case "giveUp":
    case "settlement.settle":
    case "settlement.postpone":
      return { guard: args[1] as Guard | null };
    case "commit":
    case "commitEarly":
      return { guard: (args[3] as { readonly replaces: Guard | null }).replaces };
    default:
      return null;
  }
}

function judgeGuarded(change: Change, { guard }: { readonly guard: Guard | null }): string | null {
  const { ask, was, is, reach } = change;
  if (isSame(was, is)) {
    // A COMMIT can also be refused because its transaction was idle for too long.
    const { kind = "lost" } = (change.value ?? {}) as { readonly kind?: string };
    if (!isCommit(ask.port) || kind === "lost") reach(`a lost race: ${ask.port}`);
    return null;
  }
  const record = was?.record ?? null;
  const holds =
    guard === null
      ? record === null
      : record?.id === guard.id && record.state === guard.state && isSame(record.fence, guard.fence);
  if (!holds) return `I5: ${ask.port} wrote over ${record?.state ?? "nothing"}`;
  if (ask.port !== "takeOver" || record === null) return null;
  const fingerprint = ask.args[2] as Fingerprint;
  return isSame(fingerprint, record.fingerprint) ? null : "I2: another body has taken over";
}

/** Writes under a claim change only what is claimed so. */
function judgeClaims({ ask, before, after, reach }: Change): string | null {
  if (ask.port !== "outbox.start" && ask.port !== "outbox.end" && ask.port !== "commitDelivery") return null;
  const claims =
    ask.port === "commitDelivery"
      ? [(ask.args[1] as { readonly claim: EffectClaim }).claim]
      : (ask.args[0] as readonly EffectClaim[]);
  for (const { id, fence } of claims) {
    const was = before.effects.find(({ effect }) => effect.id === id);
    const is = after.effects.find(({ effect }) => effect.id === id);
    const holds = was !== undefined && was.leaseEndsAt !== null && isSame(was.effect.fence, fence);
    if (holds) continue;
    if (!isSame(was, is)) return `I4: ${ask.port} let a stale claim on ${id} through`;
    reach(`a stale ${ask.port} was refused`);
  }
  return null;
}
