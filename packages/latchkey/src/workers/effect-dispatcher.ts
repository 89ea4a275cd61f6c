import type { Runtime } from "../execution/runtime.ts";
import type { DeliveryResult } from "../outbox/delivery.ts";
import { Dispatcher } from "../outbox/dispatcher.ts";
import type { OutboxSupport } from "../stores/outbox.ts";
import {
  createService,
  type LookingService,
  resolveServiceOptions,
  type Served,
  type Service,
  type ServiceOptions,
} from "./service.ts";
import { subscribeToHints } from "./subscribe-to-hints.ts";

export interface DispatchReport {
  /** Effects claimed. */
  readonly claimed: number;
  readonly delivered: number;
  /** To be retried later. */
  readonly retried: number;
  /** Left to a person. */
  readonly dead: number;
  /** Claims whose end this process does not know; they are rescued after their leases. */
  readonly left: number;
  /** Claims of any process that were freed because their lease had ended. */
  readonly rescued: number;
}

/**
 * `batchSize`: how many deliveries run at once. With `provider` and without `onDelivered`, deliveries that only wait for
 * their end to be written do not count; up to as many more may do so.
 */
const defaults = { intervalMs: 1_000, batchSize: 250 };

/**
 * The effect dispatcher: delivers enqueued effects that this process defines. It looks at every interval, at once after a hint
 * of a commit, and again while there is more.
 *
 * `stop` begins nothing more, releases claims that were not begun, and waits for running deliveries.
 *
 * @throws {TypeError} when an option is out of range, or the store has no outbox.
 */
export function effectDispatcher<Tx>(
  latchkey: Served<Tx>,
  options: ServiceOptions = {},
): Service<DispatchReport> {
  const { runtime } = latchkey;
  const service = createDispatcher(runtime, options);
  let unsubscribe: (() => Promise<void>) | null = null;
  return {
    ...service,
    start() {
      unsubscribe ??= subscribeToHints(runtime, service.name, (hint) => {
        if (hint === "effects") service.wake();
      });
      service.start();
    },
    async stop() {
      const stopListening = unsubscribe;
      unsubscribe = null;
      await Promise.all([stopListening?.(), service.stop()]);
    },
  };
}

/** The same, without a subscription to hints: the caller subscribes. */
export function createDispatcher<Tx>(
  runtime: Runtime<Tx>,
  options: ServiceOptions,
): LookingService<DispatchReport> {
  const { outbox, transactions, name } = runtime.store;
  if (outbox === null || transactions === null) {
    throw new TypeError(`Store ${name} has no transactions, so it has no outbox to deliver from`);
  }
  const { intervalMs, batchSize } = resolveServiceOptions("effect-dispatcher", options, defaults);
  const { clock } = runtime.ports;
  let wake = () => service.wake();
  const dispatching = new Dispatcher(runtime, outbox, transactions, { size: batchSize, wake: () => wake() });
  let looking: Promise<unknown> = Promise.resolve();
  let rescuedAtMs = Number.NEGATIVE_INFINITY;
  let cancelTimer = () => {};
  const rescueWhenDue = async () => {
    if (clock.monotonicMs() - rescuedAtMs < intervalMs) return 0;
    const rescued = await rescue(runtime, outbox, batchSize);
    // After a full page there may be more to rescue at once.
    if (rescued < batchSize) rescuedAtMs = clock.monotonicMs();
    return rescued;
  };
  const service = createService<Tx, DispatchReport>(runtime, {
    name: "effect-dispatcher",
    intervalMs,
    async runOnce() {
      const rescued = await rescue(runtime, outbox, batchSize);
      const begun = await dispatching.claim();
      return reportOf(rescued, await Promise.all(begun));
    },
    async round() {
      const rescued = await rescueWhenDue();
      const begun = await dispatching.claim(Math.ceil(batchSize / 2));
      cancelTimer();
      const waitMs = dispatching.waitMs;
      if (waitMs !== null) cancelTimer = clock.startTimer(waitMs, () => wake(), "background");
      return { ...reportOf(rescued, []), claimed: begun.length };
    },
    hasMore: ({ rescued, claimed }) => rescued >= batchSize || (claimed > 0 && dispatching.hasMore),
  });
  return {
    ...service,
    intervalMs,
    nothing: reportOf(0, []),
    async look() {
      const claiming = rescueWhenDue().then(async (rescued) => ({
        rescued,
        begun: await dispatching.claim(Math.ceil(batchSize / 2)),
      }));
      looking = claiming.catch(() => {});
      const { rescued, begun } = await claiming;
      return {
        done: { rescued },
        begun: begun.map((delivery) => delivery.then((result) => reportOf(0, [result]))),
        mayHaveMore: rescued > 0 || begun.length > 0,
        waitMs: dispatching.waitMs,
      };
    },
    onCapacity(listener) {
      wake = listener;
    },
    async stop() {
      dispatching.setStopping(true);
      try {
        await Promise.all([service.stop(), looking]);
        await dispatching.whenIdle();
      } finally {
        cancelTimer();
        dispatching.setStopping(false);
      }
    },
  };
}

/** Only reports errors, so that they do not delay deliverable effects. */
async function rescue<Tx>(runtime: Runtime<Tx>, outbox: OutboxSupport, limit: number): Promise<number> {
  try {
    const { unstarted, started } = await outbox.rescue(limit);
    if (unstarted + started > 0) runtime.emit({ type: "effects_rescued", unstarted, started });
    return unstarted + started;
  } catch (error) {
    runtime.emit({ type: "service_error", service: "effect-dispatcher", error });
    return 0;
  }
}

function reportOf(rescued: number, results: readonly DeliveryResult[]): DispatchReport {
  const count = (...wanted: readonly DeliveryResult[]) =>
    results.filter((result) => wanted.includes(result)).length;
  return {
    claimed: results.length,
    delivered: count("delivered"),
    retried: count("retried", "reopened"),
    dead: count("dead"),
    left: count("left"),
    rescued,
  };
}
