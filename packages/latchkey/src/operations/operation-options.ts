/** Which options an operation takes, and under which executions each has an effect. */
import type { Execution } from "../engine/classify.ts";
import type { OptionNames } from "../known-options.ts";
import type { Operation, OperationOptions } from "./operation.ts";
import type { OwnedOperationOptions } from "./owned-operation.ts";

export const operationOptionNames = {
  execution: true,
  key: true,
  keyScope: true,
  waitMs: true,
  retentionMs: true,
  forgetAfterMs: true,
  reuse: true,
  serverErrors: true,
  answerLimitBytes: true,
  answerHoldBytes: true,
  summary: true,
  facts: true,
  isolation: true,
  admission: true,
  transactionLimitMs: true,
  writes: true,
  pendingLimitMs: true,
  leaseMs: true,
  attemptLimitMs: true,
  leaseEnd: true,
  attemptsMax: true,
  isNotExecuted: true,
  lookup: true,
  onStoreFailure: true,
  version: true,
  run: true,
} as const satisfies OptionNames<OwnedOperationOptions<never, never>>;

type Name = keyof OperationOptions;

const ofLeases = [
  "leaseMs",
  "attemptLimitMs",
  "leaseEnd",
  "attemptsMax",
  "isNotExecuted",
  "lookup",
] as const satisfies readonly Name[];
const ofTransactions = ["isolation", "transactionLimitMs"] as const satisfies readonly Name[];

/** The options that have no effect under an execution. Phases of operations that own their work are transactions, too. */
function idle(execution: Execution, ownsWork: boolean): readonly Name[] {
  switch (execution) {
    case "transaction":
      return [...ofLeases, "pendingLimitMs"];
    case "lease":
      return ownsWork
        ? ["writes", "admission", "pendingLimitMs", "isNotExecuted"]
        : ["writes", "admission", "pendingLimitMs", ...ofTransactions];
    case "deferred":
      return ["writes", "admission", "isNotExecuted"];
    default:
      return execution satisfies never;
  }
}

/** @throws {TypeError} for an option that would have no effect */
export function checkApplies(operation: Operation, given: OperationOptions): void {
  const { name, execution } = operation;
  const ownsWork = "work" in operation;
  if (ownsWork && given.isNotExecuted !== undefined) {
    throw new TypeError(
      `Operation ${name}: isNotExecuted has no meaning for an operation that owns its work: give isNotExecuted to the effects that it calls.`,
    );
  }
  // A setting that holds anyway is accepted, so that definitions can share it: under a lease nothing writes through a `tx`.
  const isTrue = (option: Name) => option === "writes" && given.writes === "none";
  const useless = idle(execution, ownsWork).find((option) => given[option] !== undefined && !isTrue(option));
  if (useless === undefined) return;
  const phases = !ownsWork && execution === "lease" && isOf(ofTransactions, useless);
  const where = (["transaction", "lease", "deferred"] as const).filter(
    (one) => !idle(one, ownsWork || one === "deferred").includes(useless),
  );
  const remedy = phases ? ", or an operation that owns its work (`run`), for its phases" : "";
  throw new TypeError(
    `Operation ${name}: ${useless} has no meaning under execution "${execution}". Leave it out, or choose execution ${where.map((one) => `"${one}"`).join(" or ")}${remedy}.`,
  );
}

function isOf(names: readonly Name[], name: Name): boolean {
  return names.includes(name);
}
