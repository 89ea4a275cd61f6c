/** Which worlds are explored: what the operation is, who takes part, and within which bounds. */

import type { TransactionSupport } from "../../../packages/latchkey/src/stores/transactions.ts";
import type { Plant } from "../harness/store-plants.ts";
import type { Bound, Losses } from "./bound.ts";
import type { Plan } from "./operations.ts";
import type { EffectKind } from "./other-side.ts";
import type { Role } from "./process.ts";
import { client, type ServiceName, service } from "./roles.ts";
import { Tree } from "./tree.ts";

export interface Configuration {
  readonly name: string;
  readonly plan: Plan;
  /** The second owner asks with another body. */
  readonly other: boolean;
  readonly services: readonly ServiceName[];
  /** How far time goes when it passes: past the end of a lease, or of a claim. */
  readonly timeMs: number;
  readonly losses: Losses;
  /** Somebody takes part who is left out, since what that one does is no matter to the others. */
  readonly isPart: boolean;
  /** What the test command explores; each by itself. */
  readonly small: readonly Bound[];
  readonly plant: Plant | null;
}

/** One process that takes part. */
interface Part {
  readonly name: string;
  readonly role: Role;
  /** Null: it is no client. */
  readonly body: number | null;
  /** The one before it that does the same; null: there is none. */
  readonly twin: number | null;
}

export interface Actor extends Part {
  readonly tree: Tree;
}

/** @param asOne lives that got the same replies are taken for one */
export function actorsOf(configuration: Configuration, asOne: boolean): readonly Actor[] {
  return rolesOf(configuration).map((part) => ({ ...part, tree: new Tree(part.name, part.role, asOne) }));
}

export function rolesOf({ plan, other, services }: Configuration): readonly Part[] {
  const clients = ["A", "B"].map((name, at) => {
    const body = other && at === 1 ? 2 : 1;
    return { name, body, role: client(plan, body), twin: at === 1 && !other ? 0 : null };
  });
  const counts = new Map<string, number>();
  const helpers = services.map((what, at) => {
    const count = (counts.get(what) ?? 0) + 1;
    counts.set(what, count);
    const before = services.lastIndexOf(what, at - 1);
    const twin = at === 0 || before < 0 ? null : clients.length + before;
    return { name: count === 1 ? what : `${what} ${count}`, body: null, role: service(plan, what), twin };
  });
  return [...clients, ...helpers];
}

/** What is to be reached. */
export const whole: Bound = { switches: 2, crashes: 2, leaseEnds: 2, lost: 1 };
/** On the way there: every other one is less than this one in some respect. */
export const half: Bound = { switches: 1, crashes: 1, leaseEnds: 1, lost: 1 };

const crashed: Bound = { switches: 0, crashes: 2, leaseEnds: 1, lost: 0 };
const frozen: Bound = { switches: 1, crashes: 0, leaseEnds: 1, lost: 0 };
const unlucky: Bound = { switches: 0, crashes: 1, leaseEnds: 0, lost: 1 };
const both: Bound = { switches: 1, crashes: 1, leaseEnds: 1, lost: 0 };
const lossy: Bound = { switches: 1, crashes: 1, leaseEnds: 0, lost: 1 };

const direct = {
  kind: "none",
  leaseEnd: "reconcile",
  admission: "pessimistic",
  finishes: false,
  enqueues: false,
} as const;
const common = { other: false, losses: "late", isPart: false, timeMs: 3_000, plant: null } as const;
/** Past the end of a claim on an effect, too. */
const claimMs = 12_000;

/** Everybody believes to hold the key: the guard alone must be enough. */
const lostLocks: Plant = ({ transactions }) => ({ transactions: transactions && unlocked(transactions) });

function unlocked<Tx>({ run, runOptimistic, ...others }: TransactionSupport<Tx>): TransactionSupport<Tx> {
  if (runOptimistic === undefined) throw new TypeError("The memory store has optimistic admission");
  return {
    ...others,
    run: (request, work) => run(request, (open) => work({ ...open, exclusive: true })),
    runOptimistic: (request, admit, work) =>
      runOptimistic(request, (seen) => admit({ ...seen, exclusive: true }), work),
  };
}

/** Handlers start before their key is looked up. */
const optimistic = { ...direct, shape: "transaction", admission: "optimistic" } as const;

