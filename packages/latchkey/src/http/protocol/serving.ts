/**
 * Routes whose operation owns its work: the request becomes an input, and the operation's `run` returns the answer. The
 * checks and their order are those of protected routes; the input is made after them and before admission.
 */

import type { Execution } from "../../engine/classify.ts";
import { isLatchkeyError } from "../../errors.ts";
import { keylessSubmission } from "../../execution/keyless.ts";
import { scopeOf } from "../../execution/scope.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { Answer } from "../../operations/answer.ts";
import type { Operation } from "../../operations/operation.ts";
import { type OwnedOperation, ownsItsWork } from "../../operations/owned-operation.ts";
import { type Reply, withoutFraming } from "./capture.ts";
import { echoed } from "./echo-key.ts";
import { type HttpOptions, type RouteOptions, resolveHttpOptions } from "./http-options.ts";
import type { Incoming } from "./incoming.ts";
import { type Answered, expiryOf, outcomeOf, storeDown, withHeaders } from "./outcome.ts";
import { executeEitherVersion, type HttpSubmission, type Received, receive } from "./receive.ts";
import { type ReplyRules, type Route, resolveRoute } from "./route.ts";

/**
 * Submits a request with the input that `toInput` makes of it once its body has been read.
 *
 * @throws {LatchkeyError} `tenant-missing`, `body-consumed` and what `Latchkey.executeOwned` throws except for an
 * unavailable store; whatever `toInput` and `run` throw. The framework's own error handling then answers. Nothing is stored
 * before `run`.
 */
export type SubmitInput<R, I> = (
  request: R,
  incoming: Incoming,
  toInput: (context: ServeContext) => I | Promise<I>,
) => Promise<Answered>;

/** The part of a request that Latchkey has read before its input is made. */
export interface ServeContext {
  /** The key that the client sent, without quotes. Null if none was sent and none is required. */
  readonly key: string | null;
}

/** One served route. */
export type ServeRoute<R> = <E extends Execution, I>(
  operation: OwnedOperation<E, I>,
  overrides?: RouteOptions<R>,
) => SubmitInput<R, I>;

/**
 * Makes the exchange of one adapter, for operations that own their work.
 *
 * @throws {TypeError} when an option is missing or out of range; the returned function does so, too, and for an operation
 * without `run`.
 */
export function createServing<R, Tx>(latchkey: Latchkey<Tx>, options: HttpOptions<R>): ServeRoute<R> {
  resolveHttpOptions(options);
  return (operation, overrides) => {
    checkOwned(latchkey, operation);
    const { route, identity } = resolveRoute(latchkey, options, operation, overrides);
    return async (request, incoming, toInput) => {
      const received = await receive(route, identity, request, incoming);
      if (received.kind === "refused") return echoed(route.rules, incoming, received.outcome);
      const input = await toInput({ key: received.kind === "keyed" ? received.submission.key.key : null });
      const execute = (submission: HttpSubmission) => latchkey.executeOwned(operation, submission, input);
      return echoed(route.rules, incoming, await perform(route, received, incoming.method, execute));
    };
  };
}

function checkOwned<Tx>({ runtime }: Latchkey<Tx>, operation: Operation): void {
  const { name } = operation;
  if (!ownsItsWork(operation)) {
    throw new TypeError(`Operation ${name} has no \`run\` to serve: pass its handler to protect`);
  }
  if (runtime.operations.get(name) !== operation) {
    throw new TypeError(`Operation ${name} was defined on another latchkey`);
  }
}

async function perform<Tx, E extends Execution>(
  given: Route<Tx, E>,
  received: Exclude<Received, { readonly kind: "refused" }>,
  method: string,
  execute: (submission: HttpSubmission) => ReturnType<Latchkey<Tx>["executeOwned"]>,
): Promise<Answered> {
  const submission = received.kind === "keyed" ? received.submission : keyless(given, received);
  const route = received.kind === "keyed" ? given : unmarked(given);
  try {
    const result = await executeEitherVersion(submission, execute);
    switch (result.kind) {
      case "executed":
        return sent(method, withHeaders(result.answer, expiryOf(route.rules, result.expiresAt)));
      case "replay":
        return sent(
          method,
          outcomeOf(route, { ...result, answer: withoutPrivateHeaders(route, result.answer) }).reply,
        );
      default:
        return outcomeOf(route, result);
    }
  } catch (error) {
    if (!isLatchkeyError(error) || error.code !== "store-unavailable") throw error;
    return storeDown(route, submission.key, error);
  }
}

/** Makes a key that no client can send, so that the work has a record to resume from. It is kept like a client's key. */
function keyless<Tx, E extends Execution>(
  { latchkey, operation }: Route<Tx, E>,
  { tenant, principal }: Extract<Received, { readonly kind: "keyless" }>,
): HttpSubmission {
  return { ...keylessSubmission(latchkey.runtime, tenant, scopeOf(operation, "")).submission, principal };
}

/** Without a key an answer is never replayed, so it has no expiry. */
function unmarked<Tx, E extends Execution>(route: Route<Tx, E>): Route<Tx, E> {
  return { ...route, rules: { ...route.rules, expiresHeader: false } };
}

/** Removes headers that belong to the first caller: the record has every header that `run` returned. */
export function withoutPrivateHeaders({ rules }: ReplyRules, answer: Answer): Answer {
  const headers = answer.headers.filter(([name]) => rules.storedHeaders.has(name.toLowerCase()));
  return { ...answer, headers };
}

/** Keeps headers that middleware has prepared, because `run` has no access to the response. */
function sent(method: string, reply: Reply): Answered {
  return { kind: "latchkey", reply: withoutFraming(method, reply) };
}
