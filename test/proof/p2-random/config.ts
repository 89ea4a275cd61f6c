/** What one schedule is about: its operations, keys and how much may happen. Drawn first, from the same list. */
import type { Execution, ServerErrors } from "../../../packages/latchkey/src/engine/classify.ts";
import type { LeaseEnd } from "../../../packages/latchkey/src/engine/record.ts";
import type { Choices } from "./choices.ts";

/** What the other side can do, as in the table of effects. */
export type EffectKind = "provider" | "close" | "reopen" | "lookup" | "none";

/**
 * - `transaction`, `enqueue`: without and with an effect in the outbox.
 * - `lease`: a route's handler under `reconcile`; `asked`: with a look-up of its own; `rerun`.
 * - `steps`: phase, call, phase under a lease; `deferred`: the same in a worker; `answered`: its delivery gives the answer.
 */
export type Shape =
  | "transaction"
  | "enqueue"
  | "lease"
  | "asked"
  | "rerun"
  | "steps"
  | "deferred"
  | "answered";

export interface OperationPlan {
  readonly name: string;
  readonly shape: Shape;
  readonly execution: Execution;
  /** Of the effects that it calls or enqueues. */
  readonly kind: EffectKind;
  readonly leaseEnd: LeaseEnd;
  /** Steps: the last phase completes the attempt. */
  readonly finishes: boolean;
  /** Steps: the first phase enqueues an effect, too. */
  readonly enqueues: boolean;
  /** What it enqueues is delivered in order, all that a tenant has. */
  readonly ordered: boolean;
  readonly keyScope: "operation" | "tenant";
  readonly reuse: "reject" | "execute";
  readonly retentionMs: number;
  readonly forgetAfterMs: number;
  readonly waitMs: number | false;
  readonly attemptsMax: number;
  readonly attemptLimitMs: number;
  readonly serverErrors: ServerErrors;
  /** How many requests of a process share a transaction, as messages of an inbox do; null: none do. */
  readonly batchSize: number | null;
}

/** Which port calls most faults befall; `any`: all alike. */
export type Focus = (typeof focuses)[number];
const focuses = ["any", "calls", "commits", "ends", "outbox"] as const;

/** A delivery comes after its request, so that fewer of its faults fit into a schedule: it is drawn twice as often. */
const drawnFocuses = [...focuses, "outbox"] as const;

export interface ClientKey {
  readonly tenant: string;
  readonly key: string;
}

export interface Config {
  readonly operations: readonly OperationPlan[];
  readonly keys: readonly ClientKey[];
  /** How many requests there are. */
  readonly clients: number;
  /** How often a background service or a person acts meanwhile. */
  readonly services: number;
  /** How often time leaps. */
  readonly leaps: number;
  /** Faults in 64 port calls. */
  readonly faultRate: number;
  readonly faultsMax: number;
  /** Where most of them happen. */
  readonly focus: Focus;
  readonly crashes: boolean;
  readonly freezes: boolean;
  /** Steps before the faults stop. */
  readonly stepsMax: number;
}

export const leaseMs = 3_000;
export const transactionLimitMs = 5_000;
export const pendingLimitMs = 30_000;
export const dedupeWindowMs = 60_000;
export const effectTimeoutMs = 500;

const shapes: readonly Shape[] = [
  "transaction",
  "enqueue",
  "lease",
  "asked",
  "rerun",
  "steps",
  "steps",
  "steps",
  "deferred",
  "answered",
];

/** Faults at a port do nothing to those that never come to it. */
const shapesOf: Readonly<Record<Focus, readonly Shape[]>> = {
  any: shapes,
  calls: ["steps", "steps", "deferred"],
  commits: ["transaction", "enqueue", "steps", "deferred", "answered"],
  ends: shapes,
  outbox: ["enqueue", "enqueue", "answered", "steps"],
};

const executions: Readonly<Record<Shape, Execution>> = {
  transaction: "transaction",
  enqueue: "transaction",
  lease: "lease",
  asked: "lease",
  rerun: "lease",
  steps: "lease",
  deferred: "deferred",
  answered: "deferred",
};

const kinds: readonly EffectKind[] = ["provider", "close", "reopen", "lookup", "none"];

