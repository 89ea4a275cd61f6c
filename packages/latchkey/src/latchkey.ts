/** The one object a service makes: operations are defined on it, adapters are built from it. */

import { identityCodec } from "./codec.ts";
import { defineEffect } from "./effects/define-effect.ts";
import type { Effect, EffectOptions } from "./effects/effect.ts";
import type { AnyEffect } from "./effects/run-effect.ts";
import type { DirectExecution, Execution } from "./engine/classify.ts";
import { boundedCodec } from "./execution/bounded-codec.ts";
import { identityCheck } from "./execution/check-sent.ts";
import { createCommitHints } from "./execution/commit-hints.ts";
import { FactBuffer } from "./execution/fact-buffer.ts";
import { FinishedKeys } from "./execution/finished-keys.ts";
import { ActiveKeyCap } from "./execution/guards/active-key-cap.ts";
import { type Breaker, createBreaker, guardedStore } from "./execution/guards/guarded-store.ts";
import { checkLatchkey, type LatchkeyOptions } from "./execution/latchkey-options.ts";
import { type CloseOptions, Lifecycle } from "./execution/lifecycle.ts";
import { checkOverviewOptions, type OverviewOptions, overviewOf } from "./execution/overview.ts";
import {
  type OwnedRunRequest,
  type OwnedRunResult,
  type RunRequest,
  type RunResult,
  runFunction,
  runOwnedFunction,
} from "./execution/run-function.ts";
import type { Runtime } from "./execution/runtime.ts";
import {
  type SettledBy,
  type SettleResult,
  type SettleTarget,
  type SettleWith,
  settle,
} from "./execution/settle.ts";
import { submit, submitOwned } from "./execution/submit.ts";
import { clientKeyOfStored, storedKey } from "./key/hash-key.ts";
import { checkOptions } from "./known-options.ts";
import { requireNode } from "./node-version.ts";
import type { HandlerContext, Result, Submission, Work } from "./operations/attempt.ts";
import { defineOperation, type Operation, type OperationOptions } from "./operations/operation.ts";
import { checkApplies, operationOptionNames } from "./operations/operation-options.ts";
import {
  checkBareOperation,
  defineOwnedOperation,
  type OwnedOperation,
  type OwnedOperationOptions,
} from "./operations/owned-operation.ts";
import { ietf } from "./operations/policies/ietf.ts";
import type { Policy } from "./operations/policies/policy.ts";
import { type Ports, systemPorts } from "./ports.ts";
import type { Overview } from "./stores/overview.ts";
import type { Store } from "./stores/store.ts";
import { createEmitter } from "./telemetry/emitter.ts";
import { resolveCircuit } from "./time/circuit-breaker.ts";
import {
  compareLedger,
  type LedgerComparison,
  type LedgerObject,
  type LedgerReport,
} from "./workers/compare-ledger.ts";
import { type WorkOptions, type WorkReport, work } from "./workers/work.ts";
import { startWorker, type Worker, type WorkerOptions } from "./workers/worker.ts";

export type { LatchkeyOptions };

