/** The outbox: an effect is there exactly with its transaction, and is delivered when the other side knows of it. */
import type { EffectRow } from "../../../packages/latchkey/src/stores/memory/effects.ts";
import type { Change } from "./change.ts";
import { isOrder } from "./operations.ts";
import { find } from "./other-side.ts";
import { isSame } from "./text.ts";

const edges: ReadonlySet<string> = new Set([
  "pending>claimed",
  // A claim that is the start, too.
  "pending>started",
  "claimed>started",
  "claimed>pending",
  "claimed>delivered",
  "claimed>dead",
  "started>pending",
  "started>delivered",
  "started>dead",
]);

export function judgeEffects(change: Change): string | null {
  const { before, after } = change;
  for (const was of before.effects) {
    const is = after.effects.find(({ effect }) => effect.id === was.effect.id);
    if (is === undefined) return `I12: effect ${was.effect.id} was removed`;
    const violation = isSame(was, is) ? null : judgeEffect(change, was, is);
    if (violation !== null) return violation;
  }
  return judgeFresh(change);
}

/** What is enqueued and what its transaction has committed belong together. */
function judgeFresh({ before, after, reach }: Change): string | null {
  const fresh = after.effects.slice(before.effects.length).map(({ effect }) => effect.id);
  const rows = after.tables.slice(before.tables.length).map(({ row }) => row);
  const enqueued = rows.flatMap((row) => (isOrder(row) ? row.enqueued : []));
  if (fresh.length > 0) reach("an effect was enqueued");
  for (const id of fresh)
    if (!enqueued.includes(id)) return `I9: effect ${id} is there without the transaction that enqueued it`;
  for (const id of enqueued)
    if (!fresh.includes(id)) return `I9: effect ${id} is not there, and its transaction has committed`;
  return null;
}

function judgeEffect(
  { after, before, reach, ask, plan }: Change,
  { effect: was, leaseEndsAt }: EffectRow,
  row: EffectRow,
): string | null {
  const { effect: is } = row;
  const edge = `${was.state}>${is.state}`;
  if (was.state !== is.state && !edges.has(edge)) return `I5: effect ${is.id}: no such edge: ${edge}`;
  if (was.state === "delivered" || was.state === "dead")
    return `I5: effect ${is.id} changed although it was ${was.state}`;
  if (!isSame(was.input, is.input)) return `I7: effect ${is.id} has another input`;
  if ((was.downstreamKey === is.downstreamKey) !== (was.generation === is.generation))
    return `I7: effect ${is.id} has another key`;
  if (was.generation !== is.generation && !before.other.closed.includes(was.downstreamKey)) {
    return `I6: effect ${is.id} was reopened without being closed`;
  }
  if (was.state === "pending" && is.state !== "pending") {
    const isNew = is.fence.attempt === was.fence.attempt + 1 && is.fence.token !== was.fence.token;
    if (!isNew) return `I13: effect ${is.id} is claimed under fence ${is.fence.attempt} ${is.fence.token}`;
  }
  if (ask.port === "outbox.rescue") {
    reach("a claim was rescued");
    if (before.now < (leaseEndsAt ?? 0)) return `I4: the claim on ${is.id} is rescued while its lease runs`;
  }
  if (is.state === "started" && was.state !== "started" && is.sends > 1) reach("redelivery happened");
  if (is.state === "dead") reach("a dead letter");
  if (is.state !== "delivered") return null;
  reach("a delivery");
  return find(after.other, is.downstreamKey) === null
    ? `I9: effect ${is.id} is delivered, and the other side knows nothing of it (${plan.kind})`
    : null;
}
