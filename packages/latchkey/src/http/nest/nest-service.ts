/** Latchkey's part in a Nest app's lifecycle. */

import type { CloseOptions } from "../../execution/lifecycle.ts";
import type { Latchkey } from "../../latchkey.ts";
import { withLimit } from "../../time/time-limit.ts";
import type { Worker, WorkerOptions } from "../../workers/worker.ts";
import { requireProtected } from "./idempotent.ts";

/** The health of Latchkey, without error messages, which may contain hosts and values. */
export interface LatchkeyHealth {
  readonly status: "up" | "down";
  readonly storeAnswers: boolean;
  readonly worker: "off" | "running" | "late" | "stopping";
  /** Services of the worker whose last round is too long ago. */
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

  /** Runs when every operation and effect of the app's providers is defined. */
  onApplicationBootstrap(): void {
    requireProtected();
    if (this.#workerOptions === false) return;
    this.#worker = this.#latchkey.startWorker(this.#workerOptions);
  }

  /**
   * Runs before the app's last hook, `onApplicationShutdown`, in which apps close their pools. In that hook the order of modules
   * would decide, and a pool would wait forever for the connection on which the worker listens. Until the server is closed,
   * requests get 503 with `Retry-After`.
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
   * `down` when the store does not answer within 2 seconds, when the app shuts down, and when the last round of one of the
   * worker's services is too long ago. Never rejects.
   *
   * @param key the name in the health check's result; default `latchkey`
   */
  async isHealthy<K extends string = "latchkey">(key?: K): Promise<Record<K, LatchkeyHealth>> {
    const health = await this.#service.health();
    return { [key ?? "latchkey"]: health } as Record<K, LatchkeyHealth>;
  }
}
