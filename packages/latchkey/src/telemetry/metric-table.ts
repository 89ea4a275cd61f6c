/** Which events change which metrics. */
import type { Depth, Overview } from "../stores/overview.ts";
import type { LatchkeyEvent } from "./events.ts";

/** Names of attributes and their values, all of low cardinality: keys and record ids never appear. */
export type Attributes = Readonly<Record<string, string>>;

export interface Count {
  readonly metric: CounterName;
  readonly by: number;
  readonly attributes: Attributes;
}

/** What each counter counts: the text of `# HELP` and of an instrument's description. */
export const counters = {
  "api.idempotency.reserve.created.count": "Keys that began an operation for the first time",
  "api.idempotency.reserve.replay.count": "Requests answered with a stored answer",
  "api.idempotency.reserve.in_progress.count":
    "Requests refused because another with the same key was running",
  "api.idempotency.reserve.key_misuse.count":
    "Requests refused because their key belonged to another request",
  "api.idempotency.reserve.failed_retry.count": "Attempts that continued one that had failed without effect",
  "api.idempotency.reserve.unknown.count": "Requests refused because the outcome of their key is unknown",
  "api.idempotency.store.error.count": "Calls to the store that failed",
  "api.idempotency.zombie_key.count": "Keys of dead owners that were settled or taken over",
  "api.idempotency.ttl_pruned.count":
    "Answers, keys, effects, messages and audit rows removed when their retention was over",
  "api.idempotency.reconcile.scheduled.count": "Look-ups without a result yet that will be repeated",
  "api.idempotency.reconcile.resolved.count": "Unknown outcomes that a look-up settled",
  "api.idempotency.reconcile.failed.count": "Look-ups that failed",
  "api.idempotency.became_unknown.count": "Attempts whose outcome is not known",
  "api.idempotency.dead_letter.count": "Records, effects and messages that wait for a person",
  "api.idempotency.effect.delivered.count": "Effects delivered from the outbox",
  "api.idempotency.effect.retried.count": "Deliveries that failed and will be repeated",
  "api.idempotency.circuit.opened.count": "Times that a store's circuit breaker opened",
  "api.idempotency.ran_unprotected.count": "Requests that ran without protection while the store failed",
  "api.idempotency.service.error.count": "Failures of background services",
} as const;

export type CounterName = keyof typeof counters;

const none: readonly Count[] = [];

/** Work that waits now; attribute `kind`. */
export const depthMetric = {
  name: "api.idempotency.waiting",
  help: "Records, effects and messages that wait in the store now, by kind, up to the counting limit",
} as const;

/** Seconds since the oldest of a kind began to wait; attribute `kind`. */
export const ageMetric = {
  name: "api.idempotency.waiting.oldest_age",
  help: "Seconds since the oldest of a kind began to wait; 0 if none waits",
} as const;

export type WaitingKind = (typeof waitingKinds)[number];

/** The values of `kind`. */
export const waitingKinds = [
  "record_pending",
  "record_in_progress",
  "record_retryable",
  "record_unknown",
  "lease_overdue",
  "effect_pending",
  "effect_claimed",
  "effect_dead",
  "message_dead",
] as const;

export interface Waiting {
  readonly kind: WaitingKind;
  readonly count: number;
  readonly ageSeconds: number;
}

/** The gauges of an overview, without the kinds that the store does not support. */
export function waitingOf({ now, records, overdueLeases, effects, messages }: Overview): readonly Waiting[] {
  const depths: Readonly<Record<WaitingKind, Depth | undefined>> = {
    record_pending: records.pending,
    record_in_progress: records.inProgress,
    record_retryable: records.retryable,
    record_unknown: records.unknown,
    lease_overdue: overdueLeases,
    effect_pending: effects?.pending,
    effect_claimed: effects?.claimed,
    effect_dead: effects?.dead,
    message_dead: messages?.dead,
  };
  return waitingKinds.flatMap((kind) => {
    const depth = depths[kind];
    if (depth === undefined) return [];
    const { count, oldestAt } = depth;
    return [{ kind, count, ageSeconds: oldestAt === null ? 0 : Math.max(0, now - oldestAt) / 1_000 }];
  });
}

