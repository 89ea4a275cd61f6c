/** One protected or served route, resolved for the exchange. */
import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { Operation } from "../../operations/operation.ts";
import type { Policy } from "../../operations/policies/policy.ts";
import {
  type HttpOptions,
  type HttpRules,
  type Identity,
  type RouteOptions,
  resolveHttpOptions,
  withOverrides,
  withPolicy,
} from "./http-options.ts";
import { checkAgainstMemory } from "./request-age.ts";
import { checkStatusRules, policyUnder } from "./status-rules.ts";

export interface Route<Tx, E extends Execution> {
  readonly latchkey: Latchkey<Tx>;
  readonly policy: Policy;
  readonly operation: Operation<E>;
  readonly rules: HttpRules;
}

/**
 * Resolves the rules of one route.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function resolveRoute<R, Tx, E extends Execution>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
  operation: Operation<E>,
  overrides?: RouteOptions<R>,
): { readonly identity: Identity<R>; readonly route: Route<Tx, E> } {
  const { rules, identity } = resolveHttpOptions(
    withPolicy(withOverrides(options, overrides), latchkey.policy),
  );
  const { requestAge } = rules;
  const { forgetAfterMs } = operation.settings;
  if (requestAge !== null) checkAgainstMemory(requestAge, operation.name, forgetAfterMs);
  checkStatusRules(operation, rules);
  return { identity, route: { latchkey, policy: policyUnder(rules, latchkey.policy), operation, rules } };
}

/** The part of a route that answers without running anything. */
export type RouteContext = Pick<Route<never, Execution>, "policy" | "operation" | "rules">;

/** The part of a route that replies depend on. */
export type ReplyRules = Pick<RouteContext, "policy" | "rules">;
