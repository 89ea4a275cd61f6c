/** An operation: a named, protected unit of work, with all its decisions in one place. */

import type { Execution, ServerErrors } from "../engine/classify.ts";
import type { LeaseEnd } from "../engine/record.ts";
import { timerMaxMs } from "../ports.ts";
import type { IsolationLevel } from "../sql/transaction.ts";
import { isStorable } from "../stores/storable.ts";
import type { StoreCapabilities } from "../stores/store.ts";
import type { Lookup } from "./owned-work.ts";
import { dayMs, type Policy } from "./policies/policy.ts";
import { resolveSummary, type SummaryOptions, type SummarySettings } from "./summary.ts";

export interface OperationOptions<E extends Execution = Execution> {
  /**
   * `transaction`: record, business writes and answer commit together. `lease`: the record is reserved first, for work outside
   * the database. `deferred`: the request is stored and answered at once, and a worker runs it as under `lease`; only for
   * operations that own their work. Default: `transaction` if the store has transactions, otherwise `lease`.
   */
  readonly execution?: E;
  /** Whether a request without a key is refused or runs unprotected. Default: the policy's. */
  readonly key?: "required" | "optional";
  /**
   * The scope in which a key is unique. `tenant`: all operations with this scope. `path`: the operation and the path of the
   * request, without query, so that one key on `/items/1` and `/items/2` is two keys; HTTP routes only. Default: the policy's.
   */
  readonly keyScope?: "operation" | "tenant" | "path";
  /**
   * How a duplicate of a running request is answered: at once, or with the first answer if it comes within `waitMs`.
   * No connection is held during the wait. Default `false`: at once.
   */
  readonly waitMs?: number | false;
  /** How long the answer can be replayed, from the end of the attempt. Default: the policy's. */
  readonly retentionMs?: number;
  /** When the key may run as new, from the end of the attempt. Default: `retentionMs`. */
  readonly forgetAfterMs?: number;
  /** How a key is treated between the two. Default: the policy's. */
  readonly reuse?: "reject" | "execute";
  /** What a 5xx answer means. Default: the policy's. */
  readonly serverErrors?: ServerErrors;
  /** An answer with a larger body leaves a tombstone: it never runs again, and replays have no body. Default 1 MiB. */
  readonly answerLimitBytes?: number;
  /** How much of an answer Latchkey buffers in memory until it may be sent; a larger answer fails. Default 32 MiB. */
  readonly answerHoldBytes?: number;
  /**
   * Stores a summary of the request with each record: method, path without query, and the named fields, together at most
   * 4 KiB. Default: the setting of `createLatchkey`, which is off.
   */
  readonly summary?: SummaryOptions | boolean;
  /**
   * Stores facts with each record, about repeated requests and look-ups: the first ten and the last twenty of each kind, and a
   * count. They are written in the background, after the answers, and are lost if the process ends before. Default: true if
   * the store supports them.
   */
  readonly facts?: boolean;

  /** For `transaction`, and for the phases of operations that own their work. Default: the database's. */
  readonly isolation?: IsolationLevel;
  /**
   * `transaction` only: when the handler starts. `pessimistic`: once the store has found that the request is the first of its
   * key. `optimistic`: at once; BEGIN and the look-up travel with the handler's first statement, which saves a round trip. The
   * handler of a duplicate may then run up to its first statement, or further while another request holds the key, before it is
   * rolled back: it must do nothing outside its `tx`. A handler that succeeds without using `tx` is refused. Default
   * `pessimistic`.
   */
  readonly admission?: "pessimistic" | "optimistic";
  /** How long a handler under `transaction`, or a phase, may take before it is rolled back. Default 30 seconds. */
  readonly transactionLimitMs?: number;
  /** `transaction` only: `none` allows a 2xx answer without a write through `tx`. Default `required`. */
  readonly writes?: "required" | "none";

  /** `deferred` only: how long a request may wait for a worker before its answer is 408. Default 24 hours. */
  readonly pendingLimitMs?: number;

  // The following options are for `lease`, and for a worker's attempts under `deferred`.

  /** `lease` only: how long a silent owner keeps the key. More than the p99 of a pause, not of the work. Default 30 seconds. */
  readonly leaseMs?: number;
  /**
   * `lease` only: how long an attempt may take. After that its outcome is unknown; if the operation owns its work and no call
   * is in doubt, the next attempt continues after the finished steps instead. Default 15 minutes.
   */
  readonly attemptLimitMs?: number;
  /**
   * `lease` only: what happens after an attempt died. `resume` continues after the last finished step, and needs an operation
   * that owns its work; `rerun` only if running twice is harmless. Default `reconcile`; under `deferred`, `resume`.
   */
  readonly leaseEnd?: LeaseEnd;
  /**
   * `lease` only: how many attempts one life may have under `resume` or `rerun`, including the first. Under `deferred`, failed
   * attempts count, too; after the last one the answer is 500. Default 5.
   */
  readonly attemptsMax?: number;
  /** `lease` only: true if this error proves that nothing happened. Default: only `NotExecuted` does. */
  readonly isNotExecuted?: (error: unknown) => boolean;
  /** `lease` only: asks the other service about the outcome of an unknown record, if no effect's look-up can. Default: none. */
  readonly lookup?: Lookup;
  /**
   * `lease` only: what happens if the store fails before the work has started. `run-unprotected` runs it, and its duplicates,
   * without a record: the effect may happen twice. Default `refuse`.
   */
  readonly onStoreFailure?: "refuse" | "run-unprotected";
}

