/** Deletes everything of one tenant: counts it first, then removes it page by page. */
import type { Runtime } from "../execution/runtime.ts";
import type { OperatorProof } from "../execution/settle.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { pause, timerMaxMs } from "../ports.ts";
import {
  type TenantData,
  type TenantPage,
  type TenantPart,
  type TenantRemoval,
  tenantParts,
} from "../stores/tenant-data.ts";
import { retryStoreCall } from "../time/retry-until.ts";

export interface DeleteTenantOptions {
  /** Only counts. Default false. */
  readonly dryRun?: boolean;
  /**
   * How long to wait, in milliseconds, until no work of the tenant is under way: attempts, accepted work, undelivered effects.
   * Nothing is removed before that. Default 0: refused at once.
   */
  readonly waitMs?: number;
  /**
   * Also removes what waits for a person or its client: unknown and retryable records, dead effects and messages. Each leaves
   * an audit row. A request repeated afterwards runs as new, even if the first one has happened. Default false: the deletion is
   * refused while there are any.
   */
  readonly undecided?: boolean;
  /** Also removes the tenant's audit rows, except those of its deletion. Default false: they are kept for their retention. */
  readonly auditRows?: boolean;
  /** The most rows that one step reads, 1 to 10,000. Default 1,000. */
  readonly batchSize?: number;
  /** Called after each step with the rows removed so far. Must not throw. */
  readonly onProgress?: (removed: TenantCounts) => void;
  /** Stops the deletion after the current step, with `incomplete`. */
  readonly signal?: AbortSignal;
}

/** Counts by kind. Steps, leases and early settlements count with their records. */
export type TenantCounts = Readonly<Record<"records" | "effects" | "messages" | "auditRows", number>>;

export interface TenantHoldings {
  /** Finished. Audit rows are counted here. */
  readonly over: TenantCounts;
  /** Will end without an operator. */
  readonly underWay: TenantCounts;
  /** Waits for a person, or for its client. */
  readonly undecided: TenantCounts;
}

export type DeletedTenant =
  /** The result of a dry run. */
  | { readonly kind: "counted"; readonly found: TenantHoldings }
  | {
      readonly kind: "deleted";
      readonly removed: TenantCounts;
      /** Id of the audit row with the operator and reason of the deletion. */
      readonly audit: string;
    }
  /** Something was added or changed meanwhile, or the signal stopped it; calling it again continues. */
  | {
      readonly kind: "incomplete";
      readonly removed: TenantCounts;
      /** What was found and not removed. */
      readonly left: TenantHoldings;
      readonly audit: string;
    }
  /** Nothing was changed. */
  | {
      readonly kind: "refused";
      readonly because: "under_way" | "undecided" | "unsupported";
      readonly title: string;
      readonly detail: string;
      readonly found: TenantHoldings | null;
    };

const optionNames = {
  dryRun: true,
  waitMs: true,
  undecided: true,
  auditRows: true,
  batchSize: true,
  onProgress: true,
  signal: true,
} as const satisfies OptionNames<DeleteTenantOptions>;

/** Pause between two checks whether work is still under way. */
const lookAgainMs = 1_000;

type Counting = { -readonly [K in keyof TenantCounts]: number };
const nothing = (): Counting => ({ records: 0, effects: 0, messages: 0, auditRows: 0 });

const kinds = {
  effects: "effects",
  messages: "messages",
  records: "records",
  early: "records",
  audit: "auditRows",
} as const satisfies Record<TenantPart, keyof TenantCounts>;

interface Job {
  readonly data: TenantData;
  readonly ports: Runtime<unknown>["ports"];
  readonly tenant: string;
  readonly limit: number;
  readonly options: DeleteTenantOptions;
}

/**
 * @throws {TypeError} when an option is out of range
 * @throws {StoreError} when the store could not be used; removed rows stay removed, and calling it again continues
 */
export async function deleteTenant(
  { store, ports }: Pick<Runtime<unknown>, "store" | "ports">,
  tenant: string,
  by: OperatorProof,
  options: DeleteTenantOptions,
): Promise<DeletedTenant> {
  const limit = checked(tenant, options);
  const data = store.tenantData;
  if (data === undefined) return unsupported(store.name);
  const job: Job = { data, ports, tenant, limit, options };
  const found = await lookUntilQuiet(job);
  if (options.dryRun) return { kind: "counted", found };
  const refusal = refusalOf(found, options);
  if (refusal !== null) return refusal;
  const audit = ports.random.uuid(ports.clock.wallMs());
  const { operator: actor, reason } = by;
  await retryStoreCall(ports, () => data.note(tenant, { id: audit, actor, reason }));
  const { removed, left, ended } = await removeAll(job, {
    undecided: options.undecided ?? false,
    actor,
    reason,
  });
  if (ended || isAny(left.underWay) || isAny(left.undecided))
    return { kind: "incomplete", removed, left, audit };
  return { kind: "deleted", removed, audit };
}

