/** The operation of a configuration, and its effects, as each process defines them. */

import type { EffectOptions } from "../../../packages/latchkey/src/effects/effect.ts";
import type { Effect } from "../../../packages/latchkey/src/index.ts";
import type { Answer } from "../../../packages/latchkey/src/operations/answer.ts";
import type { Result, Submission, Work } from "../../../packages/latchkey/src/operations/attempt.ts";
import type { LookedUp, StepAttempt } from "../../../packages/latchkey/src/operations/owned-work.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { EffectKind, SendInput } from "./other-side.ts";
import type { System } from "./process.ts";

/**
 * - `transaction`, `enqueue`: without and with an effect in the outbox.
 * - `lease`: a route's handler that does something on the other side; `asked`: with a look-up of its own.
 * - `steps`: phase, call, phase under a lease.
 */
export type Shape = "transaction" | "enqueue" | "lease" | "asked" | "steps";

export interface Plan {
  readonly shape: Shape;
  /** Of what is called or enqueued. */
  readonly kind: EffectKind;
  readonly leaseEnd: "reconcile" | "resume" | "rerun";
  /** Of a transaction: whether its handler starts before its key is looked up. */
  readonly admission: "pessimistic" | "optimistic";
  /** Steps: the last phase completes the attempt. */
  readonly finishes: boolean;
  /** Steps: the first phase enqueues an effect, too. */
  readonly enqueues: boolean;
}

const leaseMs = 3_000;
const key = { tenant: "t", scope: "op", key: "k" } as const;

/** A business row. `step` is empty in a transaction. */
export interface OrderRow {
  readonly life: string;
  readonly step: string;
  readonly by: string;
  readonly body: number;
  /** Ids of the effects that its transaction enqueues. */
  readonly enqueued: readonly string[];
}

export function isOrder(row: unknown): row is OrderRow {
  return typeof row === "object" && row !== null && "life" in row && "step" in row;
}

type Submit = (body: number) => Promise<Result>;
type Charge = { readonly id: number };

/** Defines everything, and answers how a request is made. */
export function define(system: System, plan: Plan): Submit {
  return plan.shape === "steps" ? defineSteps(system, plan) : defineDirect(system, plan);
}

function submissionOf(body: number): Submission {
  return { key, fingerprint: { version: 1, digest: new Uint8Array([body]) }, principal: null };
}

function defineDirect(system: System, plan: Plan): Submit {
  const { latchkey, actor } = system;
  if (plan.shape === "transaction" || plan.shape === "enqueue") {
    const mail = plan.shape === "enqueue" ? effectOf(system, "mail", plan.kind) : null;
    // Never enqueued: a dispatcher is the same one as beside steps.
    if (mail !== null) effectOf(system, "charge", plan.kind);
    const { admission } = plan;
    const options = { execution: "transaction", admission, transactionLimitMs: 2_000 } as const;
    const operation = latchkey.operation("op", options);
    return (body) => {
      const work: Work<MemoryTransaction, "transaction"> = async ({ tx, attempt }) => {
        const { id: life } = attempt;
        const input = { life, place: `mail of ${actor}`, by: actor };
        const enqueued = mail === null ? [] : [attempt.enqueue(mail, input).id];
        await tx.insert("orders", { life, step: "", by: actor, body, enqueued });
        return answerOf(life, actor);
      };
      return latchkey.execute(operation, submissionOf(body), work);
    };
  }
  const lookup = plan.shape === "asked" ? { lookup: lookupOf(system) } : {};
  const { leaseEnd } = plan;
  const operation = latchkey.operation("op", { execution: "lease", leaseMs, leaseEnd, ...lookup });
  return (body) => {
    const work: Work<MemoryTransaction, "lease"> = async ({ attempt }) => {
      const charge = { life: attempt.id, attempt: attempt.fence.attempt, by: actor };
      await system.ask("charge", [charge, leaseEnd === "rerun"]);
      return answerOf(attempt.id, actor);
    };
    return latchkey.execute(operation, submissionOf(body), work);
  };
}

function answerOf(life: string, by: string): Answer {
  return { status: 201, headers: [["x-by", by]], body: Buffer.from(`${life}, done by ${by}`), omitted: null };
}

/** The other side knows what a route's handler did there, and sees to it that it does no more. */
function lookupOf({ ask }: System) {
  return async ({ recordId }: { readonly recordId: string }): Promise<LookedUp> => {
    const found = await ask<{ readonly by: string } | null>("lookUpOperation", [recordId]);
    if (found === null) return { kind: "not_executed", proof: "closed-downstream" };
    return { kind: "completed", answer: { status: 201, body: { done: recordId, by: found.by } } };
  };
}

function defineSteps(system: System, { kind, leaseEnd, finishes, enqueues }: Plan): Submit {
  const { latchkey, actor } = system;
  const charge = effectOf(system, "charge", kind);
  const mail = enqueues ? effectOf(system, "mail", kind) : null;
  const run = async ({ body }: { readonly body: number }, attempt: StepAttempt<MemoryTransaction>) => {
    const { id: life, fence } = attempt;
    const by = `${actor} in attempt ${fence.attempt}`;
    const first = await attempt.phase("first", async (tx) => {
      const enqueued = mail === null ? [] : [attempt.enqueue(mail, { life, place: "mail", by }).id];
      await tx.insert("orders", { life, step: "first", by, body, enqueued });
      return by;
    });
    const { id } = await attempt.call("charged", charge, { life, place: "charged", by });
    const last = async (tx: MemoryTransaction) => {
      await tx.insert("orders", { life, step: "last", by, body, enqueued: [] });
      return { status: 201, body: { first, charge: id, last: by } };
    };
    return finishes ? attempt.finish("last", last) : attempt.phase("last", last);
  };
  const operation = latchkey.operation("op", { execution: "lease", leaseMs, leaseEnd, version: "1", run });
  return (body) => latchkey.executeOwned(operation, submissionOf(body), { body });
}

function effectOf(system: System, name: string, kind: EffectKind): Effect<SendInput, Charge> {
  return system.latchkey.effect(name, effectOptions(system, kind));
}

function effectOptions(
  { ask }: System,
  kind: EffectKind,
): EffectOptions<SendInput, Charge, MemoryTransaction> {
  const base = {
    execute: (input: SendInput, call: { readonly key: string }) =>
      ask<Charge>("send", [kind, call.key, input]),
    retry: { attempts: 2, backoffMs: 10, backoffMaxMs: 10 },
    limits: { timeoutMs: 500 },
    delivery: { attemptsMax: 4 },
  };
  const lookup = (_: SendInput, call: { readonly key: string }) =>
    ask<{ readonly found: Charge } | null>("lookUp", [call.key]);
  const close = (_: SendInput, call: { readonly key: string }) =>
    ask<{ readonly closed: true } | { readonly happened: Charge }>("close", [call.key]);
  switch (kind) {
    case "provider":
      return { ...base, deduplication: "provider", dedupeWindowMs: 3_600_000 };
    case "lookup":
      return { ...base, deduplication: "lookup", lookup };
    case "close":
      return { ...base, deduplication: "lookup", lookup, close };
    case "reopen":
      return { ...base, deduplication: "lookup", lookup, close, reopen: true };
    case "none":
      return { ...base, deduplication: "none" };
    default:
      return kind satisfies never;
  }
}