requireNode(process.versions?.node);

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
   * Runs `work` once for this submission, or returns why not. HTTP adapters and other front ends are built on it. The
   * submission's key is the one that the client sent.
   *
   * @throws {LatchkeyError} `identity-is-credential`, `invalid-key`.
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
   * Settles an `unknown` record once its outcome is known. For webhooks and operators. Repeating the call changes nothing.
   *
   * @param by who settles it; default: a webhook of the other service
   * @throws {TypeError} without a proof, or when a result has no JSON form.
   * @throws {StoreError} when the store could not be used; repeat the call.
   */
  settle(target: SettleTarget, settlement: SettleWith, by?: SettledBy): Promise<SettleResult>;

  /**
   * Starts a worker in this process: it runs deferred operations, delivers the outbox, resumes dead attempts, reconciles
   * unknown outcomes, and cleans up. Any number of processes may have one, and no option is required. It keeps its process
   * alive until its `stop` has ended.
   *
   * @throws {TypeError} when an option is out of range.
   */
  startWorker(options?: WorkerOptions): Worker;

  /**
   * A worker that runs once: it does a worker's work until nothing is due or `untilMs` has passed, and ends. For functions
   * and jobs that a scheduler starts. Any number may run at once, also beside workers. When one is killed, the next one goes
   * on with its work once the leases have ended.
   *
   * @throws {TypeError} when an option is out of range.
   * @throws {WorkFailed} when a service could not use the store; its `report` has the work of the others.
   */
  work(options?: WorkOptions): Promise<WorkReport>;

  /**
   * Shuts down in order: refuses requests from now on (503), stops the workers and consumers of this latchkey, waits for
   * the attempts that are running, and makes the store release the connections that it holds. What you have created (pool,
   * broker's connection, HTTP server) stays open: close it afterwards. Resolves to whether everything ended in time; an
   * attempt that did not is left to its lease. Calling it again changes nothing.
   *
   * @throws {TypeError} when the limit is out of range.
   */
  close(options?: CloseOptions): Promise<boolean>;

  /**
   * Counts what waits in the store and reports since when: for gauges, alerts and dashboards. On Postgres it is one statement
   * whose work does not grow with the number of records.
   *
   * @throws {TypeError} when an option is unknown or out of range.
   * @throws {StoreError} when the store could not be used.
   */
  overview(options?: OverviewOptions): Promise<Overview>;

  /**
   * Compares what the other service has with the finished calls of an effect, page by page.
   *
   * @throws {StoreError} when the store could not be used.
   */
  compareLedger<I, R, O extends LedgerObject>(
    comparison: LedgerComparison<I, R, O>,
  ): Promise<LedgerReport<O>>;
}

/**
 * Makes the object on which operations are defined and from which adapters are built. It opens nothing and starts no timer.
 *
 * @throws {TypeError} when an option is out of range.
 * @throws {LatchkeyError} `store-cannot-count`: `limits.activeKeys` on a store that cannot count.
 */
