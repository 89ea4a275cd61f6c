/** The one object a service makes: operations are defined on it, adapters are built from it. */

import type { HandlerContext, Result, Submission, Work } from "./attempt/attempt.ts";
import { executeOwned } from "./attempt/execute-owned.ts";
import { FinishedKeys } from "./attempt/finished-keys.ts";
import { guardNesting } from "./attempt/nesting.ts";
import {
  type OwnedRunRequest,
  type OwnedRunResult,
  type RunRequest,
  type RunResult,
  runFunction,
  runOwnedFunction,
} from "./attempt/run-function.ts";
import { runLease } from "./attempt/run-lease.ts";
import { runTransaction } from "./attempt/run-transaction.ts";
import { orUnprotected } from "./attempt/run-unprotected.ts";
import type { Runtime } from "./attempt/runtime.ts";
import { createWake } from "./attempt/wake.ts";
import { type Codec, identityCodec } from "./codec.ts";
import {
  compareLedger,
  type LedgerComparison,
  type LedgerObject,
  type LedgerReport,
} from "./compare-ledger.ts";
import { defineEffect } from "./effects/define-effect.ts";
import type { Effect, EffectOptions } from "./effects/effect.ts";
import type { AnyEffect } from "./effects/run-effect.ts";
import type { DirectExecution, Execution } from "./engine/classify.ts";
import { storedKey } from "./key/stored-key.ts";
import { startWorker, type Worker, type WorkerOptions } from "./maintenance/worker.ts";
import { defineOperation, type Operation, type OperationOptions } from "./operation.ts";
import {
  checkBareOperation,
  defineOwnedOperation,
  type OwnedOperation,
  type OwnedOperationOptions,
  ownsItsWork,
} from "./owned-operation.ts";
import { ietf } from "./policies/ietf.ts";
import type { Policy } from "./policies/policy.ts";
import { type Ports, systemPorts } from "./ports.ts";
import { type CircuitOptions, resolveCircuit } from "./resilience/circuit.ts";
import { type Breaker, createBreaker, guardedStore } from "./resilience/guarded-store.ts";
import type { Limits } from "./resilience/limits.ts";
import { type SettledBy, type SettleResult, type SettleTarget, type SettleWith, settle } from "./settle.ts";
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
   * Keeps idempotency keys out of the store: records hold HMAC-SHA-256 of (tenant, scope, key) under this secret of at
   * least 32 characters, the same for every process. For services whose clients put personal data into keys.
   *
   * Setting, changing or removing it forgets every key: a retry of a request from before runs as new. So do it where no
   * process with the old setting still runs and no client still retries, or with new names for the operations. Default:
   * none, keys are stored as they are sent.
   */
  readonly keySecret?: string | Uint8Array;
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
   * Defines an operation that owns its work. Names are unique.
   *
   * @throws {TypeError} when an option is out of range, or asks for what the store cannot do.
   */
  operation<I, E extends Execution = "transaction">(
    name: string,
    options: OwnedOperationOptions<I, Tx, E>,
  ): OwnedOperation<E, I>;
  /** Defines an operation whose work is handed over with each request. Throws as above. */
  operation<E extends DirectExecution = "transaction">(
    name: string,
    options?: OperationOptions<E>,
  ): Operation<E>;

  /**
   * Defines an effect: one kind of outbound call. Names are unique.
   *
   * @throws {TypeError} when an option is missing, out of range, or of another kind of de-duplication.
   */
  effect<I, R>(name: string, options: EffectOptions<I, R, Tx>): Effect<I, R>;

  /**
   * Runs `work` once for this submission, or says why not. What HTTP adapters and other front ends are built on. The
   * submission's key is the one that the client sent.
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
   * As `execute`, for an operation that owns its work. The input must be JSON.
   *
   * @throws as `execute` does; {TypeError} when the input has no JSON form.
   */
  executeOwned<E extends Execution, I>(
    operation: OwnedOperation<E, I>,
    submission: Submission,
    input: I,
  ): Promise<Result>;

  /**
   * Runs an operation that owns its work, without HTTP.
   *
   * @throws as `executeOwned` does.
   */
  run<E extends Execution, I>(
    operation: OwnedOperation<E, I>,
    request: OwnedRunRequest<I>,
  ): Promise<OwnedRunResult>;
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

  /**
   * Settles an `unknown` record: what became of it is known now. For webhooks and operators. Repeating it changes nothing.
   *
   * @param by who says so; default: a webhook of the other side's
   * @throws {TypeError} without a proof, or when a result has no JSON form.
   * @throws {StoreError} when the store could not be used; say it again.
   */
  settle(target: SettleTarget, settlement: SettleWith, by?: SettledBy): Promise<SettleResult>;

  /**
   * Starts a worker in this process: it runs deferred operations, delivers the outbox, goes on with dead attempts, finds
   * out what became of unknowns, and cleans. Any number of processes may have one, and none needs an option. It keeps its
   * process alive until its `stop` has ended.
   *
   * @throws {TypeError} when an option is out of range.
   */
  startWorker(options?: WorkerOptions): Worker;

  /**
   * Compares what the other side has with the finished calls of an effect, page by page.
   *
   * @throws {StoreError} when the store could not be used.
   */
  compareLedger<I, R, O extends LedgerObject>(
    comparison: LedgerComparison<I, R, O>,
  ): Promise<LedgerReport<O>>;
}

