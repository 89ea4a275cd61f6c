import type { Runtime } from "../execution/runtime.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Archive } from "../stores/archival.ts";
import type { CleanReport, Store } from "../stores/store.ts";
import { ArchiveFailed, archiveAndForget } from "./archive.ts";
import {
  createService,
  type LookingService,
  resolveServiceOptions,
  type Served,
  type Service,
  type ServiceOptions,
} from "./service.ts";

export interface CleanerOptions extends ServiceOptions {
  /**
   * How long audit rows are kept, in milliseconds; `"forever"`: they are never removed. Default 5 years. Rows are also removed
   * while their record still exists.
   */
  readonly auditRetentionMs?: number | "forever";
  /**
   * Stores records elsewhere before they are forgotten, such as `postgresArchive` of `latchkey/archive`. Set it in every process
   * that cleans: one without it forgets records unarchived. Default: none.
   */
  readonly archive?: Archive;
}

export interface CleanerReport extends CleanReport {
  /** Audit rows removed. */
  readonly audit: number;
}

const optionNames = {
  intervalMs: true,
  batchSize: true,
  auditRetentionMs: true,
  archive: true,
} as const satisfies OptionNames<CleanerOptions>;

/** A batch of 1,000 takes a few milliseconds on Postgres, so requests do not wait for it. */
const defaults = { intervalMs: 60_000, batchSize: 1_000 };
const day = 24 * 60 * 60 * 1_000;
const auditRetentionDefaultMs = 5 * 365 * day;

/**
 * The record cleaner: fails abandoned `pending` records, purges answers past their retention, forgets keys, and removes old
 * audit rows. It mostly frees space: admission checks expiry itself. It never touches a record that is running, retryable or
 * unknown.
 *
 * @throws {TypeError} when an option is out of range.
 */
export function recordCleaner<Tx>(
  latchkey: Served<Tx>,
  options: CleanerOptions = {},
): Service<CleanerReport> {
  return createCleaner(latchkey.runtime, options);
}

/** The same, for a worker. */
export function createCleaner<Tx>(
  runtime: Runtime<Tx>,
  options: CleanerOptions,
): LookingService<CleanerReport> {
  checkOptions("record-cleaner", options, optionNames);
  const { auditRetentionMs = auditRetentionDefaultMs, archive, ...others } = options;
  const { intervalMs, batchSize } = resolveServiceOptions("record-cleaner", others, defaults);
  if (auditRetentionMs !== "forever" && !(Number.isSafeInteger(auditRetentionMs) && auditRetentionMs > 0)) {
    throw new TypeError(
      `record-cleaner: auditRetentionMs must be a positive whole number or "forever" (got ${auditRetentionMs})`,
    );
  }
  const { store } = runtime;
  const forgetting = archive === undefined ? null : forgettingBy(store, archive);
  const runOnce = async (signal: AbortSignal) => {
    const cleaned = await (forgetting?.clean(batchSize) ?? store.clean(batchSize));
    const archived = await forgetting?.forget(batchSize, signal);
    // Last, so that a database role without the right to remove audit rows still cleans the rest.
    const audit =
      auditRetentionMs === "forever" ? 0 : ((await store.cleanAudit?.(auditRetentionMs, batchSize)) ?? 0);
    const forgotten = cleaned.forgotten + (archived?.forgotten ?? 0);
    const report: CleanerReport = { ...cleaned, forgotten, audit };
    runtime.emit({ type: "cleaned", ...report });
    if (archived?.failure !== undefined) throw archived.failure;
    return report;
  };
  const hasMore = (report: CleanerReport) => Math.max(...Object.values(report)) >= batchSize;
  return {
    ...createService(runtime, { name: "record-cleaner", intervalMs, runOnce, hasMore }),
    intervalMs,
    nothing: { abandoned: 0, purged: 0, forgotten: 0, effects: 0, messages: 0, audit: 0 },
    async look(signal) {
      const report = await runOnce(signal);
      return { done: report, begun: [], mayHaveMore: hasMore(report), waitMs: null };
    },
    onCapacity() {},
  };
}

/** @throws {TypeError} when the store forgets records by itself, or the archive is not a function. */
function forgettingBy({ archival, name }: Pick<Store, "archival" | "name">, archive: Archive) {
  if (typeof archive !== "function") throw new TypeError("record-cleaner: archive must be a function");
  if (archival === undefined) {
    throw new TypeError(`record-cleaner: store ${name} cannot archive, because it forgets records by itself`);
  }
  return {
    clean: (limit: number) => archival.clean(limit),
    /** Returns the failure, so that the rest is cleaned first. */
    async forget(limit: number, signal: AbortSignal) {
      try {
        return { forgotten: await archiveAndForget(archival, archive, limit, signal) };
      } catch (failure) {
        if (!(failure instanceof ArchiveFailed)) throw failure;
        return { forgotten: failure.forgotten, failure };
      }
    },
  };
}
