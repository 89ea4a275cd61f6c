/** Express 5 and 4. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Execution } from "../../engine/classify.ts";
import { errorCodes } from "../../errors.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { keepBytes, readBufferedBody } from "../node-response/node-body.ts";
import { headerLines } from "../node-response/node-messages.ts";
import { sendOutcome, submitBuffered } from "../node-response/submit.ts";
import { createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { Incoming } from "../protocol/incoming.ts";
import { markProtected } from "../protocol/protection.ts";
import { resolveRoute } from "../protocol/route.ts";
import { createServing, type ServeContext } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import type { ExpressMessage, ExpressNext, ExpressRequest, ResponseOf } from "./express-types.ts";

/** A protected handler: it receives `tx` (under `transaction`) and `attempt`, and answers through `res`. */
export type ExpressHandler<Req, Res, Tx, E extends Execution> = (
  req: Req,
  res: Res,
  context: HandlerContext<Tx, E>,
) => unknown;

/** Protects one route. Returns an ordinary Express handler; put it last, after authorisation. */
export type ExpressProtect<R extends ExpressMessage, Tx> = <
  E extends Execution,
  Req extends ExpressMessage = R,
  Res extends ServerResponse = ResponseOf<R>,
>(
  operation: Operation<E>,
  handler: ExpressHandler<Req, Res, Tx, E>,
  overrides?: RouteOptions<R>,
) => (req: Req, res: Res, next: ExpressNext) => void;

/**
 * Makes `protect(operation, handler)` for an Express app.
 *
 * The answer is buffered until it is confirmed. Meanwhile `res` has no socket: bytes are collected up to `answerHoldBytes`, and
 * trailers and informational responses are dropped. A handler that throws is rolled back and its error goes to Express.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function expressProtect<Tx, R extends ExpressMessage = ExpressRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): ExpressProtect<R, Tx> {
  const exchange = createExchange<R, Tx>(latchkey, options);
  return (operation, handler, overrides) => {
    const submit = exchange.route(operation, overrides);
    return markProtected((req, res, next) => {
      const answer = {
        res,
        limitBytes: operation.settings.answerHoldBytes,
        keepsHeaders: true,
        replacesReqRes: true,
        middlewareMayAnswer: true,
      };
      // R is what the adapter's options know of a request, Req what this route knows of the same one.
      submitBuffered(submit, req as ExpressMessage as R, incomingOf(req), answer, (view, context) =>
        handler(req, view, context),
      )
        .then((outcome) => {
          if (outcome.kind !== "pass") return sendOutcome(res, outcome);
          // Only operations without `tx` have this outcome, and their whole context is the attempt.
          return handler(req, res, { attempt: outcome.attempt } as HandlerContext<
            Tx,
            (typeof operation)["execution"]
          >);
        })
        .catch(next);
    }, operation);
  };
}

/**
 * Makes `record(operation)`: middleware for a whole app or router, to adopt Latchkey step by step. It reserves the key, lets
 * the app answer through `next()`, and stores the answer. It cannot give handlers a transaction, roll them back or run them
 * again; protect important routes with `expressProtect`.
 *
 * Requests pass untouched unless their method is one of `methods`. Mount it after authentication and body parsers.
 *
 * @throws {TypeError} when an option is missing or out of range, or the operation's execution is not `lease`.
 */
export function expressRecord<Tx, R extends ExpressMessage = ExpressRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): (
  operation: Operation<"lease">,
  overrides?: RouteOptions<R>,
) => (req: R, res: ServerResponse, next: ExpressNext) => void {
  const exchange = createExchange<R, Tx>(latchkey, options);
  return (operation, overrides) => {
    if (operation.execution !== "lease") {
      throw new TypeError(
        `expressRecord needs execution "lease"; protect ${operation.name} with expressProtect`,
      );
    }
    const submit = exchange.mount(operation, overrides);
    const { methods } = resolveRoute(latchkey, options, operation, overrides).route.rules;
    const recorded = (req: R, res: ServerResponse, next: ExpressNext) => {
      const limitBytes = operation.settings.answerHoldBytes;
      const answer = { res, limitBytes, keepsHeaders: true };
      submitBuffered(submit, req, incomingOf(req), answer, () => next())
        .then((outcome) => {
          if (outcome.kind !== "pass") return sendOutcome(res, outcome);
          for (const [name, value] of outcome.headers) res.setHeader(name, value);
          return next();
        })
        .catch(next);
    };
    return markProtected(recorded, operation, methods);
  };
}

/** Serves one operation that owns its work. Returns an ordinary Express handler. */
export type ExpressServe<R extends ExpressMessage> = <
  E extends Execution,
  I,
  Req extends ExpressMessage = R,
  Res extends ServerResponse = ServerResponse,
>(
  operation: OwnedOperation<E, I>,
  toInput: (req: Req, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<R>,
) => (req: Req, res: Res, next: ExpressNext) => void;

/**
 * Makes `serve(operation, toInput)` for an Express app: `toInput` makes the operation's input from a request whose body has
 * been read, and the operation's `run` answers. If `toInput` throws, the error goes to Express and nothing is stored.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function expressServe<Tx, R extends ExpressMessage = ExpressRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): ExpressServe<R> {
  const served = createServing<R, Tx>(latchkey, options);
  return (operation, toInput, overrides) => {
    const submit = served(operation, overrides);
    return markProtected((req, res, next) => {
      // R is what the adapter's options know of a request, Req what this route knows of the same one.
      submit(req as ExpressMessage as R, incomingOf(req), (context) => toInput(req, context))
        .then((outcome) => sendOutcome(res, outcome))
        .catch(next);
    }, operation);
  };
}

function incomingOf(req: ExpressMessage): Incoming {
  return {
    method: req.method ?? "",
    target: req.originalUrl,
    header: (name) => headerLines(req, name),
    readBody: (limitBytes) => readBufferedBody(req, req, limitBytes, errorCodes["body-consumed"].remedy),
  };
}

/**
 * Keeps the bytes that a body parser reads, for the fingerprint: `express.json({ verify: keepRawBody })`, and likewise for
 * `urlencoded`, `text` and `raw`.
 */
export function keepRawBody(req: IncomingMessage, _res: ServerResponse, bytes: Uint8Array): void {
  keepBytes(req, bytes);
}

/**
 * Makes the handler of the status resource, which returns the outcome of a request that was answered 202:
 * `app.get("/operations/:id", status)`, after authorisation. Give it the options of the routes that answer 202. Callers with
 * another tenant or principal get 404.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function expressStatus<Tx, R extends ExpressMessage = ExpressRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): (req: R, res: ServerResponse, next: ExpressNext) => void {
  const ask = createStatus<R, Tx>(latchkey, options);
  return (req, res, next) => {
    ask(req, { method: req.method ?? "", target: req.originalUrl })
      .then((outcome) => sendOutcome(res, outcome))
      .catch(next);
  };
}
