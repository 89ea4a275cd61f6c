/** What is measured: one endpoint of one framework under one guard, each in a server process of its own. */

export const frameworks = ["express", "fastify", "hono"] as const;
export type Framework = (typeof frameworks)[number];

/**
 * `order`: a transaction on `pg` with two writes; every request is a first request. `replay`: an endpoint that answers
 * fixed JSON; under a guard every request is a repeat.
 */
export type Job = "order" | "replay";

/**
 * What is in front of the handler. `none` is the baseline for the others; with `by-hand`, the handler itself stores keys and
 * answers.
 */
export type Guard =
  | "none"
  | "latchkey"
  /** With `admission: "optimistic"`; of orders alone. */
  | "latchkey-optimistic"
  | "latchkey-memory"
  | "by-hand"
  | "by-hand-memory"
  | "node-idempotency"
  | "express-idempotency"
  | "powertools"
  | "dbos";

export type ByHand = Extract<Guard, `by-hand${string}`>;

export function isByHand(guard: Guard): guard is ByHand {
  return guard.startsWith("by-hand");
}

export interface Subject {
  readonly framework: Framework;
  readonly job: Job;
  readonly guard: Guard;
}

const redisPeers = ["node-idempotency", "express-idempotency", "powertools"] as const;
const peers = [...redisPeers, "dbos"] as const;

/** All subjects, each baseline before those that are compared with it. */
export const subjects: readonly Subject[] = frameworks.flatMap((framework) => {
  const others = framework === "express" ? peers : [];
  return [
    ...(["none", "latchkey", "latchkey-optimistic", "by-hand", ...others] as const).map(
      (guard): Subject => ({ framework, job: "order", guard }),
    ),
    ...(["none", "latchkey-memory", "by-hand-memory", "latchkey", "by-hand", ...others] as const).map(
      (guard): Subject => ({ framework, job: "replay", guard }),
    ),
  ];
});

/** For example `express/order/latchkey`. */
export function nameOf({ framework, job, guard }: Subject): string {
  return `${framework}/${job}/${guard}`;
}

export function isBaselineOf(baseline: Subject, subject: Subject): boolean {
  return (
    baseline.guard === "none" && baseline.framework === subject.framework && baseline.job === subject.job
  );
}

export function needsRedis({ guard }: Subject): boolean {
  return (redisPeers as readonly Guard[]).includes(guard);
}
