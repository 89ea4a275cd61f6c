import type { CleanReport } from "../stores/store.ts";
import {
  createService,
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
  const { runtime } = latchkey;
  const { intervalMs, batchSize } = resolveServiceOptions("record-cleaner", options, defaults);
  return createService(runtime, {
    name: "record-cleaner",
    intervalMs,
    async runOnce() {
      const report = await runtime.store.clean(batchSize);
      runtime.emit({ type: "cleaned", ...report });
      return report;
    },
    hasMore: (report) => Math.max(...Object.values(report)) >= batchSize,
  });
}
