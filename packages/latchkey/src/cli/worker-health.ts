/** The health that `latchkey worker --health-port` reports. */
import { isoTime } from "../operator/times.ts";
import type { ServiceHealth } from "../workers/service.ts";
import type { Worker } from "../workers/worker.ts";

export interface HealthView {
  readonly healthy: boolean;
  readonly started: boolean;
  readonly stopping: boolean;
  /** Null: the store was not asked. */
  readonly storeAnswers: boolean | null;
  readonly services: readonly ReturnType<typeof serviceView>[];
}

const notStarted: HealthView = {
  healthy: false,
  started: false,
  stopping: false,
  storeAnswers: null,
  services: [],
};

/** @param worker null: it has not started */
export async function healthView(worker: Worker | null): Promise<HealthView> {
  if (worker === null) return notStarted;
  const { ok, stopping, store, services } = await worker.health();
  const storeAnswers = store.answers;
  return { healthy: ok, started: true, stopping, storeAnswers, services: services.map(serviceView) };
}

/** Without the text of errors, which may contain hosts and values. */
function serviceView({ name, running, alive, lastRoundAt, lastError }: ServiceHealth) {
  return {
    name,
    running,
    alive,
    lastRoundAt: lastRoundAt === null ? null : isoTime(lastRoundAt),
    lastRoundFailed: lastError !== null,
  };
}
