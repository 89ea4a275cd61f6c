/**
 * The HTTP protocol, once for all frameworks. An adapter passes in the request and a function that runs the handler and
 * captures its answer, and sends the outcome; all decisions are made here.
 *
 * Order of checks: tenant and principal, key, age, body within its cap, fingerprint, admission. Nothing is stored before
 * admission, so a request that is refused earlier may be sent again with the same key.
 */

import type { Execution } from "../../engine/classify.ts";
import { isLatchkeyError, NotExecuted, StoreError } from "../../errors.ts";
import { keylessSubmission, nullAttempt } from "../../execution/keyless.ts";
import { scopeOf } from "../../execution/scope.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { Answer } from "../../operations/answer.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import { ownsItsWork } from "../../operations/owned-operation.ts";
import { type Reply, storedForm, withoutFraming } from "./capture.ts";
import { echoed } from "./echo-key.ts";
import { type HttpOptions, type Identity, type RouteOptions, resolveHttpOptions } from "./http-options.ts";
import type { Incoming } from "./incoming.ts";
import { type Answered, expiryOf, type HttpOutcome, outcomeOf, storeDown, withHeaders } from "./outcome.ts";
import { executeEitherVersion, type HttpSubmission, type Received, receive } from "./receive.ts";
import { type Route, resolveRoute } from "./route.ts";

/** Thrown by an adapter when the transaction would have to run again but the framework has already answered. */
export class CannotRunAgain extends StoreError {}

/** Its cause kept a handler from starting. The exchange rethrows the cause. */
class NotStarted extends NotExecuted {}

function notStarted(cause: unknown): NotStarted {
  return new NotStarted({ cause });
}

/** Runs a step before the handler: if it fails, nothing was executed and the key is free again, also under a lease. */
export function beforeHandler<T>(step: () => T): T {
  try {
    return step();
  } catch (cause) {
    throw notStarted(cause);
  }
}

/** Runs the handler once, on a clean response, and captures its answer. `report` is for errors that do not change the outcome. */
export type HttpWork<Tx, E extends Execution> = (
  context: HandlerContext<Tx, E>,
  report: (error: unknown) => void,
) => Promise<Reply>;

/**
 * Submits a request.
 *
 * @throws {LatchkeyError} `tenant-missing`, `body-consumed` and what `Latchkey.execute` throws except for an unavailable
 * store, and whatever the handler throws. The framework's own error handling then answers.
 */
export type SubmitRequest<R, Tx, E extends Execution> = (
  request: R,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
) => Promise<HttpOutcome>;

export interface Exchange<R, Tx> {
  /** One protected route. */
  route<E extends Execution>(operation: Operation<E>, overrides?: RouteOptions<R>): SubmitRequest<R, Tx, E>;
  /** A mount over many routes: requests pass unless their method is one of `methods`. */
  mount<E extends Execution>(operation: Operation<E>, overrides?: RouteOptions<R>): SubmitRequest<R, Tx, E>;
}

/**
 * Makes the exchange of one adapter.
 *
 * @throws {TypeError} when an option is missing or out of range; so do `route` and `mount` for their own options.
 */
export function createExchange<R, Tx>(latchkey: Latchkey<Tx>, options: HttpOptions<R>): Exchange<R, Tx> {
  resolveHttpOptions(options);
  const resolve = <E extends Execution>(operation: Operation<E>, overrides?: RouteOptions<R>) => {
    if (ownsItsWork(operation)) {
      throw new TypeError(`Operation ${operation.name} owns its work, so it takes no handler: use serve`);
    }
    return resolveRoute(latchkey, options, operation, overrides);
  };
  return {
    route(operation, overrides) {
      const { route, identity } = resolve(operation, overrides);
      return (request, incoming, work) => receiveAndProceed(route, identity, request, incoming, work);
    },
    mount(operation, overrides) {
      const { route, identity } = resolve(operation, overrides);
      return async (request, incoming, work) =>
        route.rules.methods.has(incoming.method)
          ? receiveAndProceed(route, identity, request, incoming, work)
          : uncovered(route, incoming);
    },
  };
}

