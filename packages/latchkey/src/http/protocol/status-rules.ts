/** The options about requests that are answered before their work is done: 202 and the status resource. */
import type { Operation } from "../../operations/operation.ts";
import type { Policy } from "../../operations/policies/policy.ts";

/** The status that a duplicate of a running request gets. */
export type InProgressStatus = 202 | 409 | 429;

interface StatusRules {
  /** Null: the policy decides. */
  readonly inProgress: InProgressStatus | null;
  readonly statusPath: string | null;
}

/** @throws {TypeError} for any other status. */
export function resolveInProgress(option: InProgressStatus | null): InProgressStatus | null {
  if (option === null || option === 202 || option === 409 || option === 429) return option;
  throw new TypeError(`inProgress must be 202, 409 or 429 (got ${String(option)})`);
}

/**
 * Checks the path, which becomes a Location header with a slash and an id.
 *
 * @throws {TypeError} when it is not a path, ends in a slash or has parameters.
 */
export function resolveStatusPath(option: string | null): string | null {
  if (option === null || (typeof option === "string" && pathForm.test(option))) return option;
  throw new TypeError(
    `statusPath: ${JSON.stringify(option)} is not a path such as "/operations" (no parameters, no slash at the end)`,
  );
}

const pathForm = /^(?:\/[\w.~%!$&'()+,;=@-]+)+$/u;

/** @throws {TypeError} when a route would answer 202 without a status resource. */
export function checkStatusRules({ name, execution }: Operation, rules: StatusRules): void {
  if (execution === "deferred" && rules.statusPath === null) {
    throw new TypeError(
      `Operation ${name} is deferred and answers 202: set statusPath to the path of its status resource`,
    );
  }
  if (rules.inProgress !== 202) return;
  if (execution === "transaction") {
    throw new TypeError(
      `Operation ${name} runs in a transaction, whose record exists only after the COMMIT: inProgress cannot be 202`,
    );
  }
  if (rules.statusPath === null) {
    throw new TypeError("inProgress 202 needs statusPath, the path of the status resource");
  }
}

/** The policy, with these rules' status for a running request. */
export function policyUnder({ inProgress }: StatusRules, policy: Policy): Policy {
  if (inProgress === null || inProgress === 202) return policy;
  return { ...policy, statuses: { ...policy.statuses, "in-progress": inProgress } };
}
