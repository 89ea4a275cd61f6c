/** Koa. */
import type { ServerResponse } from "node:http";
import { pipeline, Readable } from "node:stream";
import type { HandlerContext } from "../attempt/attempt.ts";
import type { Execution } from "../engine/classify.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import { createExchange } from "./exchange.ts";
import { type Answered, submitHeld } from "./held-exchange.ts";
import type { HttpOptions, RouteOptions } from "./http-options.ts";
import type { KoaContext, KoaMessage } from "./koa-types.ts";
import { readHeldBody } from "./node-body.ts";
import { headerLines } from "./node-messages.ts";
import { groupLines } from "./response-head.ts";

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
    return async (ctx: Own): Promise<void> => {
      const incoming = {
        method: ctx.method,
        target: ctx.originalUrl,
        header: (name: string) => headerLines(ctx.req, name),
        readBody: (limitBytes: number) => readHeldBody(ctx.req, ctx.request, limitBytes, remedy),
      };
      const answer = { res: ctx.res, limitBytes: operation.settings.answerHoldBytes };
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      const request = ctx as KoaMessage as C;
      const outcome = await submitHeld(submit, request, incoming, answer, async (view, context) => {
        const own = contextOfRun(ctx, view);
        await handler(own, context);
        respond(own);
      });
      if (outcome.kind !== "pass") return answerWith(ctx, outcome);
      // An outcome of operations without `tx` alone, whose whole context is the attempt.
      await handler(ctx, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
    };
  };
}

const remedy =
  "Let the parser keep its text in `ctx.request.rawBody` (as `@koa/bodyparser` does), put it behind the protected " +
  'handler, or opt in to `fingerprint: "parsed"`.';

/**
 * A context as Koa itself makes one: an object that inherits, with a response of its own. What a run sets on it is gone
 * with the run, and when it is over nothing it does reaches the app's response.
 */
function contextOfRun<C extends KoaMessage>(ctx: C, res: ServerResponse): C {
  const own: C = Object.create(ctx);
  own.res = res;
  own.response = Object.assign(Object.create(ctx.response), { ctx: own, res });
  return own;
}

/** Koa's own end of the chain, which it does not export. */
function respond(ctx: KoaMessage): void {
  const { res } = ctx;
  // Either way the handler answers through `ctx.res`.
  if (ctx.respond === false || res.writableEnded) return;
  const { body } = ctx;
  if (body === null || body === undefined) endWithoutBody(ctx);
  else if (typeof body === "string" || Buffer.isBuffer(body)) res.end(body);
  else {
    const stream = streamOf(body);
    // A source that fails destroys the response, and with it fails the run.
    if (stream === null) res.end(JSON.stringify(body));
    else pipeline(stream, res, () => {});
  }
}

/** A status that nobody explained is explained by its name; a body that was set to null is none. */
function endWithoutBody(ctx: KoaMessage): void {
  const explicit: unknown = Reflect.get(ctx.response, "_explicitNullBody");
  if (explicit === true) {
    ctx.res.end();
    return;
  }
  ctx.type = "text";
  ctx.res.end(ctx.message || String(ctx.status));
}

function streamOf(body: unknown): NodeJS.ReadableStream | null {
  if (body instanceof Blob) return Readable.from(body.stream());
  if (body instanceof ReadableStream) return Readable.from(body);
  if (body instanceof Response) return Readable.from(body.body ?? []);
  return isPiped(body) ? body : null;
}

function isPiped(body: unknown): body is NodeJS.ReadableStream {
  return typeof body === "object" && body !== null && "pipe" in body && typeof body.pipe === "function";
}

/** Hands an answer to Koa, which sends it when the middleware before has had its turn. */
function answerWith(ctx: KoaMessage, { kind, reply }: Answered): void {
  const { res } = ctx;
  if (kind === "handler") for (const name of res.getHeaderNames()) res.removeHeader(name);
  const { buffer, byteOffset, byteLength } = reply.body;
  const prepared = res.getHeader("content-type");
  ctx.body = ctx.method === "HEAD" ? null : Buffer.from(buffer, byteOffset, byteLength);
  ctx.status = reply.status;
  if (reply.statusText !== undefined) ctx.message = reply.statusText;
  // Koa names a type for every body; an answer has its own, or none.
  if (prepared === undefined) res.removeHeader("Content-Type");
  for (const [name, values] of groupLines(reply.headers)) {
    res.setHeader(name, values.length === 1 ? (values[0] ?? "") : values);
  }
}