/**
 * Makes the object that operations and adapters hang on. It opens nothing and starts no timer.
 *
 * @throws {TypeError} when an option is out of range.
 */
export function createLatchkey<Tx>(options: LatchkeyOptions<Tx>): Latchkey<Tx> {
  const operations = new Map<string, Operation>();
  const effects = new Map<string, AnyEffect>();
  const runtime = assembleRuntime(options, operations, effects);
  const policy = options.policy ?? ietf;
  const { guard } = runtime;
  const execute: Latchkey<Tx>["execute"] = (operation, sent, work) => {
    const submission = { ...sent, key: runtime.storedKey(sent.key) };
    return guardNesting(submission.key, (inside) => {
      if (ownsItsWork(operation)) throw new TypeError(`Operation ${operation.name} owns its work: use serve`);
      const nested: typeof work = (context) => inside(() => work(context));
      if (operation.execution === "transaction") {
        const transactionWork = nested as Work<Tx, "transaction">;
        return guard(() => runTransaction(runtime, operation, submission, transactionWork));
      }
      const run = (leaseWork: Work<Tx, "lease">) =>
        guard(() => runLease(runtime, operation, submission, leaseWork));
      return operation.settings.onStoreFailure === "refuse"
        ? run(nested as Work<Tx, "lease">)
        : orUnprotected(runtime, operation, submission, nested as Work<Tx, "lease">, run);
    });
  };
  const owned: Latchkey<Tx>["executeOwned"] = (operation, sent, input) => {
    const submission = { ...sent, key: runtime.storedKey(sent.key) };
    return guardNesting(submission.key, (inside) =>
      inside(() => guard(() => executeOwned(runtime, operation, submission, input))),
    );
  };
  return {
    policy,
    runtime,
    execute,
    operation: <E extends Execution, I>(
      name: string,
      operationOptions: OperationOptions<E> | OwnedOperationOptions<I, Tx, E> = {},
    ): OwnedOperation<E, I> => {
      if (operations.has(name)) throw new TypeError(`Operation ${name} is defined twice`);
      const { capabilities } = options.store;
      const operation =
        "run" in operationOptions
          ? defineOwnedOperation(name, operationOptions, policy, capabilities)
          : defineOperation(name, operationOptions, policy, capabilities);
      if (!("work" in operation)) checkBareOperation(operation);
      operations.set(name, operation);
      // The overloads say which of the two it is.
      return operation as OwnedOperation<E, I>;
    },
    effect(name, effectOptions) {
      if (effects.has(name)) throw new TypeError(`Effect ${name} is defined twice`);
      const effect = defineEffect(name, effectOptions);
      effects.set(name, effect);
      return effect;
    },
    executeOwned: owned,
    run: <E extends Execution, I, R>(
      operation: Operation<E> | OwnedOperation<E, I>,
      request: RunRequest,
      work?: (context: HandlerContext<Tx, E>) => Promise<R>,
    ): Promise<never> => {
      const result =
        work === undefined
          ? runOwnedFunction(operation, request, (submission) =>
              owned(operation as OwnedOperation<E, I>, submission, request.input as I),
            )
          : runFunction(execute, operation, request, work);
      return result as Promise<never>;
    },
    settle: (target, settlement, by) => settle(runtime, target, settlement, by),
    startWorker: (workerOptions) => startWorker(runtime, workerOptions),
    compareLedger: (comparison) => compareLedger(runtime, comparison),
  };
}

function assembleRuntime<Tx>(
  options: LatchkeyOptions<Tx>,
  operations: Runtime<Tx>["operations"],
  effects: Runtime<Tx>["effects"],
): Runtime<Tx> {
  const ports = options.ports ?? systemPorts;
  const emitter = createEmitter(options.onEvent, options.logSecret, ports.random);
  const breaker = breakerOf(options, ports, emitter.emit);
  return {
    storedKey: storedKey(options.keySecret),
    store: breaker === null ? options.store : guardedStore(options.store, breaker),
    codec: options.codec ?? identityCodec,
    ports,
    strict: options.strict ?? process.env.NODE_ENV !== "production",
    limits: options.limits ?? {},
    guard: breaker?.guard ?? ((run) => run()),
    operations,
    effects,
    finishedKeys: new FinishedKeys(),
    hints: createWake(options.store.hints),
    ...emitter,
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
