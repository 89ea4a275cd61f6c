/** Koa. */
import type { ServerResponse } from "node:http";
import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { setFields } from "../node-response/head.ts";
import { readBufferedBody } from "../node-response/node-body.ts";
import { headerLines } from "../node-response/node-messages.ts";
import { submitBuffered } from "../node-response/submit.ts";
import { beforeHandler, createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { Incoming } from "../protocol/incoming.ts";
import type { Answered } from "../protocol/outcome.ts";
import { markProtected } from "../protocol/protection.ts";
import { createServing, type ServeContext } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import { readOwn, restoreOwn } from "../shared/own-properties.ts";
import { respond } from "./koa-respond.ts";
import type { KoaContext, KoaMessage } from "./koa-types.ts";

/** A protected handler: it receives `tx` (under `transaction`) and `attempt`, and answers through `ctx`. */
export type KoaHandler<C, Tx, E extends Execution> = (ctx: C, context: HandlerContext<Tx, E>) => unknown;

/** Protects one route. Returns Koa middleware that never calls `next`; put it last, after authorisation. */
export type KoaProtect<C extends KoaMessage, Tx> = <E extends Execution, Own extends KoaMessage = C>(
  operation: Operation<E>,
  handler: KoaHandler<Own, Tx, E>,
  overrides?: RouteOptions<C>,
) => (ctx: Own) => Promise<void>;

/**
 * Makes `protect(operation, handler)` for a Koa app.
 *
 * Each run of the handler gets its own context, which inherits from the app's: properties that it sets (`ctx.user = …`) stay in
 * the run, but changes inside shared objects (`ctx.state.user = …`) do not. The answer is captured as Koa would send it and
 * kept until it is confirmed; then it becomes the app's `ctx.body`, as bytes, and passes through the outer middleware. A
 * handler that throws is rolled back and its error goes to the outer middleware.
 *
 * Without a body parser before it, `ctx.request.body` is the parsed value for JSON and bytes otherwise. A parser must keep the
 * text that it read in `ctx.request.rawBody`, as `@koa/bodyparser` does.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function koaProtect<Tx, C extends KoaMessage = KoaContext>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<C>,
): KoaProtect<C, Tx> {
  const exchange = createExchange<C, Tx>(latchkey, options);
  return <E extends Execution, Own extends KoaMessage>(
    operation: Operation<E>,
    handler: KoaHandler<Own, Tx, E>,
    overrides?: RouteOptions<C>,
  ) => {
    const submit = exchange.route(operation, overrides);
    const protectedHandler = async (ctx: Own): Promise<void> => {
      const answer = {
        res: ctx.res,
        limitBytes: operation.settings.answerHoldBytes,
        middlewareMayAnswer: true,
      };
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      const request = ctx as KoaMessage as C;
      let errors: DeferredErrors | null = null;
      const before = readOwn(ctx.response);
      const outcome = await submitBuffered(
        submit,
        request,
        incomingOf(ctx),
        answer,
        async (view, context) => {
          const own = beforeHandler(() => {
            if (errors === null) errors = deferErrors(ctx);
            else restoreOwn(ctx.response, before);
            return Object.assign(contextOfRun(ctx, view), { onerror: errors.onerror });
          });
          await handler(own, context);
          respond(own);
        },
      )
        .catch((error: unknown) => {
          restoreOwn(ctx.response, before);
          throw error;
        })
        .finally(() => errors?.release());
      if (outcome.kind !== "pass") return answerWith(ctx, outcome);
      // Only operations without `tx` have this outcome, and their whole context is the attempt.
      await handler(ctx, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
    };
    return markProtected(protectedHandler, operation);
  };
}

/** Serves one operation that owns its work. Returns Koa middleware that never calls `next`. */
export type KoaServe<C extends KoaMessage> = <E extends Execution, I, Own extends KoaMessage = C>(
  operation: OwnedOperation<E, I>,
  toInput: (ctx: Own, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<C>,
) => (ctx: Own) => Promise<void>;

/**
 * Makes `serve(operation, toInput)` for a Koa app: `toInput` makes the operation's input from a context with
 * `ctx.request.body`, and the operation's `run` answers. If `toInput` throws, the error goes to the outer middleware and
 * nothing is stored.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function koaServe<Tx, C extends KoaMessage = KoaContext>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<C>,
): KoaServe<C> {
  const served = createServing<C, Tx>(latchkey, options);
  return (operation, toInput, overrides) => {
    const submit = served(operation, overrides);
    return markProtected(async (ctx) => {
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      const input = (context: ServeContext) => toInput(ctx, context);
      answerWith(ctx, await submit(ctx as KoaMessage as C, incomingOf(ctx), input));
    }, operation);
  };
}

function incomingOf(ctx: KoaMessage): Incoming {
  return {
    method: ctx.method,
    target: koaTarget(ctx),
    header: (name) => headerLines(ctx.req, name),
    readBody: (limitBytes) => readBufferedBody(ctx.req, ctx.request, limitBytes, remedy),
  };
}

/** Inside another framework's mount only the message has the whole path. */
function koaTarget(ctx: KoaMessage): string {
  const sent: unknown = Reflect.get(ctx.req, "originalUrl");
  return typeof sent === "string" ? sent : ctx.originalUrl;
}

const remedy =
  "Let the parser keep its text in `ctx.request.rawBody` (as `@koa/bodyparser` does), move it after the protected " +
  'handler, or opt in to `fingerprint: "parsed"`.';

/**
 * Makes a run's context as Koa makes one: an object that inherits from the app's, with its own response. What the run sets on
 * it ends with the run, and after the run it cannot reach the app's response. `cookies` is also its own, because an object that
 * middleware has already read would write to the app's response.
 */
function contextOfRun<C extends KoaMessage>(ctx: C, res: ServerResponse): C {
  const own: C = Object.create(ctx);
  own.res = res;
  // A copy, because middleware that answers during the run sets the app's.
  const status = { _explicitStatus: Reflect.get(ctx.response, "_explicitStatus") };
  own.response = Object.assign(Object.create(ctx.response), { ctx: own, res, ...status });
  let cookies: unknown;
  Object.defineProperty(own, "cookies", {
    configurable: true,
    get() {
      cookies ??= Object.assign(Object.create(ctx.cookies as object), { response: res });
      return cookies;
    },
    set(given: unknown) {
      cookies = given;
    },
  });
  return own;
}

interface DeferredErrors {
  /** The context's own method. */
  readonly onerror: KoaMessage["onerror"];
  /** Passes on the errors received so far, and later ones directly. */
  release(): void;
}

/**
 * Defers errors that Koa reports to a context while its response is buffered, mainly that the client has hung up. Koa would answer
 * them, and the buffered response would take that for the handler's answer.
 */
function deferErrors(ctx: KoaMessage): DeferredErrors {
  const before = Object.getOwnPropertyDescriptor(ctx, "onerror");
  const { onerror } = ctx;
  const deferred: Error[] = [];
  ctx.onerror = (error) => {
    // On a live connection the error is from middleware, and the client waits for its answer.
    if (ctx.req.socket.destroyed) deferred.push(error);
    else Reflect.apply(onerror, ctx, [error]);
  };
  return {
    onerror,
    release() {
      if (before === undefined) Reflect.deleteProperty(ctx, "onerror");
      else Object.defineProperty(ctx, "onerror", before);
      for (const error of deferred) ctx.onerror(error);
    },
  };
}

/** Passes an answer to Koa, which sends it after the outer middleware has run. */
function answerWith(ctx: KoaMessage, { kind, reply }: Answered): void {
  const { res } = ctx;
  // Middleware has answered meanwhile, for instance with a time-out.
  if (res.headersSent) return;
  if (kind === "handler") for (const name of res.getHeaderNames()) res.removeHeader(name);
  const { buffer, byteOffset, byteLength } = reply.body;
  const prepared = res.getHeader("content-type");
  // Empty text: plugins would digest and compress empty bytes, and null would remove the content type.
  const body = byteLength === 0 ? "" : Buffer.from(buffer, byteOffset, byteLength);
  ctx.body = ctx.method === "HEAD" ? null : body;
  ctx.status = reply.status;
  if (reply.statusText !== undefined) ctx.message = reply.statusText;
  // Koa sets a content type for every body; an answer has its own, or none.
  if (prepared === undefined) res.removeHeader("Content-Type");
  setFields(reply.headers, (name, value) => res.setHeader(name, value));
}

/**
 * Makes the middleware of the status resource, which returns the outcome of a request that was answered 202. It never calls
 * `next`: mount it in your router for GET and HEAD, after authorisation. Give it the options of the routes that answer 202.
 * Callers with another tenant or principal get 404.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function koaStatus<Tx, C extends KoaMessage = KoaContext>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<C>,
): (ctx: C) => Promise<void> {
  const ask = createStatus<C, Tx>(latchkey, options);
  return async (ctx) => {
    answerWith(ctx, await ask(ctx, { method: ctx.method, target: koaTarget(ctx) }));
  };
}
