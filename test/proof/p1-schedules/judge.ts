/** What must hold after every single step: the invariants on what it has changed. Written from the protocol's tables. */
import { type Change, isTransactional, type Judge, ordersOf } from "./change.ts";
import { judgeEdge } from "./judge-edges.ts";
import { judgeEffects } from "./judge-effects.ts";
import { judgeOwner } from "./judge-owner.ts";
import { judgeSteps } from "./judge-steps.ts";
import type { Plan } from "./operations.ts";

export function judgeOf(plan: Plan): Judge {
  return (before, ask, done) => {
    const after = done.shared;
    const reached = [...done.reached];
    if (done.violation !== null) return { violation: done.violation, reached };
    const [was, is] = [before.rows[0] ?? null, after.rows[0] ?? null];
    const reach = (what: string) => void reached.push(what);
    const change = { plan, ask, before, after, was, is, value: done.value, reach };
    const violation =
      judgeAdmission(change) ??
      judgeOwner(change) ??
      judgeEdge(change) ??
      judgeSteps(change) ??
      judgeEffects(change) ??
      judgeOrders(change) ??
      judgeEnd(change);
    return { violation, reached };
  };
}

/** Whoever found its key held by somebody else commits nothing, however its handler was started. */
function judgeAdmission({ ask: { port, args }, before, was, value, reach }: Change): string | null {
  if (port === "openEarly") {
    const { exclusive } = value as { readonly exclusive: boolean };
    if (!exclusive || was !== null) reach("a handler was started and not admitted");
  }
  if (port !== "commit" && port !== "commitEarly") return null;
  const open = before.open.find(({ id }) => id === args[0]);
  return open?.exclusive === false ? `I4: ${port} by one that did not get the key` : null;
}

/** The business rows: once for each place of a life, with their record or step, for its own body. */
function judgeOrders({ before, after, is, plan }: Change): string | null {
  const fresh = ordersOf(after).slice(ordersOf(before).length);
  for (const { life, step, body } of fresh) {
    const place = `${life} ${step}`;
    const count = ordersOf(after).filter((row) => row.step === step).length;
    if (count > 1) return `I1: ${place} is committed ${count} times for one key`;
    if (is === null || is.record.id !== life) return `I1: ${place} is committed without its record`;
    if (body !== is.record.fingerprint.digest[0])
      return `I2: ${place} is committed for another body than its record's`;
    if (step !== "" && !is.life.steps.some(({ name }) => name === step))
      return `I10: ${place} is committed without its step`;
    if (step === "" && is.record.state !== "completed")
      return `I1: ${place} is committed and its record is ${is.record.state}`;
  }
  const isFresh = is?.record.state === "completed" && before.rows[0]?.record.state !== "completed";
  if (isFresh && plan.shape !== "steps" && isTransactional(plan) && fresh.length !== 1) {
    return `I1: ${is.record.id} is completed with ${fresh.length} rows`;
  }
  return null;
}

/** What a completed record of steps says must have happened. */
function judgeEnd({ plan, was, is, after, ask }: Change): string | null {
  if (plan.shape !== "steps" || is?.record.state !== "completed" || was?.record.state === "completed")
    return null;
  if (ask.port === "settlement.settle") return null;
  const { id } = is.record;
  const charges = after.other.charges.filter(({ place }) => place === `${id} charged`).length;
  if (charges !== 1) return `I7: ${id} is completed with ${charges} charges`;
  const steps = ordersOf(after).map(({ step }) => step);
  return steps.includes("first") && steps.includes("last")
    ? null
    : `I10: ${id} is completed without all its rows`;
}