function uncovered<Tx, E extends Execution>(route: Route<Tx, E>, incoming: Incoming): HttpOutcome {
  const { markIgnored, header } = route.rules;
  const ignored = markIgnored && incoming.header(header).lines.length > 0;
  return {
    kind: "pass",
    attempt: nullAttempt(route.latchkey.runtime, route.operation),
    headers: ignored ? [["Idempotency-Status", "ignored"]] : [],
  };
}

async function receiveAndProceed<R, Tx, E extends Execution>(
  route: Route<Tx, E>,
  identity: Identity<R>,
  request: R,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Promise<HttpOutcome> {
  const received = await receive(route, identity, request, incoming);
  const outcome = await proceed(route, received, incoming, work);
  return route.rules.echoKey ? echoed(route.rules, incoming, outcome) : outcome;
}

function proceed<Tx, E extends Execution>(
  route: Route<Tx, E>,
  received: Received,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Answered | Promise<HttpOutcome> {
  switch (received.kind) {
    case "refused":
      return received.outcome;
    case "keyless":
      return runUnprotected(route, received.tenant, incoming, work);
    case "keyed":
      return perform(route, received.submission, incoming, work);
    default:
      return received satisfies never;
  }
}

/** Without a key there is nothing to look up. For an operation with `tx`, makes a key that no client can send. */
async function runUnprotected<Tx, E extends Execution>(
  route: Route<Tx, E>,
  tenant: string,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Promise<HttpOutcome> {
  const { runtime } = route.latchkey;
  if (route.operation.execution === "lease") {
    return { kind: "pass", attempt: nullAttempt(runtime, route.operation), headers: [] };
  }
  const { submission, forgetAtOnce } = keylessSubmission(runtime, tenant, scopeOf(route.operation, ""));
  // Its answer is never replayed, so it has no expiry.
  const unmarked = { ...route, rules: { ...route.rules, expiresHeader: false } } as const;
  return perform(unmarked, submission, incoming, (context, report) => {
    context.attempt.retain(forgetAtOnce);
    return work(context, report);
  });
}

async function perform<Tx, E extends Execution>(
  route: Route<Tx, E>,
  submission: HttpSubmission,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Promise<HttpOutcome> {
  const { latchkey, operation, rules } = route;
  const { runtime } = latchkey;
  const about = () => runtime.about(operation.name, runtime.storedKey(submission.key));
  // Replies are kept per answer: an abandoned handler may finish after the one that replaced it.
  const replies: { readonly answer: Answer; readonly reply: Reply }[] = [];
  const thrown: unknown[] = [];
  try {
    const attempt = async (context: HandlerContext<Tx, E>) => {
      const recordId = context.attempt.id;
      const report = (error: unknown) =>
        runtime.emit({ ...about(), type: "attempt_failed", recordId, error });
      let captured: Reply;
      try {
        captured = await work(context, report);
      } catch (error) {
        if (error instanceof Error && !(error instanceof CannotRunAgain)) thrown.push(error);
        throw error;
      }
      const reply = withoutFraming(incoming.method, captured);
      const answer = storedForm(reply, rules.storedHeaders);
      replies.push({ answer, reply });
      return answer;
    };
    const result = await executeEitherVersion(submission, (given) =>
      latchkey.execute(operation, given, attempt),
    );
    if (result.kind !== "executed") return outcomeOf(route, result);
    const reply = replies.find(({ answer }) => answer === result.answer)?.reply ?? result.answer;
    const added = expiryOf(rules, result.expiresAt);
    return { kind: "handler", reply: withHeaders(reply, added), added };
  } catch (error) {
    if (error instanceof NotStarted) throw error.cause;
    // An error that the handler itself threw, from another store, is not about this request's record.
    if (!isLatchkeyError(error) || thrown.includes(error) || error.code !== "store-unavailable") throw error;
    return storeDown(route, submission.key, error);
  }
}
