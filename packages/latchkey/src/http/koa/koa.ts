/** Koa. */
import type { ServerResponse } from "node:http";
import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { setFields } from "../node-response/head.ts";
import { readHeldBody } from "../node-response/node-body.ts";
import { headerLines } from "../node-response/node-messages.ts";
import { submitHeld } from "../node-response/submit.ts";
import { beforeHandler, createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { Incoming } from "../protocol/incoming.ts";
import type { Answered } from "../protocol/outcome.ts";
import { protecting } from "../protocol/protection.ts";
import { createServing, type ServeContext } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import { respond } from "./koa-respond.ts";
import type { KoaContext, KoaMessage } from "./koa-types.ts";
import { readOwn, restoreOwn } from "./own-properties.ts";

/** A handler that is handed over: it is given `tx` (under `transaction`) and `attempt`, and answers through `ctx`. */
export type KoaHandler<C, Tx, E extends Execution> = (ctx: C, context: HandlerContext<Tx, E>) => unknown;

/** Protects one route. What it returns is Koa middleware that never calls `next`; put it last, after authorisation. */
export type KoaProtect<C extends KoaMessage, Tx> = <E extends Execution, Own extends KoaMessage = C>(
  operation: Operation<E>,
  handler: KoaHandler<Own, Tx, E>,
  overrides?: RouteOptions<C>,
) => (ctx: Own) => Promise<void>;

/**
 * Makes `protect(operation, handler)` for a Koa app.
 *
 * Each run of the handler gets a context of its own, which inherits the app's: what it sets there (`ctx.user = …`) stays
 * in the run, what it changes inside shared objects (`ctx.state.user = …`) does not. The answer is captured as Koa would
 * send it and held until it is confirmed; then it becomes the app's `ctx.body`, as bytes, and goes out through the
 * middleware before it. A handler that throws is rolled back and its error goes on to that middleware.
 *
 * Without a body parser before it, `ctx.request.body` is JSON as its value, anything else as bytes. A parser must leave
 * what it read in `ctx.request.rawBody`, as `@koa/bodyparser` does.
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
      const answer = { res: ctx.res, limitBytes: operation.settings.answerHoldBytes, yields: true };
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      const request = ctx as KoaMessage as C;
      let errors: DeferredErrors | null = null;
      const before = readOwn(ctx.response);
      const outcome = await submitHeld(submit, request, incomingOf(ctx), answer, async (view, context) => {
        const own = beforeHandler(() => {
          if (errors === null) errors = deferErrors(ctx);
          else restoreOwn(ctx.response, before);
          return Object.assign(contextOfRun(ctx, view), { onerror: errors.onerror });
        });
        await handler(own, context);
        respond(own);
      })
        .catch((error: unknown) => {
          restoreOwn(ctx.response, before);
          throw error;
        })
        .finally(() => errors?.release());
      if (outcome.kind !== "pass") return answerWith(ctx, outcome);
      // An outcome of operations without `tx` alone, whose whole context is the attempt.
      await handler(ctx, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
    };
    return protecting(protectedHandler, operation);
  };
}

/** Serves one operation that owns its work. What it returns is Koa middleware that never calls `next`. */
export type KoaServe<C extends KoaMessage> = <E extends Execution, I, Own extends KoaMessage = C>(
  operation: OwnedOperation<E, I>,
  toInput: (ctx: Own, context: ServeContext) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<C>,
) => (ctx: Own) => Promise<void>;

/**
 * Makes `serve(operation, toInput)` for a Koa app: `toInput` makes the operation's input of a context whose
 * `ctx.request.body` is there, and the operation's `run` answers. What `toInput` throws goes on to the middleware before,
 * and nothing is stored.
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
    return protecting(async (ctx) => {
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
    readBody: (limitBytes) => readHeldBody(ctx.req, ctx.request, limitBytes, remedy),
  };
}

/** Inside another framework's mount the message has all of the path, and Koa what is left of it. */
function koaTarget(ctx: KoaMessage): string {
  const sent: unknown = Reflect.get(ctx.req, "originalUrl");
  return typeof sent === "string" ? sent : ctx.originalUrl;
}

const remedy =
  "Let the parser keep its text in `ctx.request.rawBody` (as `@koa/bodyparser` does), put it behind the protected " +
  'handler, or opt in to `fingerprint: "parsed"`.';

/**
 * A context as Koa itself makes one: an object that inherits, with a response of its own. What a run sets on it is gone
 * with the run, and when it is over nothing it does reaches the app's response. Cookies that middleware has asked for already
 * would write to that one.
 */
function contextOfRun<C extends KoaMessage>(ctx: C, res: ServerResponse): C {
  const own: C = Object.create(ctx);
  own.res = res;
  // Its own, since middleware that answers while the run goes on sets the app's.
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
  /** Hands on what has come in, and everything after it. */
  release(): void;
}

/**
 * Keeps what Koa tells a context while its response is held: that the client has hung up, above all. Koa would answer with
 * it, which is no answer of the handler's, and the held response would take it.
 */
function deferErrors(ctx: KoaMessage): DeferredErrors {
  const before = Object.getOwnPropertyDescriptor(ctx, "onerror");
  const { onerror } = ctx;
  const deferred: Error[] = [];
  ctx.onerror = (error) => {
    // Of a connection that lives, it is middleware's: the client waits for an answer to it.
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

/** Hands an answer to Koa, which sends it when the middleware before has had its turn. */
function answerWith(ctx: KoaMessage, { kind, reply }: Answered): void {
  const { res } = ctx;
  // Middleware has answered meanwhile, with a time-out for instance.
  if (res.headersSent) return;
  if (kind === "handler") for (const name of res.getHeaderNames()) res.removeHeader(name);
  const { buffer, byteOffset, byteLength } = reply.body;
  const prepared = res.getHeader("content-type");
  // Empty text, which plugins neither digest nor compress, as they would empty bytes; null would take the type away.
  const body = byteLength === 0 ? "" : Buffer.from(buffer, byteOffset, byteLength);
  ctx.body = ctx.method === "HEAD" ? null : body;
  ctx.status = reply.status;
  if (reply.statusText !== undefined) ctx.message = reply.statusText;
  // Koa names a type for every body; an answer has its own, or none.
  if (prepared === undefined) res.removeHeader("Content-Type");
  setFields(reply.headers, (name, value) => res.setHeader(name, value));
}

/**
 * Makes the middleware of the status resource, which says what became of a request that was answered 202. It never calls
 * `next`: hand it to your router for GET and HEAD, after authorisation. Give it the options of the routes that answer 202. To
 * everybody but the request's own tenant and principal it answers 404.
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
