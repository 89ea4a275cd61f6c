/** Fastify 5. */

import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { requireBufferable } from "../node-response/response-interceptor.ts";
import { createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { HttpOutcome } from "../protocol/outcome.ts";
import { markProtected } from "../protocol/protection.ts";
import { createServing, type ServeContext } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import { keepBodies } from "./fastify-bodies.ts";
import { FastifyExchange } from "./fastify-exchange.ts";
import { sendReply } from "./fastify-reply.ts";
import type {
  FastifyAnswer,
  FastifyApp,
  FastifyMessage,
  FastifyReply,
  FastifyRequest,
} from "./fastify-types.ts";

/** A protected handler: it receives `tx` (under `transaction`) and `attempt`, and answers as a Fastify handler does. */
export type FastifyHandler<Req, Rep, Tx, E extends Execution> = (
  request: Req,
  reply: Rep,
  context: HandlerContext<Tx, E>,
) => unknown;

/** Protects one route. Returns the route's handler; hooks up to `preHandler` run before it. */
export type FastifyProtect<R extends FastifyMessage, Tx> = <
  E extends Execution,
  Req extends FastifyMessage = R,
  Rep extends FastifyAnswer = FastifyReply,
>(
  operation: Operation<E>,
  handler: FastifyHandler<Req, Rep, Tx, E>,
  overrides?: RouteOptions<R>,
) => (request: Req, reply: Rep) => Promise<void>;

/**
 * Makes `protect(operation, handler)` for the routes of a Fastify instance and of the plugins in it. Call it before
 * registering them.
 *
 * The answer is captured after serialisation, by an `onSend` hook that this call adds. Hooks added before it act on the stored
 * answer; those added later (compression, cookies …) act on each answer as it is sent, first or replayed. Every hook runs once
 * for each request. A handler that throws is rolled back and its error goes to Fastify's error handler.
 *
 * Bytes of the body are kept while content type parsers read them; Fastify's own `bodyLimit` comes first. A parser that
 * reads `request.raw` instead (multipart) leaves nothing for the fingerprint.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function fastifyProtect<Tx, R extends FastifyMessage = FastifyRequest>(
  app: FastifyApp,
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): FastifyProtect<R, Tx> {
  const exchange = createExchange<R, Tx>(latchkey, options);
  // A property of the request, because a WeakMap of all requests burdens the garbage collector.
  const heldKey = Symbol("latchkey.held");
  const bodies = keepBodies(app);
  app.addHook("onSend", (request, reply, payload, done) => {
    const held: FastifyExchange | undefined = request[heldKey];
    if (held === undefined) done(null, payload);
    else held.onSend(reply, payload, done);
  });
  return <E extends Execution, Req extends FastifyMessage, Rep extends FastifyAnswer>(
    operation: Operation<E>,
    handler: FastifyHandler<Req, Rep, Tx, E>,
    overrides?: RouteOptions<R>,
  ) => {
    const submit = exchange.route(operation, overrides);
    const { answerHoldBytes: limitBytes } = operation.settings;
    async function protectedHandler(this: unknown, request: Req, reply: Rep): Promise<void> {
      const held = new FastifyExchange(reply, limitBytes);
      (request as FastifyMessage & Record<symbol, unknown>)[heldKey] = held;
      const run = (own: FastifyAnswer, context: HandlerContext<Tx, E>) =>
        handler.call(this, request, own as Rep, context);
      // R is what the adapter's options know of a request, Req what this route knows of the same one.
      const given = request as FastifyMessage as R;
      let outcome: HttpOutcome;
      try {
        requireBufferable(reply.raw);
        outcome = await submit(given, bodies.incomingOf(request), (context, report) =>
          held.run((own) => run(own, context), report),
        );
      } catch (error) {
        held.open();
        await held.left();
        throw error;
      }
      if (outcome.kind !== "pass") {
        held.close(outcome);
        return reply as unknown as Promise<void>;
      }
      held.open();
      // Only operations without `tx` have this outcome, and their whole context is the attempt.
      const result = run(reply, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
      // A handler that returns undefined will call `send`; then Fastify must wait for the reply, not for this promise.
      return (result === undefined ? reply : result) as Promise<void>;
    }
    bodies.keepFor(protectedHandler);
    return markProtected(protectedHandler, operation);
  };
}

/** Serves one operation that owns its work. Returns the route's handler. */
export type FastifyServe<R extends FastifyMessage> = <
  E extends Execution,
  I,
  Req extends FastifyMessage = R,
  Rep extends FastifyAnswer = FastifyReply,
>(
  operation: OwnedOperation<E, I>,
  toInput: (request: Req, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<R>,
) => (request: Req, reply: Rep) => Promise<void>;

/**
 * Makes `serve(operation, toInput)` for the routes of a Fastify instance and of the plugins in it: `toInput` makes the
 * operation's input from a request, and the operation's `run` answers. Call it before registering the routes. If `toInput`
 * throws, the error goes to Fastify's error handler and nothing is stored. Hooks act on every answer, first or replayed.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function fastifyServe<Tx, R extends FastifyMessage = FastifyRequest>(
  app: FastifyApp,
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): FastifyServe<R> {
  const served = createServing<R, Tx>(latchkey, options);
  const bodies = keepBodies(app);
  return <E extends Execution, I, Req extends FastifyMessage, Rep extends FastifyAnswer>(
    operation: OwnedOperation<E, I>,
    toInput: (request: Req, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
    overrides?: RouteOptions<R>,
  ) => {
    const submit = served(operation, overrides);
    const handler = async (request: Req, reply: Rep): Promise<void> => {
      // R is what the adapter's options know of a request, Req what this route knows of the same one.
      const given = request as FastifyMessage as R;
      const { reply: answer } = await submit(given, bodies.incomingOf(request), (context) =>
        toInput(request, context),
      );
      // A time-out may have answered.
      if (!reply.sent) sendReply(reply, answer);
      return reply as unknown as Promise<void>;
    };
    bodies.keepFor(handler);
    return markProtected(handler, operation);
  };
}

/**
 * Makes the handler of the status resource, which returns the outcome of a request that was answered 202:
 * `app.get("/operations/:id", status)`, with authorisation in a hook before it. Give it the options of the routes that answer
 * 202. Callers with another tenant or principal get 404.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function fastifyStatus<Tx, R extends FastifyMessage = FastifyRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): <Rep extends FastifyAnswer>(request: R, reply: Rep) => Promise<void> {
  const ask = createStatus<R, Tx>(latchkey, options);
  return async (request, reply) => {
    const { method, originalUrl: target } = request;
    sendReply(reply, (await ask(request, { method, target })).reply);
    return reply as unknown as Promise<void>;
  };
}
