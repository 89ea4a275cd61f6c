import type { Runtime } from "../attempt/runtime.ts";
import { giveUpReason } from "../engine/decide.ts";
import { guardOf } from "../engine/record.ts";
import type { Latchkey } from "../latchkey.ts";
import type { EndedLease } from "../stores/store.ts";
import { createService, resolveServiceOptions, type Service, type ServiceOptions } from "./service.ts";

export interface RescueReport {
  /** Dead attempts found. */
  readonly found: number;
  /** Of these, settled as `unknown`. The others were taken over or ended in the meantime. */
  readonly rescued: number;
}

const defaults = { intervalMs: 10_000, batchSize: 100 };

/**
 * The lease-rescuer: settles as `unknown` the attempts whose lease has ended and that nobody may take over, so that
 * they are seen without waiting for the client's next try.
 */
export function leaseRescuer<Tx>(
  latchkey: Latchkey<Tx>,
  options: ServiceOptions = {},
): Service<RescueReport> {
  const { runtime } = latchkey;
  const { intervalMs, batchSize } = resolveServiceOptions("lease-rescuer", options, defaults);
  return createService(runtime, {
    name: "lease-rescuer",
    intervalMs,
    async runOnce() {
      const ended = await runtime.store.endedLeases(batchSize);
      let rescued = 0;
      for (const lease of ended) {
        if (await tryRescue(runtime, lease)) rescued += 1;
      }
      return { found: ended.length, rescued };
    },
    hasMore: (report) => report.rescued > 0 && report.found >= batchSize,
  });
}

/** One record that cannot be written must not keep the others waiting. */
async function tryRescue<Tx>(runtime: Runtime<Tx>, ended: EndedLease): Promise<boolean> {
  try {
    return await rescue(runtime, ended);
  } catch (error) {
    runtime.emit({ type: "service_error", service: "lease-rescuer", error });
    return false;
  }
}

async function rescue<Tx>(runtime: Runtime<Tx>, ended: EndedLease): Promise<boolean> {
  const { record } = ended;
  // The store lists only leases past their end, so the third reason is what is left.
  const because = giveUpReason(record, ended, record.leaseEndsAt) ?? "past-expiry";
  const done = await runtime.store.giveUp(record, guardOf(record), because, null);
  if (done) {
    const about = runtime.about(record.operation, record);
    runtime.emit({ ...about, type: "lease_rescued", recordId: record.id, because });
  }
  return done;
}