/** The counters that an event increments. */
export function countsOf(event: LatchkeyEvent): readonly Count[] {
  switch (event.type) {
    case "reserved":
      return one("reserve.created", { operation: event.operation });
    case "executed":
      if (event.execution !== "transaction") return none;
      return event.attempt === 1
        ? one("reserve.created", { operation: event.operation })
        : one("reserve.failed_retry", { operation: event.operation });
    case "replayed":
      return one("reserve.replay", { operation: event.operation });
    case "in_progress":
      return one("reserve.in_progress", { operation: event.operation });
    case "key_misuse":
      return one("reserve.key_misuse", { operation: event.operation, because: event.because });
    case "unknown":
      return one("reserve.unknown", { operation: event.operation });
    case "taken_over":
      return event.from === "retryable"
        ? one("reserve.failed_retry", { operation: event.operation })
        : one("zombie_key", { operation: event.operation, became: "taken_over" });
    case "lease_rescued":
      return one("zombie_key", { operation: event.operation, became: "unknown" });
    case "became_unknown":
      return one("became_unknown", { operation: event.operation });
    case "store_error":
      return one("store.error", { operation: event.operation });
    case "ran_unprotected":
      return one("ran_unprotected", { operation: event.operation });
    case "reconcile_scheduled":
      return one("reconcile.scheduled", { operation: event.operation });
    case "reconcile_resolved":
      return one("reconcile.resolved", { operation: event.operation });
    case "reconcile_failed":
      return one("reconcile.failed", { operation: event.operation });
    case "dead_letter":
      return one("dead_letter", { kind: "record", operation: event.operation });
    case "effect_dead":
      return one("dead_letter", { kind: "effect", operation: event.operation });
    case "message_dead":
      return one("dead_letter", { kind: "message", operation: event.operation });
    case "effect_delivered":
      return one("effect.delivered", { effect: event.effect });
    case "effect_retried":
      return one("effect.retried", { effect: event.effect });
    case "circuit_opened":
      return one("circuit.opened", { store: event.store });
    case "service_error":
      return one("service.error", { service: event.service });
    case "cleaned":
      return [
        ...pruned("abandoned", event.abandoned),
        ...pruned("answer", event.purged),
        ...pruned("key", event.forgotten),
        ...pruned("effect", event.effects),
        ...pruned("message", event.messages),
        ...pruned("audit_row", event.audit),
      ];
    default:
      return none;
  }
}

type Short<N> = N extends `api.idempotency.${infer S}.count` ? S : never;

function one(name: Short<CounterName>, attributes: Attributes, by = 1): readonly Count[] {
  return [{ metric: `api.idempotency.${name}.count` as CounterName, by, attributes }];
}

function pruned(what: string, count: number): readonly Count[] {
  return count === 0 ? none : one("ttl_pruned", { what }, count);
}

/** Seconds from an attempt's start to its stored answer, by operation. Choose a lease above the 99th percentile. */
export const durationMetric = {
  name: "api.idempotency.execution.duration",
  help: "Seconds that an attempt took until its answer was stored",
  bounds: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
} as const;

/** Requests by tenant; `duplicate` "true": answered from an earlier request's record, or refused because of it. */
export const tenantMetric = {
  name: "api.idempotency.tenant.requests.count",
  help: "Requests by tenant, and whether they repeated an earlier request (`duplicate`)",
} as const;

const repeated: ReadonlySet<string> = new Set(["replayed", "in_progress", "unknown"]);

/** A request's tenant, and whether the request repeats an earlier one; null: the event reports no request. */
export function requestOf(
  event: LatchkeyEvent,
): { readonly tenant: string; readonly duplicate: boolean } | null {
  if (repeated.has(event.type) && "tenant" in event) return { tenant: event.tenant, duplicate: true };
  const isFirst = countsOf(event).some(({ metric }) => metric === "api.idempotency.reserve.created.count");
  return isFirst && "tenant" in event ? { tenant: event.tenant, duplicate: false } : null;
}

/** Tenants beyond the limit are counted together under this name. */
const otherTenants = "(other)";

/** Names the first `max` tenants, and `(other)` for all later ones. */
export function boundedTenants(max: number): (tenant: string) => string {
  const seen = new Set<string>();
  return (tenant) => {
    if (!seen.has(tenant) && seen.size >= max) return otherTenants;
    seen.add(tenant);
    return tenant;
  };
}

/** @throws {RangeError} unless it is a whole number from 0 to 10,000. */
export function checkTenantsMax(tenantsMax: number): number {
  if (!Number.isSafeInteger(tenantsMax) || tenantsMax < 0 || tenantsMax > 10_000) {
    throw new RangeError(`tenantsMax must be a whole number from 0 to 10000 (got ${String(tenantsMax)})`);
  }
  return tenantsMax;
}