function checked(tenant: string, options: DeleteTenantOptions): number {
  checkOptions("deleteTenant", options, optionNames);
  const { batchSize = 1_000, waitMs = 0 } = options;
  if (typeof tenant !== "string") throw new TypeError("deleteTenant: the tenant must be a string");
  if (!Number.isSafeInteger(batchSize) || batchSize < 1 || batchSize > 10_000) {
    throw new TypeError(`deleteTenant: batchSize must be a whole number from 1 to 10000 (got ${batchSize})`);
  }
  if (!Number.isSafeInteger(waitMs) || waitMs < 0 || waitMs > timerMaxMs) {
    throw new TypeError(
      `deleteTenant: waitMs must be a whole number from 0 to ${timerMaxMs} (got ${waitMs})`,
    );
  }
  return batchSize;
}

async function lookUntilQuiet(job: Job): Promise<TenantHoldings> {
  const { ports, options } = job;
  const { waitMs = 0, dryRun = false, signal } = options;
  const untilMs = ports.clock.monotonicMs() + waitMs;
  for (;;) {
    const { left } = await walk(job, null);
    const leftMs = untilMs - ports.clock.monotonicMs();
    if (dryRun || !isAny(left.underWay) || leftMs <= 0 || signal?.aborted) return left;
    await pause(ports.clock, Math.min(lookAgainMs, leftMs), signal);
  }
}

/** Repeats the walk once if a finished record was being changed, perhaps by the record-cleaner. */
async function removeAll(job: Job, removal: TenantRemoval) {
  const first = await walk(job, removal);
  if (first.ended || !isAny(first.left.underWay)) return first;
  return walk(job, removal, first.removed);
}

async function walk(job: Job, removal: TenantRemoval | null, before: TenantCounts = nothing()) {
  const { data, ports, tenant, limit, options } = job;
  const removed = { ...before };
  const left = { over: nothing(), underWay: nothing(), undecided: nothing() };
  for (const part of tenantParts) {
    const kind = kinds[part];
    const keeps = part === "audit" && !options.auditRows;
    const remove = keeps ? null : removal;
    for (let after: string | null = null; ; ) {
      if (options.signal?.aborted) return { removed, left, ended: true };
      const place: string | null = after;
      const page: TenantPage = await retryStoreCall(ports, () =>
        data.sweep({ tenant, part, after: place, limit, remove }),
      );
      // Early settlements left by finished lives do not count as records.
      if (part !== "early") {
        removed[kind] += page.removed;
        left.over[kind] += page.over;
        left.underWay[kind] += page.underWay;
        left.undecided[kind] += page.undecided;
      }
      if (removal !== null) options.onProgress?.({ ...removed });
      after = page.next;
      if (after === null) break;
    }
  }
  return { removed, left, ended: false };
}

function isAny(counts: TenantCounts): boolean {
  return Object.values(counts).some((count) => count > 0);
}

function refusalOf(
  found: TenantHoldings,
  { undecided, waitMs = 0 }: DeleteTenantOptions,
): DeletedTenant | null {
  if (isAny(found.underWay)) {
    const waited = waitMs > 0 ? `The deletion waited for ${waitMs} ms. ` : "";
    return {
      kind: "refused",
      because: "under_way",
      title: "Not deleted. Work of the tenant is under way.",
      detail: `${waited}Attempts and undelivered effects end without your help: stop the tenant's requests and wait, or discard a dead effect that holds up others.`,
      found,
    };
  }
  if (undecided || !isAny(found.undecided)) return null;
  return {
    kind: "refused",
    because: "undecided",
    title: "Not deleted. Some of the tenant's data waits for a decision.",
    detail:
      "Settle the unknown records and decide about the dead letters, or delete them undecided: a repeated request then runs as new.",
    found,
  };
}

function unsupported(store: string): DeletedTenant {
  return {
    kind: "refused",
    because: "unsupported",
    title: "Not deleted. This store cannot find a tenant's data.",
    detail: `Store ${store} has no index by tenant. Records are removed when their retention is over.`,
    found: null,
  };
}
