/** Sends a context's answer as Koa does. */
import { pipeline, Readable } from "node:stream";
import type { KoaMessage } from "./koa-types.ts";

/** Koa's own function at the end of the middleware chain, which it does not export. */
export function respond(ctx: KoaMessage): void {
  const { res } = ctx;
  // In both cases the handler answers through `ctx.res`.
  if (ctx.respond === false || res.writableEnded) return;
  const { body } = ctx;
  if (body === null || body === undefined) endWithoutBody(ctx);
  else if (typeof body === "string" || Buffer.isBuffer(body)) res.end(body);
  else {
    const stream = streamOf(body);
    // A source that fails destroys the response, which fails the run.
    if (stream === null) res.end(JSON.stringify(body));
    else pipeline(stream, res, () => {});
  }
}

/** A body that was set to null stays empty; otherwise the status message becomes the body. */
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
