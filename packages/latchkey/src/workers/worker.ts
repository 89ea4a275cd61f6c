/** A worker: runs deferred work and all background services. */

import type { Runtime } from "../execution/runtime.ts";
import { checkOptions } from "../known-options.ts";
import { withLimit } from "../time/time-limit.ts";
import type { Service, ServiceHealth } from "./service.ts";
import { subscribeToHints } from "./subscribe-to-hints.ts";
import { servicesOf, stopLimitOf, type WorkerOptions, workerOptionNames } from "./worker-services.ts";

export type { WorkerOptions };

export interface Worker {
  /**
   * Begins nothing more and waits up to `stopLimitMs` for running work; the rest is taken over once its leases end. Returns
   * whether all work ended in time. Never rejects.
   */
  stop(): Promise<boolean>;
  health(): Promise<WorkerHealth>;
}

export interface WorkerHealth {
  /** The worker is not stopping, the store answers, and every service is `alive`. */
  readonly ok: boolean;
  readonly stopping: boolean;
  readonly store: { readonly answers: boolean; readonly error: unknown };
  readonly services: readonly ServiceHealth[];
}

type AnyService = Service<unknown>;

const healthLimitMs = 2_000;

/**
 * Starts a worker. Any number of workers can share a store, and no option is required. A worker keeps its process alive until
 * `stop` has ended.
 *
 * @throws {TypeError} when an option is out of range.
 */
export function startWorker<Tx>(runtime: Runtime<Tx>, options: WorkerOptions = {}): Worker {
  checkOptions("startWorker", options, workerOptionNames);
  const stopLimitMs = stopLimitOf(options);
  const { pending, dispatcher, all: services } = servicesOf(runtime, options);
  const unsubscribe = wakeOnHints(runtime, pending, dispatcher);
  // Nothing else keeps the process alive while the database is down.
  const releaseKeepAlive = runtime.ports.clock.keepAlive();
  for (const service of services) service.start();
  runtime.emit({ type: "worker_started" });
  const stops = [unsubscribe, ...services.map((service) => () => service.stop())];
  let stopped: Promise<boolean> | null = null;
  return {
    stop() {
      stopped ??= stopAll(runtime, stopLimitMs, stops).finally(releaseKeepAlive);
      return stopped;
    },
    health: () => healthOf(runtime, services, stopped !== null),
  };
}

/** Subscribes only if a service can be woken, because a store may open a connection for hints. */
function wakeOnHints<Tx>(
  runtime: Runtime<Tx>,
  pending: AnyService | null,
  dispatcher: AnyService | null,
): () => Promise<void> {
  if (pending === null && dispatcher === null) return async () => {};
  return subscribeToHints(runtime, "worker", (hint) => {
    if (hint === "pending") pending?.wake();
    else dispatcher?.wake();
  });
}

async function stopAll<Tx>(
  { ports, emit }: Runtime<Tx>,
  limitMs: number,
  stops: readonly (() => Promise<void>)[],
): Promise<boolean> {
  const ended = await withLimit(ports.clock, limitMs, () => Promise.allSettled(stops.map((stop) => stop())));
  const inTime = ended.kind === "returned";
  emit({ type: "worker_stopped", inTime });
  return inTime;
}

async function healthOf<Tx>(
  { ports, store }: Runtime<Tx>,
  all: readonly AnyService[],
  stopping: boolean,
): Promise<WorkerHealth> {
  const asked = await withLimit(ports.clock, healthLimitMs, () => store.verify());
  const answers = asked.kind === "returned";
  const late = () => new Error(`The store did not answer within ${healthLimitMs} ms`);
  const error = answers ? null : asked.kind === "threw" ? asked.error : late();
  const services = all.map((service) => service.health());
  const ok = answers && !stopping && services.every(({ alive }) => alive);
  return { ok, stopping, store: { answers, error }, services };
}
