/** Hono. */

import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { requireUnread } from "../node-response/submit.ts";
import { beforeHandler, createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { HttpOutcome } from "../protocol/outcome.ts";
import { markProtected } from "../protocol/protection.ts";
import { createServing, type ServeContext } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import { contextOfRun } from "./hono-context.ts";
import {
  answerWith,
  captureAnswer,
  honoTarget,
  messageOf,
  readContext,
  resetResponse,
} from "./hono-messages.ts";
import type { HonoContext } from "./hono-types.ts";

/** Protects one route. Returns an ordinary Hono handler; put it last, after authorisation and validators. */
export type HonoProtect<C extends HonoContext, Tx> = <
  E extends Execution,
  Out extends Response,
  Own extends HonoContext = C,
>(
  operation: Operation<E>,
  handler: (c: Own, context: HandlerContext<Tx, E>) => Out | Promise<Out>,
  overrides?: RouteOptions<C>,
) => (c: Own) => Promise<Out>;

/**
 * Makes `protect(operation, handler)` for a Hono app. The body of the handler's response is read to its end, up to
 * `answerHoldBytes`, before it is sent. Headers and status that a rolled-back handler set on `c` are reset.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function honoProtect<Tx, C extends HonoContext = HonoContext>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<C>,
): HonoProtect<C, Tx> {
  const exchange = createExchange<C, Tx>(latchkey, options);
  return <E extends Execution, Out extends Response, Own extends HonoContext>(
    operation: Operation<E>,
    handler: (c: Own, context: HandlerContext<Tx, E>) => Out | Promise<Out>,
    overrides?: RouteOptions<C>,
  ) => {
    const submit = exchange.route(operation, overrides);
    const protectedHandler = async (c: Own): Promise<Out> => {
      const { incoming, body, prepared } = readContext(c);
      let runs = 0;
      const work = async (context: HandlerContext<Tx, E>) => {
        if (runs > 0) requireUnread(messageOf(c));
        const own = beforeHandler(() => {
          if (runs > 0) resetResponse(c, prepared);
          const run = ++runs;
          body.giveBack();
          return contextOfRun(c, () => runs === run);
        });
        return captureAnswer(await handler(own, context), operation.settings.answerHoldBytes);
      };
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      let outcome: HttpOutcome;
      try {
        outcome = await submit(c as HonoContext as C, incoming, work);
      } catch (error) {
        resetResponse(c, prepared);
        throw error;
      } finally {
        runs += 1;
      }
      if (outcome.kind !== "pass") return answerWith(c, outcome.reply, prepared) as Out;
      body.giveBack();
      // Only operations without `tx` have this outcome, and their whole context is the attempt.
      return handler(c, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
    };
    return markProtected(protectedHandler, operation);
  };
}

/** Serves one operation that owns its work. Returns an ordinary Hono handler. */
export type HonoServe<C extends HonoContext> = <E extends Execution, I, Own extends HonoContext = C>(
  operation: OwnedOperation<E, I>,
  toInput: (c: Own, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<C>,
) => (c: Own) => Promise<Response>;

/**
 * Makes `serve(operation, toInput)` for a Hono app: `toInput` makes the operation's input from a context whose body can be
 * read, and the operation's `run` answers. If `toInput` throws, what it set on `c` is reset, its error goes to `app.onError`,
 * and nothing is stored.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function honoServe<Tx, C extends HonoContext = HonoContext>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<C>,
): HonoServe<C> {
  const served = createServing<C, Tx>(latchkey, options);
  return <E extends Execution, I, Own extends HonoContext>(
    operation: OwnedOperation<E, I>,
    toInput: (c: Own, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
    overrides?: RouteOptions<C>,
  ) => {
    const submit = served(operation, overrides);
    const servedHandler = async (c: Own) => {
      const { incoming, body, prepared } = readContext(c);
      const input = (context: ServeContext) => {
        body.giveBack();
        return toInput(c, context);
      };
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      const outcome = await submit(c as HonoContext as C, incoming, input).catch((error: unknown) => {
        resetResponse(c, prepared);
        throw error;
      });
      return answerWith(c, outcome.reply, prepared);
    };
    return markProtected(servedHandler, operation);
  };
}

/**
 * Makes the handler of the status resource, which returns the outcome of a request that was answered 202:
 * `app.get("/operations/:id", status)`, after authorisation. Give it the options of the routes that answer 202. Callers with
 * another tenant or principal get 404.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function honoStatus<Tx, C extends HonoContext = HonoContext>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<C>,
): (c: C) => Promise<Response> {
  const ask = createStatus<C, Tx>(latchkey, options);
  return async (c) => {
    const prepared = [...c.res.headers];
    const { reply } = await ask(c, { method: c.req.method, target: honoTarget(c) });
    return answerWith(c, reply, prepared);
  };
}
