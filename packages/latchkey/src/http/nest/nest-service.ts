/** Latchkey's part in the life of a Nest app. */

import type { CloseOptions } from "../../execution/lifecycle.ts";
import type { Latchkey } from "../../latchkey.ts";
import { withLimit } from "../../time/time-limit.ts";
import type { Worker, WorkerOptions } from "../../workers/worker.ts";
import { requireProtected } from "./idempotent.ts";

/** How Latchkey does, without what errors say: that may name hosts and values. */
export interface LatchkeyHealth {
  readonly status: "up" | "down";
  readonly storeAnswers: boolean;
  readonly worker: "off" | "running" | "late" | "stopping";
  /** Services of the worker that have not come round lately. */
  readonly late: readonly string[];
}

const healthLimitMs = 2_000;

export class LatchkeyService {
  readonly #latchkey: Latchkey<never>;
  readonly #workerOptions: WorkerOptions | false;
  readonly #shutdown: CloseOptions;
  #worker: Worker | null = null;

  constructor(latchkey: Latchkey<never>, worker: WorkerOptions | false, shutdown: CloseOptions) {
    this.#latchkey = latchkey;
    this.#workerOptions = worker;
    this.#shutdown = shutdown;
  }

  /** Every operation and effect of the app's providers is defined by now. */
  onApplicationBootstrap(): void {
    requireProtected();
    if (this.#workerOptions === false) return;
    this.#worker = this.#latchkey.startWorker(this.#workerOptions);
  }

  /**
   * Before the app's last hook, `onApplicationShutdown`, in which pools are closed: there the order between modules would
   * decide, and a pool waits for ever for the connection on which the worker listens. Requests that come until the server
   * is closed are answered 503 with `Retry-After`.
   */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#latchkey.close(this.#shutdown);
  }

  async health(): Promise<LatchkeyHealth> {
    if (this.#worker === null) {
      const { ports, store, lifecycle } = this.#latchkey.runtime;
      const asked = await withLimit(ports.clock, healthLimitMs, () => store.verify());
      const storeAnswers = asked.kind === "returned";
      const status = storeAnswers && !lifecycle.isClosing ? "up" : "down";
      return { status, storeAnswers, worker: lifecycle.isClosing ? "stopping" : "off", late: [] };
    }
    const { ok, stopping, store, services } = await this.#worker.health();
    const late = services.filter(({ alive }) => !alive).map(({ name }) => name);
    const worker = stopping ? "stopping" : late.length > 0 ? "late" : "running";
    return { status: ok ? "up" : "down", storeAnswers: store.answers, worker, late };
  }
}

/**
 * A health indicator in the form of `@nestjs/terminus`, for its `HealthCheckService`:
 * `health.check([() => this.latchkey.isHealthy()])`. Provided by `LatchkeyModule`.
 */
export class LatchkeyHealthIndicator {
  readonly #service: LatchkeyService;

  constructor(service: LatchkeyService) {
    this.#service = service;
  }

  /**
   * `down` when the store does not answer within 2 seconds, while the app shuts down, and when a service of its worker has
   * not come round lately. Never rejects.
   *
   * @param key the name in the health check's answer; default `latchkey`
   */
  async isHealthy<K extends string = "latchkey">(key?: K): Promise<Record<K, LatchkeyHealth>> {
    const health = await this.#service.health();
    return { [key ?? "latchkey"]: health } as Record<K, LatchkeyHealth>;
  }
}
