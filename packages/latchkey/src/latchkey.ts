/** The one object a service makes: operations are defined on it, adapters are built from it. */

import type { HandlerContext, Result, Submission, Work } from "./attempt/attempt.ts";
import { guardNesting } from "./attempt/nesting.ts";
import { type RunRequest, type RunResult, runFunction } from "./attempt/run-function.ts";
import { runLease } from "./attempt/run-lease.ts";
import { runTransaction } from "./attempt/run-transaction.ts";
import type { Runtime } from "./attempt/runtime.ts";
import { type Codec, identityCodec } from "./codec.ts";
import type { Execution } from "./engine/classify.ts";
import { defineOperation, type Operation, type OperationOptions } from "./operation.ts";
import { ietf } from "./policies/ietf.ts";
import type { Policy } from "./policies/policy.ts";
import { type Ports, systemPorts } from "./ports.ts";
import type { Store } from "./stores/store.ts";
import { createEmitter } from "./telemetry/emitter.ts";
import type { EventListener } from "./telemetry/events.ts";

export interface LatchkeyOptions<Tx> {
  readonly store: Store<Tx>;
  /** Which published practice to follow where they disagree. Default `ietf`. */
  readonly policy?: Policy;
  /** What stored answers pass through. Default: none. */
  readonly codec?: Codec;
  /** Clock and randomness. Default: the system's. */
  readonly ports?: Ports;
  /** Told about everything that is decided. Must not throw. */
  readonly onEvent?: EventListener;
  /** Key of the hash under which idempotency keys appear in events and logs. Default: random for each process. */
  readonly logSecret?: string;
  /**
   * Whether a 2xx that never used its `tx` is an error. Default: true outside production (`NODE_ENV`); in production it
   * is reported as the event `tx_unused`.
   */
  readonly strict?: boolean;
}

export interface Latchkey<Tx> {
  readonly policy: Policy;
  readonly runtime: Runtime<Tx>;

  /**
   * Defines an operation. Names are unique.
   *
   * @throws {TypeError} when an option is out of range, or asks for what the store cannot do.
   */
  operation<E extends Execution = "transaction">(name: string, options?: OperationOptions<E>): Operation<E>;

  /**
   * Runs `work` once for this submission, or says why not. What HTTP adapters and other front ends are built on.
   *
   * @throws {StoreError} when the store could not be used; nothing ran, or all of it was rolled back.
   * @throws whatever `work` throws, when no other attempt has completed meanwhile.
   */
  execute<E extends Execution>(
    operation: Operation<E>,
    submission: Submission,
    work: Work<Tx, E>,
  ): Promise<Result>;

  /**
   * Runs a function under an operation, without HTTP. Its result must be JSON; every caller, the first included, gets
   * the value after one round trip through JSON.
   *
   * @throws as `execute` does.
   */
  run<E extends Execution, R>(
    operation: Operation<E>,
    request: RunRequest,
    work: (context: HandlerContext<Tx, E>) => Promise<R>,
  ): Promise<RunResult<R>>;
}

/** Makes the object that operations and adapters hang on. It opens nothing and starts no timer. */
export function createLatchkey<Tx>(options: LatchkeyOptions<Tx>): Latchkey<Tx> {
  const ports = options.ports ?? systemPorts;
  const runtime: Runtime<Tx> = {
    store: options.store,
    codec: options.codec ?? identityCodec,
    ports,
    strict: options.strict ?? process.env.NODE_ENV !== "production",
    ...createEmitter(options.onEvent, options.logSecret, ports.random),
  };
  const policy = options.policy ?? ietf;
  const names = new Set<string>();
  const execute: Latchkey<Tx>["execute"] = (operation, submission, work) =>
    guardNesting(submission.key, () =>
      operation.execution === "transaction"
        ? runTransaction(runtime, operation, submission, work as Work<Tx, "transaction">)
        : runLease(runtime, operation, submission, work as Work<Tx, "lease">),
    );
  return {
    policy,
    runtime,
    execute,
    operation(name, operationOptions = {}) {
      if (names.has(name)) throw new TypeError(`Operation ${name} is defined twice`);
      const operation = defineOperation(name, operationOptions, policy, options.store.capabilities);
      names.add(name);
      return operation;
    },
    run: (operation, request, work) => runFunction(execute, operation, request, work),
  };
}
