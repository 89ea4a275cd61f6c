/** Hono. */
import type { IncomingMessage } from "node:http";
import type { HandlerContext } from "../attempt/attempt.ts";
import type { Execution } from "../engine/classify.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import type { HeaderEntry, Reply } from "./capture.ts";
import { createExchange } from "./exchange.ts";
import {
  captureResponse,
  joinedHeader,
  readRequestBytes,
  targetOf,
  toResponse,
  unread,
} from "./fetch-messages.ts";
import type { HonoContext } from "./hono-types.ts";
import type { HttpOptions, RouteOptions } from "./http-options.ts";
import type { BodyReading, HeaderLines } from "./incoming.ts";
import { announcesBody, headerLines, readBytes } from "./node-messages.ts";

/** Protects one route. What it returns is an ordinary Hono handler; put it last, after authorisation and validators. */
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
 * `answerHoldBytes`, before it is sent. Headers and status that a rolled-back handler had set on `c` are taken back.
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
    return async (c: Own): Promise<Out> => {
      const body = createBody(c);
      const prepared = [...c.res.headers];
      const incoming = {
        method: c.req.method,
        target: targetOf(c.req.raw),
        header: (name: string) => keyLines(c, name),
        readBody: body.read,
      };
      const work = async (context: HandlerContext<Tx, E>) => {
        resetResponse(c, prepared);
        body.giveBack();
        return captureResponse(await handler(c, context), operation.settings.answerHoldBytes);
      };
      // C is what the adapter's options know of a context, Own what this route knows of the same one.
      const outcome = await submit(c as HonoContext as C, incoming, work).catch((error: unknown) => {
        resetResponse(c, prepared);
        throw error;
      });
      if (outcome.kind !== "pass") return answerWith(c, outcome.reply, prepared) as Out;
      body.giveBack();
      // An outcome of operations without `tx` alone, whose whole context is the attempt.
      return handler(c, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
    };
  };
}

/** On Node the raw field lines are there; elsewhere `Headers` has joined them. */
function keyLines(c: HonoContext, name: string): HeaderLines {
  const { incoming } = (c.env ?? {}) as { readonly incoming?: Partial<IncomingMessage> };
  const { rawHeaders, headers } = incoming ?? {};
  if (!Array.isArray(rawHeaders) || headers === undefined) return joinedHeader(c.req.raw, name);
  return headerLines({ rawHeaders, headers }, name);
}

/** A request's body, which validators may have read through Hono's own cache. */
function createBody(c: HonoContext): { read(limitBytes: number): Promise<BodyReading>; giveBack(): void } {
  let taken: { readonly bytes: Uint8Array; readonly raw: Request } | null = null;
  let unreadStill = false;
  return {
    async read(limitBytes) {
      const cached = await cachedBytes(c);
      if (cached !== null) {
        return cached.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes: cached };
      }
      const { raw } = c.req;
      const message = untouchedMessage(c);
      unreadStill = message !== null;
      const reading =
        message === null ? await readRequestBytes(raw, limitBytes) : await readAhead(message, limitBytes);
      if (reading.kind === "bytes") taken = { bytes: reading.bytes, raw };
      if (reading.kind !== "consumed") return reading;
      return {
        kind: "consumed",
        remedy:
          "Read it through `c.req.text()`, `json()` or `arrayBuffer()`, or not at all before the protected handler.",
      };
    },
    giveBack() {
      if (taken !== null && !unreadStill) c.req.raw = unread(taken.raw, taken.bytes);
      unreadStill = false;
    },
  };
}

/**
 * Node's own message under a request that `@hono/node-server` has made and nobody has looked into; null elsewhere. That
 * package keeps it in a property of the request, beside the real `Request` once somebody needed one.
 */
function untouchedMessage({ req, env }: HonoContext): IncomingMessage | null {
  const { incoming } = (env ?? {}) as { readonly incoming?: IncomingMessage };
  if (incoming === undefined || typeof incoming.on !== "function" || "rawBody" in incoming) return null;
  const kept = Object.getOwnPropertySymbols(req.raw).map((symbol): unknown => Reflect.get(req.raw, symbol));
  const untouched = kept.includes(incoming) && !kept.some((value) => value instanceof Request);
  return untouched && !incoming.readableDidRead && announcesBody(incoming) ? incoming : null;
}

/**
 * Reads a message past the request, and leaves the bytes in `rawBody`, where `@hono/node-server` looks for them before it
 * reads: the request stays unread, and no web stream is made for it.
 */
async function readAhead(message: IncomingMessage, limitBytes: number): Promise<BodyReading> {
  const reading = await readBytes(message, limitBytes);
  if (reading.kind === "bytes") Object.defineProperty(message, "rawBody", { value: reading.bytes });
  return reading;
}

/** Only these two hold what was sent; the cached forms of other kinds would be written anew. */
async function cachedBytes(c: HonoContext): Promise<Uint8Array | null> {
  const { arrayBuffer, text } = c.req.bodyCache;
  if (arrayBuffer !== undefined) return new Uint8Array(await arrayBuffer);
  return text === undefined ? null : Buffer.from(await text, "utf8");
}

/** Takes back what a handler has set on the response in preparation. */
function resetResponse(c: HonoContext, prepared: readonly HeaderEntry[]): void {
  for (const [name] of [...c.res.headers]) c.res.headers.delete(name);
  for (const [name, value] of prepared) c.res.headers.append(name, value);
  c.status(200);
}

/** Hono would lay the headers of the response in preparation over this one; that one goes first. */
function answerWith(c: HonoContext, reply: Reply, prepared: readonly HeaderEntry[]): Response {
  const response = toResponse(reply, prepared);
  c.res = undefined;
  c.res = response;
  return response;
}
