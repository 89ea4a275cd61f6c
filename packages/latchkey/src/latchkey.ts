/** The one object a service makes: operations are defined on it, adapters are built from it. */

import type { HandlerContext, Result, Submission, Work } from "./attempt/attempt.ts";
import { guardNesting } from "./attempt/nesting.ts";
import { type RunRequest, type RunResult, runFunction } from "./attempt/run-function.ts";
import { runLease } from "./attempt/run-lease.ts";
import { runTransaction } from "./attempt/run-transaction.ts";
import { orUnprotected } from "./attempt/run-unprotected.ts";
import type { Runtime } from "./attempt/runtime.ts";
import { type Codec, identityCodec } from "./codec.ts";
import type { Execution } from "./engine/classify.ts";
import { defineOperation, type Operation, type OperationOptions } from "./operation.ts";
import { ietf } from "./policies/ietf.ts";
import type { Policy } from "./policies/policy.ts";
import { type Ports, systemPorts } from "./ports.ts";
import { type CircuitOptions, resolveCircuit } from "./resilience/circuit.ts";
import { type Breaker, createBreaker, guardedStore } from "./resilience/guarded-store.ts";
import type { Limits } from "./resilience/limits.ts";
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
  /**
   * When to refuse new requests without asking a store that does not answer, and for how long; then one request at a time
   * finds out whether it is back. Attempts that have begun go on asking. `false`: always ask. Default: 5 failures in a row,
   * 1 second.
   */
  readonly circuitBreaker?: CircuitOptions | false;
  /**
   * Rate limiters that count per tenant, such as those of rate-limiter-flexible: `lookups` before the store is asked,
   * `newKeys` before a key's first record is written (in the open transaction, so choose a quick one). Over a limit nothing
   * runs: 429 `too-many-keys`. Default: none.
   */
  readonly limits?: Limits;
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

/**
 * Makes the object that operations and adapters hang on. It opens nothing and starts no timer.
 *
 * @throws {TypeError} when an option is out of range.
 */
export function createLatchkey<Tx>(options: LatchkeyOptions<Tx>): Latchkey<Tx> {
  const ports = options.ports ?? systemPorts;
  const emitter = createEmitter(options.onEvent, options.logSecret, ports.random);
  const breaker = breakerOf(options, ports, emitter.emit);
  const runtime: Runtime<Tx> = {
    store: breaker === null ? options.store : guardedStore(options.store, breaker),
    codec: options.codec ?? identityCodec,
    ports,
    strict: options.strict ?? process.env.NODE_ENV !== "production",
    limits: options.limits ?? {},
    ...emitter,
  };
  const policy = options.policy ?? ietf;
  const names = new Set<string>();
  const guard = breaker?.guard ?? (<T>(run: () => Promise<T>) => run());
  const execute: Latchkey<Tx>["execute"] = (operation, submission, work) =>
    guardNesting(submission.key, () => {
      if (operation.execution === "transaction") {
        const transactionWork = work as Work<Tx, "transaction">;
        return guard(() => runTransaction(runtime, operation, submission, transactionWork));
      }
      const run = (leaseWork: Work<Tx, "lease">) =>
        guard(() => runLease(runtime, operation, submission, leaseWork));
      return operation.settings.onStoreFailure === "refuse"
        ? run(work as Work<Tx, "lease">)
        : orUnprotected(runtime, operation, submission, work as Work<Tx, "lease">, run);
    });
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

function breakerOf<Tx>(
  { store, circuitBreaker }: LatchkeyOptions<Tx>,
  { clock }: Ports,
  emit: Runtime<Tx>["emit"],
): Breaker | null {
  return circuitBreaker === false
    ? null
    : createBreaker(store.name, resolveCircuit(circuitBreaker), clock, emit);
}