/** Where nobody can be asked there is less that could go wrong, and it does so more rarely. */
const deliveredKinds: readonly EffectKind[] = [...kinds, "none", "provider"];

export const tenants = ["ta", "tb"] as const;

export function drawConfig(choices: Choices): Config {
  const focus = choices.pick(drawnFocuses);
  const isOutbox = focus === "outbox";
  const several = choices.choose(3) > 0;
  const shared = several && choices.oneIn(4);
  const common = {
    keyScope: shared ? "tenant" : "operation",
    reuse: choices.choose(2) === 0 ? "reject" : "execute",
  } as const;
  const operations = [drawOperation(choices, "op0", focus, common)];
  if (several) operations.push(drawOperation(choices, "op1", focus, common));
  return {
    operations,
    keys: drawKeys(choices),
    clients: 2 + choices.choose(isOutbox ? 3 : 5),
    services: (isOutbox ? 6 : 0) + choices.choose(7),
    leaps: choices.choose(6),
    faultRate: choices.pick(isOutbox ? [6, 10, 16] : [0, 6, 10, 16]),
    faultsMax: 1 + choices.choose(6),
    focus,
    crashes: choices.choose(isOutbox ? 4 : 2) > 0,
    freezes: choices.choose(2) > 0,
    stepsMax: (isOutbox ? 40 : 20) + 10 * choices.choose(isOutbox ? 4 : 6),
  };
}

function drawKeys(choices: Choices): readonly ClientKey[] {
  const first = { tenant: tenants[0], key: "k0" };
  const sameKey = { tenant: tenants[1], key: "k0" };
  const sameTenant = { tenant: tenants[0], key: "k1" };
  const other = { tenant: tenants[1], key: "k1" };
  return choices.pick([[first], [first, sameTenant], [first, sameKey], [first, sameKey, sameTenant, other]]);
}

function drawOperation(
  choices: Choices,
  name: string,
  focus: Focus,
  { keyScope, reuse }: Pick<OperationPlan, "keyScope" | "reuse">,
): OperationPlan {
  const shape = choices.pick(shapesOf[focus]);
  const execution = executions[shape];
  const retentionMs = 20_000;
  return {
    name,
    shape,
    execution,
    kind: choices.pick(focus === "outbox" ? deliveredKinds : kinds),
    leaseEnd: leaseEndOf(choices, shape),
    finishes: choices.choose(2) === 0,
    enqueues: choices.oneIn(focus === "outbox" ? 1 : 3),
    ordered: shape !== "answered" && choices.oneIn(3),
    keyScope,
    reuse,
    retentionMs,
    forgetAfterMs: choices.pick([retentionMs, 2 * retentionMs]),
    waitMs: execution !== "deferred" && choices.oneIn(5) ? 2_000 : false,
    attemptsMax: choices.pick([5, 2]),
    attemptLimitMs: choices.pick([900_000, 2_000]),
    serverErrors: choices.pick(["by-outcome", "store", "release"]),
    batchSize: execution === "transaction" && choices.oneIn(2) ? 3 : null,
  };
}

function leaseEndOf(choices: Choices, shape: Shape): LeaseEnd {
  switch (shape) {
    case "rerun":
      return "rerun";
    case "steps":
    case "deferred":
      return choices.choose(3) < 2 ? "resume" : "reconcile";
    case "answered":
      return "resume";
    case "transaction":
    case "enqueue":
    case "lease":
    case "asked":
      return "reconcile";
    default:
      return shape satisfies never;
  }
}

/** What an operation that owns its work is asked for. */
export interface StepsInput {
  /** Of the fingerprint that it was asked under. */
  readonly digest: number;
}

export function isDirect({ shape }: OperationPlan): boolean {
  return shape !== "steps" && shape !== "deferred" && shape !== "answered";
}

export function mailName(plan: OperationPlan): string {
  const what = plan.shape === "answered" ? "answer" : plan.ordered ? "queue" : "mail";
  return `${what}-${plan.kind}`;
}

/** One aggregate for each tenant: there is something to be in order. */
export function enqueueOptions({ ordered }: OperationPlan): { readonly aggregate?: string } {
  return ordered ? { aggregate: "all" } : {};
}

export function chargeName({ kind }: OperationPlan): string {
  return `charge-${kind}`;
}