export interface Operation<E extends Execution = Execution> {
  readonly name: string;
  readonly execution: E;
  readonly settings: OperationSettings;
}

/** Every option of an operation, resolved. */
export interface OperationSettings {
  readonly key: "required" | "optional";
  readonly keyScope: "operation" | "tenant" | "path";
  readonly waitMs: number | false;
  readonly retentionMs: number;
  readonly forgetAfterMs: number;
  readonly reuse: "reject" | "execute";
  readonly serverErrors: ServerErrors;
  readonly answerLimitBytes: number;
  readonly answerHoldBytes: number;
  readonly summary: SummarySettings;
  readonly facts: boolean;
  readonly isolation: IsolationLevel | null;
  readonly admission: "pessimistic" | "optimistic";
  readonly transactionLimitMs: number;
  readonly writes: "required" | "none";
  readonly pendingLimitMs: number;
  readonly leaseMs: number;
  readonly attemptLimitMs: number;
  readonly leaseEnd: LeaseEnd;
  readonly attemptsMax: number;
  readonly isNotExecuted: (error: unknown) => boolean;
  readonly lookup: Lookup | null;
  readonly onStoreFailure: "refuse" | "run-unprotected";
}

/** Shorter leases would end between two heartbeats of a busy process. */
const leaseMinMs = 300;

/**
 * Resolves and checks an operation.
 *
 * @throws {TypeError} when an option is out of range, or needs a capability that the store does not have.
 */
export function defineOperation<E extends Execution>(
  name: string,
  options: OperationOptions<E>,
  policy: Policy,
  capabilities: StoreCapabilities,
): Operation<E> {
  if (name.length === 0 || name.length > 200 || name === "*" || !isStorable(name)) {
    throw new TypeError(
      `An operation's name has 1 to 200 characters, none of them NUL, and is not "*" (got ${JSON.stringify(name)})`,
    );
  }
  checkChoice(name, "execution", options.execution ?? "lease", ["transaction", "lease", "deferred"]);
  const execution = (options.execution ?? (capabilities.transactions ? "transaction" : "lease")) as E;
  if (execution === "transaction" && !capabilities.transactions) {
    throw new TypeError(`Operation ${name} has execution "transaction", which its store does not support`);
  }
  const settings = {
    ...resolveSettings(options, policy, execution),
    summary: resolveSummary(`Operation ${name}`, options.summary ?? false),
  };
  checkSettings(name, settings);
  checkChoices(name, settings);
  if (execution === "transaction" && settings.onStoreFailure !== "refuse") {
    throw new TypeError(
      `Operation ${name}: execution "transaction" cannot run without the store, so onStoreFailure must be "refuse"`,
    );
  }
  if (settings.admission === "optimistic") checkOptimistic(name, settings, capabilities);
  if (execution === "deferred") checkDeferred(name, settings);
  return Object.freeze({ name, execution, settings: Object.freeze(settings) });
}

/** @throws {TypeError} if the handler cannot start before its transaction is open */
function checkOptimistic(
  name: string,
  { isolation, writes }: OperationSettings,
  capabilities: StoreCapabilities,
): void {
  if (capabilities.optimisticAdmission !== true) {
    throw new TypeError(
      `Operation ${name}: its store does not support optimistic admission; Postgres does, through \`pg\` and Drizzle`,
    );
  }
  if (isolation === "serializable") {
    throw new TypeError(
      `Operation ${name}: under isolation "serializable" Latchkey looks the key up before the transaction, so admission must be "pessimistic"`,
    );
  }
  if (writes === "none") {
    throw new TypeError(
      `Operation ${name}: under admission "optimistic" a handler must write through its \`tx\`, so writes must be "required"`,
    );
  }
}

/** @throws {TypeError} for options that have no effect if a worker runs the request */
function checkDeferred(name: string, { leaseEnd, waitMs }: OperationSettings): void {
  if (leaseEnd === "rerun") {
    throw new TypeError(
      `Operation ${name}: under execution "deferred" leaseEnd must be "resume" or "reconcile": workers continue after finished steps`,
    );
  }
  if (waitMs !== false) {
    throw new TypeError(
      `Operation ${name}: under execution "deferred" waitMs must be false: clients wait on the status resource`,
    );
  }
}

