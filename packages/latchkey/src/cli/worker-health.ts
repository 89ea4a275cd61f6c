/** What `latchkey worker --health-port` tells. */
import type { LatchkeyConfig } from "../config.ts";
import type { ServiceHealth } from "../maintenance/service.ts";
import { isoTime } from "./text.ts";

/** Where a worker process stands. */
export interface Stage {
  /** Null until it has started. */
  worker: { stop(): Promise<void>; health(): { readonly services: readonly ServiceHealth[] } } | null;
  stopping: boolean;
}

/** A store that takes longer does not answer. */
const storeLimitMs = 2_000;

export async function workerHealth({ latchkey }: LatchkeyConfig<unknown>, { worker, stopping }: Stage) {
  const { store } = latchkey.runtime;
  const answers = await inTime(store.verify());
  const services = (worker?.health().services ?? []).map(serviceView);
  const healthy = worker !== null && !stopping && answers && services.every(({ alive }) => alive);
  return { healthy, started: worker !== null, stopping, store: { name: store.name, answers }, services };
}

/** Errors stay inside: what they say may name hosts and values. */
function serviceView({ name, running, alive, lastRoundAt, lastError }: ServiceHealth) {
  return {
    name,
    running,
    alive,
    lastRoundAt: lastRoundAt === null ? null : isoTime(lastRoundAt),
    lastRoundFailed: lastError !== null,
  };
}

async function inTime(asked: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((over) => {
    timer = setTimeout(() => over(false), storeLimitMs);
  });
  const answered = asked.then(
    () => true,
    () => false,
  );
  try {
    return await Promise.race([answered, late]);
  } finally {
    clearTimeout(timer);
  }
}
