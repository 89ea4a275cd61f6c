import type { Runtime } from "../execution/runtime.ts";
import type { CleanReport } from "../stores/store.ts";
import {
  createService,
  type LookingService,
  resolveServiceOptions,
  type Served,
  type Service,
  type ServiceOptions,
} from "./service.ts";

/** A batch of this size takes a few milliseconds on Postgres, so no request waits for it. */
const defaults = { intervalMs: 60_000, batchSize: 1_000 };

/**
 * The record-cleaner: fails abandoned `pending` records, purges answers past their retention and forgets keys. It only
 * frees space: admission judges expiry itself and is right without it. It never touches a record that is running,
 * retryable or unknown.
 */
export function recordCleaner<Tx>(latchkey: Served<Tx>, options: ServiceOptions = {}): Service<CleanReport> {
  return createCleaner(latchkey.runtime, options);
}

/** The same, for a worker. */
export function createCleaner<Tx>(
  runtime: Runtime<Tx>,
  options: ServiceOptions,
): LookingService<CleanReport> {
  const { intervalMs, batchSize } = resolveServiceOptions("record-cleaner", options, defaults);
  const runOnce = async () => {
    const report = await runtime.store.clean(batchSize);
    runtime.emit({ type: "cleaned", ...report });
    return report;
  };
  const hasMore = (report: CleanReport) => Math.max(...Object.values(report)) >= batchSize;
  return {
    ...createService(runtime, { name: "record-cleaner", intervalMs, runOnce, hasMore }),
    intervalMs,
    nothing: { abandoned: 0, purged: 0, forgotten: 0, effects: 0, messages: 0 },
    async look() {
      const report = await runOnce();
      return { done: report, begun: [], mayHaveMore: hasMore(report), waitMs: null };
    },
    onRoom() {},
  };
}