export function createLatchkey<Tx>(options: LatchkeyOptions<Tx>): Latchkey<Tx> {
  checkLatchkey(options as LatchkeyOptions<never>);
  const operations = new Map<string, Operation>();
  const effects = new Map<string, AnyEffect>();
  const runtime = assembleRuntime(options, operations, effects);
  const policy = options.policy ?? ietf;
  const { lifecycle } = runtime;
  const execute: Latchkey<Tx>["execute"] = (operation, sent, handler) =>
    submit(runtime, operation, sent, handler);
  const owned: Latchkey<Tx>["executeOwned"] = (operation, sent, input) =>
    submitOwned(runtime, operation, sent, input);
  return {
    policy,
    runtime,
    execute,
    operation: <E extends Execution, I>(
      name: string,
      operationOptions: OperationOptions<E> | OwnedOperationOptions<I, Tx, E> = {},
    ): OwnedOperation<E, I> => {
      if (operations.has(name)) throw new TypeError(`Operation ${name} is defined twice${shared}`);
      const summary = operationOptions.summary ?? options.summary;
      const given = summary === undefined ? operationOptions : { ...operationOptions, summary };
      const operation = definedOperation(name, given, policy, options.store);
      operations.set(name, operation);
      // The overloads decide which of the two types it has.
      return operation as OwnedOperation<E, I>;
    },
    effect(name, effectOptions) {
      if (effects.has(name)) throw new TypeError(`Effect ${name} is defined twice${shared}`);
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
    startWorker(workerOptions) {
      if (runtime.lifecycle.isClosing) throw new TypeError("startWorker: latchkey.close() was called");
      const worker = startWorker(runtime, workerOptions);
      return { ...worker, stop: runtime.lifecycle.stopping(() => worker.stop()) };
    },
    work: (workOptions) => work(runtime, workOptions),
    close: (closeOptions = {}) =>
      lifecycle.close(closeOptions, async () => {
        // After the last request, because that one may still have reported a fact.
        await runtime.facts?.stop();
        await options.store.close?.();
      }),
    overview: async (overviewOptions = {}) =>
      overviewOf(runtime.store, checkOverviewOptions(overviewOptions)),
    compareLedger: (comparison) => compareLedger(runtime, comparison),
  };
}

const shared = ": define it once for each latchkey, and share what was returned";

/** @throws {TypeError} when an option is unknown, out of range, or has no meaning for this operation. */
function definedOperation<Tx, E extends Execution, I>(
  name: string,
  options: OperationOptions<E> | OwnedOperationOptions<I, Tx, E>,
  policy: Policy,
  { name: store, capabilities, leasesRefused, summaries, facts }: Store<Tx>,
): Operation {
  checkOptions(`Operation ${name}`, options, operationOptionNames);
  const operation =
    "run" in options
      ? defineOwnedOperation(name, options, policy, capabilities)
      : defineOperation(name, options, policy, capabilities);
  if (!("work" in operation)) checkBareOperation(operation);
  checkApplies(operation, options);
  if (operation.execution !== "transaction" && leasesRefused !== undefined) {
    throw new TypeError(`Operation ${name}: execution "${operation.execution}" ${leasesRefused}`);
  }
  if (operation.settings.summary !== null && summaries === undefined) {
    throw new TypeError(`Operation ${name}: summary: store ${store} keeps no summaries of requests`);
  }
  if (options.facts === true && facts === undefined) {
    throw new TypeError(`Operation ${name}: facts: store ${store} keeps no facts`);
  }
  return operation;
}

function assembleRuntime<Tx>(
  options: LatchkeyOptions<Tx>,
  operations: Runtime<Tx>["operations"],
  effects: Runtime<Tx>["effects"],
): Runtime<Tx> {
  const ports = options.ports ?? systemPorts;
  const emitter = createEmitter(options.onEvent, options.logSecret, ports.random);
  const breaker = breakerOf(options, ports, emitter.emit);
  const lifecycle = new Lifecycle(ports.clock);
  return {
    checkIdentity: identityCheck(options.allowCredentialIdentities ?? false),
    storedKey: storedKey(options.keySecret),
    clientKeyOfStored: (kept) => (options.keySecret === undefined ? clientKeyOfStored(kept) : null),
    store: breaker === null ? options.store : guardedStore(options.store, breaker),
    codec: boundedCodec(options.codec ?? identityCodec, ports.clock),
    redact: options.redact ?? null,
    ports,
    strict: options.strict ?? process.env.NODE_ENV !== "production",
    limits: options.limits ?? {},
    tracing: options.tracing ?? null,
    activeKeys: activeKeyCapOf(options, ports, emitter.emit, lifecycle),
    facts: factBufferOf(options.store, ports, emitter.emit),
    guard: breaker?.guard ?? ((run) => run()),
    operations,
    effects,
    finishedKeys: new FinishedKeys(),
    lifecycle,
    hints: createCommitHints(options.store.hints),
    ...emitter,
  };
}

function activeKeyCapOf<Tx>(
  { store, limits }: LatchkeyOptions<Tx>,
  { clock }: Ports,
  emit: Runtime<Tx>["emit"],
  lifecycle: Lifecycle,
): ActiveKeyCap | null {
  if (limits?.activeKeys === undefined) return null;
  const cap = new ActiveKeyCap(store, limits.activeKeys, clock, (error) =>
    emit({ type: "service_error", service: "active-key-counter", error }),
  );
  lifecycle.stopping(() => cap.stop());
  return cap;
}

function factBufferOf<Tx>(
  { facts }: Store<Tx>,
  { clock }: Ports,
  emit: Runtime<Tx>["emit"],
): FactBuffer | null {
  if (facts === undefined) return null;
  return new FactBuffer(facts, clock, {
    onDropped: (count, error) => emit({ type: "facts_dropped", count, error }),
  });
}

function breakerOf<Tx>(
  { store, circuitBreaker }: LatchkeyOptions<Tx>,
  { clock }: Ports,
  emit: Runtime<Tx>["emit"],
): Breaker | null {
  if (store.ownCircuits && circuitBreaker) {
    throw new TypeError(`createLatchkey: circuitBreaker belongs to the options of the store (${store.name})`);
  }
  return circuitBreaker === false || store.ownCircuits
    ? null
    : createBreaker(store.name, resolveCircuit(circuitBreaker), clock, emit);
}