const transactions: readonly Configuration[] = [
  { ...common, name: "transaction", plan: { ...direct, shape: "transaction" }, services: [], small: [whole] },
  {
    ...common,
    name: "transaction-other",
    plan: { ...direct, shape: "transaction" },
    services: [],
    other: true,
    small: [whole],
  },
  {
    ...common,
    name: "transaction-unlocked",
    plan: { ...direct, shape: "transaction" },
    services: [],
    plant: lostLocks,
    small: [half],
  },
  { ...common, name: "optimistic", plan: optimistic, services: [], small: [whole] },
  { ...common, name: "optimistic-other", plan: optimistic, services: [], other: true, small: [whole] },
  { ...common, name: "optimistic-unlocked", plan: optimistic, services: [], plant: lostLocks, small: [half] },
];

const leases: readonly Configuration[] = [
  {
    ...common,
    name: "lease",
    plan: { ...direct, shape: "lease" },
    services: ["rescuer", "reconciler"],
    small: [half],
  },
  {
    ...common,
    name: "lease-other",
    plan: { ...direct, shape: "lease" },
    services: ["rescuer", "reconciler"],
    other: true,
    small: [both],
  },
  {
    ...common,
    name: "lease-asked",
    plan: { ...direct, shape: "asked" },
    services: ["rescuer", "reconciler"],
    small: [both],
  },
  {
    ...common,
    name: "lease-rerun",
    plan: { ...direct, shape: "lease", leaseEnd: "rerun" },
    services: ["rescuer"],
    small: [half],
  },
];

const kinds: readonly EffectKind[] = ["provider", "close", "reopen", "lookup", "none"];

/** What no smaller bound reaches: by one kind of each, two deaths, and an owner that freezes before its send. */
function smallOf(kind: EffectKind, leaseEnd: "resume" | "reconcile"): readonly Bound[] {
  if (leaseEnd === "resume") return kind === "none" ? [unlucky, crashed] : [unlucky];
  if (kind === "close") return [lossy, frozen];
  return kind === "provider" ? [lossy, crashed] : [unlucky];
}

const steps: readonly Configuration[] = kinds.flatMap((kind) =>
  (["resume", "reconcile"] as const).map(
    (leaseEnd): Configuration => ({
      ...common,
      name: `steps-${kind}-${leaseEnd}`,
      plan: {
        shape: "steps",
        kind,
        leaseEnd,
        admission: "pessimistic",
        finishes: (leaseEnd === "resume") === ["provider", "close", "lookup"].includes(kind),
        enqueues: false,
      },
      services: ["rescuer", "reconciler"],
      small: smallOf(kind, leaseEnd),
    }),
  ),
);

const outbox: readonly Configuration[] = [
  ...kinds.map(
    (kind): Configuration => ({
      ...common,
      name: `enqueue-${kind}`,
      plan: { ...direct, shape: "enqueue", kind },
      services: ["dispatcher", "dispatcher"],
      timeMs: claimMs,
      small: kind === "provider" || kind === "none" ? [both, lossy] : [both],
    }),
  ),
  {
    ...common,
    name: "enqueue-optimistic",
    plan: { ...optimistic, shape: "enqueue", kind: "provider" },
    services: ["dispatcher"],
    timeMs: claimMs,
    small: [both],
  },
  {
    ...common,
    name: "enqueue-unlocked",
    plan: { ...direct, shape: "enqueue", kind: "provider" },
    services: ["dispatcher"],
    timeMs: claimMs,
    plant: lostLocks,
    small: [both],
  },
  {
    ...common,
    name: "steps-enqueue",
    plan: { ...direct, shape: "steps", kind: "provider", leaseEnd: "resume", finishes: true, enqueues: true },
    services: ["rescuer", "reconciler", "dispatcher"],
    timeMs: claimMs,
    small: [{ ...crashed, crashes: 1 }],
  },
  // The same, while nobody dispatches: see apart.ts.
  {
    ...common,
    name: "steps-enqueue-undispatched",
    plan: { ...direct, shape: "steps", kind: "provider", leaseEnd: "resume", finishes: true, enqueues: true },
    services: ["rescuer", "reconciler"],
    isPart: true,
    timeMs: claimMs,
    small: [unlucky],
  },
];

export const configurations: readonly Configuration[] = [...transactions, ...leases, ...outbox, ...steps];
