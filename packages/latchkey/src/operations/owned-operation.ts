/** Operations that own their work: their options and the checks. */

import type { Execution } from "../engine/classify.ts";
import { isStorable } from "../stores/storable.ts";
import type { StoreCapabilities } from "../stores/store.ts";
import { defineOperation, type Operation, type OperationOptions } from "./operation.ts";
import type { OwnWork, Run } from "./owned-work.ts";
import type { Policy } from "./policies/policy.ts";

export interface OwnedOperationOptions<I, Tx, E extends Execution = Execution> extends OperationOptions<E> {
  /** Change it whenever the list of steps changes: records that began under another version are not resumed. */
  readonly version: string;
  /** The work. Input and results must be JSON; the first run also gets its input after a round trip through JSON. */
  readonly run: Run<I, Tx, E>;
}

export interface OwnedOperation<E extends Execution = Execution, I = never> extends Operation<E> {
  /** Its run takes the transactions of the latchkey that it was defined on. */
  readonly work: OwnWork<I, never, E>;
}

/** The input type of an operation that owns its work. */
export type InputOf<O extends OwnedOperation> = O extends OwnedOperation<infer _, infer I> ? I : never;

/** An operation whose work runs under a lease, with the transactions of its own latchkey; under `deferred` a worker runs it. */
export interface LeasedOperation<Tx> extends Operation<"lease" | "deferred"> {
  readonly work: OwnWork<never, Tx, "deferred">;
}

const versionLengthMax = 200;

/** @throws {TypeError} if an option is missing or out of range, or needs a capability that the store does not have. */
export function defineOwnedOperation<I, Tx, E extends Execution>(
  name: string,
  options: OwnedOperationOptions<I, Tx, E>,
  policy: Policy,
  capabilities: StoreCapabilities,
): OwnedOperation<E, I> {
  const { version, run, ...others } = options;
  if (typeof run !== "function") throw new TypeError(`Operation ${name}: run must be a function`);
  const fits = typeof version === "string" && version.length > 0 && version.length <= versionLengthMax;
  if (!fits || !isStorable(version)) {
    throw new TypeError(
      `Operation ${name}: an operation that owns its work needs a version of 1 to 200 characters, none of them NUL`,
    );
  }
  const { execution, settings } = defineOperation<E>(
    name,
    others as OperationOptions<E>,
    policy,
    capabilities,
  );
  if (execution === "transaction" && settings.leaseEnd === "resume") {
    throw new TypeError(`Operation ${name}: leaseEnd "resume" is only for execution "lease"`);
  }
  if (settings.onStoreFailure !== "refuse") {
    throw new TypeError(
      `Operation ${name}: steps cannot run without the store, so onStoreFailure must be "refuse"`,
    );
  }
  return Object.freeze({ name, execution, settings, work: Object.freeze({ version, run }) });
}

/** @throws {TypeError} if an operation without `run` has options that only a worker could honour. */
export function checkBareOperation({ name, execution, settings }: Operation): void {
  if (execution === "deferred") {
    throw new TypeError(
      `Operation ${name}: execution "deferred" needs \`run\`: a worker cannot call a route's handler`,
    );
  }
  if (settings.leaseEnd === "resume") {
    throw new TypeError(
      `Operation ${name}: leaseEnd "resume" needs \`run\`: a route's handler cannot be resumed`,
    );
  }
}

export function ownsItsWork(operation: Operation): operation is OwnedOperation {
  return "work" in operation;
}

/** Null if the operation does not own its work, or has no lease. */
export function leasedOperation<Tx>(operation: Operation | undefined): LeasedOperation<Tx> | null {
  if (operation === undefined || operation.execution === "transaction" || !ownsItsWork(operation))
    return null;
  // It was defined on the latchkey whose registry it is in.
  return operation as unknown as LeasedOperation<Tx>;
}