function resolveSettings(
  options: OperationOptions,
  policy: Policy,
  execution: Execution,
): Omit<OperationSettings, "summary"> {
  const retentionMs = options.retentionMs ?? policy.retentionMs;
  return {
    key: options.key ?? policy.key,
    keyScope: options.keyScope ?? policy.keyScope,
    waitMs: options.waitMs ?? false,
    retentionMs,
    forgetAfterMs: options.forgetAfterMs ?? retentionMs,
    reuse: options.reuse ?? policy.reuse,
    serverErrors: options.serverErrors ?? policy.serverErrors,
    answerLimitBytes: options.answerLimitBytes ?? 1024 * 1024,
    answerHoldBytes: options.answerHoldBytes ?? 32 * 1024 * 1024,
    facts: options.facts ?? true,
    isolation: options.isolation ?? null,
    admission: options.admission ?? "pessimistic",
    transactionLimitMs: options.transactionLimitMs ?? 30_000,
    writes: options.writes ?? "required",
    pendingLimitMs: options.pendingLimitMs ?? dayMs,
    leaseMs: options.leaseMs ?? 30_000,
    attemptLimitMs: options.attemptLimitMs ?? 15 * 60 * 1000,
    leaseEnd: options.leaseEnd ?? (execution === "deferred" ? "resume" : "reconcile"),
    attemptsMax: options.attemptsMax ?? 5,
    isNotExecuted: options.isNotExecuted ?? (() => false),
    lookup: options.lookup ?? null,
    onStoreFailure: options.onStoreFailure ?? "refuse",
  };
}

function checkSettings(name: string, settings: OperationSettings): void {
  const positive = [
    "retentionMs",
    "forgetAfterMs",
    "answerLimitBytes",
    "answerHoldBytes",
    "transactionLimitMs",
    "pendingLimitMs",
    "leaseMs",
    "attemptLimitMs",
    "attemptsMax",
  ] as const;
  for (const field of positive) {
    const value = settings[field];
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new TypeError(`Operation ${name}: ${field} must be a positive whole number (got ${value})`);
    }
  }
  for (const field of ["transactionLimitMs", "leaseMs", "attemptLimitMs"] as const) {
    if (settings[field] > timerMaxMs) {
      throw new TypeError(
        `Operation ${name}: ${field} must be at most ${timerMaxMs} (got ${settings[field]})`,
      );
    }
  }
  if (settings.waitMs !== false && !(settings.waitMs > 0 && settings.waitMs <= 60_000)) {
    throw new TypeError(
      `Operation ${name}: waitMs must be false or between 1 and 60,000 (got ${settings.waitMs})`,
    );
  }
  if (settings.forgetAfterMs < settings.retentionMs) {
    throw new TypeError(`Operation ${name}: forgetAfterMs must not be shorter than retentionMs`);
  }
  if (settings.leaseMs < leaseMinMs) {
    throw new TypeError(`Operation ${name}: leaseMs must be at least ${leaseMinMs}`);
  }
}

/** A value that the types exclude (JavaScript, a newer configuration) must not silently act as the last alternative. */
function checkChoices(name: string, settings: OperationSettings): void {
  checkChoice(name, "onStoreFailure", settings.onStoreFailure, ["refuse", "run-unprotected"]);
  checkChoice(name, "key", settings.key, ["required", "optional"]);
  checkChoice(name, "keyScope", settings.keyScope, ["operation", "tenant", "path"]);
  checkChoice(name, "reuse", settings.reuse, ["reject", "execute"]);
  checkChoice(name, "serverErrors", settings.serverErrors, ["by-outcome", "store", "release"]);
  checkChoice(name, "writes", settings.writes, ["required", "none"]);
  checkChoice(name, "admission", settings.admission, ["pessimistic", "optimistic"]);
  checkChoice(name, "leaseEnd", settings.leaseEnd, ["reconcile", "resume", "rerun"]);
  checkChoice(name, "isolation", settings.isolation, [
    null,
    "read committed",
    "repeatable read",
    "serializable",
  ]);
  if (typeof settings.isNotExecuted !== "function") {
    throw new TypeError(`Operation ${name}: isNotExecuted must be a function`);
  }
  if (settings.lookup !== null && typeof settings.lookup !== "function") {
    throw new TypeError(`Operation ${name}: lookup must be a function`);
  }
}

function checkChoice<T>(name: string, field: string, value: T, choices: readonly T[]): void {
  if (choices.includes(value)) return;
  const wanted = choices.filter((choice) => choice !== null).join(", ");
  throw new TypeError(`Operation ${name}: ${field} must be one of ${wanted} (got ${String(value)})`);
}
