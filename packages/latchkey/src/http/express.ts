/** Express 5 and 4. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { HandlerContext } from "../attempt/attempt.ts";
import type { Execution } from "../engine/classify.ts";
import { errorCodes } from "../errors.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import { createExchange, type Outcome } from "./exchange.ts";
import type { ExpressMessage, ExpressNext, ExpressRequest, ResponseOf } from "./express-types.ts";
import { holdResponse } from "./held-response.ts";
import type { HttpOptions, RouteOptions } from "./http-options.ts";
import type { BodyReading, Incoming } from "./incoming.ts";
import {
  announcesBody,
  badRequest,
  headerLines,
  readBytes,
  sendHandlerReply,
  sendLatchkeyReply,
} from "./node-messages.ts";
import { parseJsonBody } from "./request-body.ts";

/** A handler that is handed over: it is given `tx` (under `transaction`) and `attempt`, and answers through `res`. */
export type ExpressHandler<Req, Res, Tx, E extends Execution> = (
  req: Req,
  res: Res,
  context: HandlerContext<Tx, E>,
) => unknown;

/** Protects one route. What it returns is an ordinary Express handler; put it last, after authorisation. */
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
 * The answer is held until it is confirmed; `res` has no socket meanwhile: bytes are collected up to `answerHoldBytes`,
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
    return (req, res, next) => {
      const held = lazily(() => holdResponse(res, operation.settings.answerHoldBytes));
      // R is what the adapter's options know of a request, Req what this route knows of the same one.
      submit(req as ExpressMessage as R, incomingOf(req), (context, report) =>
        held.get().run((view) => handler(req, view, context), report),
      )
        .finally(() => held.made()?.release())
        .then((outcome) => {
          if (outcome.kind !== "pass") return send(res, outcome);
          // An outcome of operations without `tx` alone, whose whole context is the attempt.
          return handler(req, res, { attempt: outcome.attempt } as HandlerContext<
            Tx,
            (typeof operation)["execution"]
          >);
        })
        .catch(next);
    };
  };
}

/**
 * Makes `record(operation)`: middleware for a whole app or router, for adopting Latchkey step by step. It reserves the
 * key, lets the app answer through `next()`, and keeps what it answered. It cannot give handlers a transaction, roll them
 * back or run them again; protect the routes that matter with `expressProtect`.
 *
 * Requests with other methods than `methods` pass untouched. Mount it after authentication and body parsers.
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
    return (req, res, next) => {
      const held = lazily(() => holdResponse(res, operation.settings.answerHoldBytes));
      submit(req, incomingOf(req), (_context, report) => held.get().run(() => next(), report))
        .finally(() => held.made()?.release())
        .then((outcome) => {
          if (outcome.kind !== "pass") return send(res, outcome);
          for (const [name, value] of outcome.headers) res.setHeader(name, value);
          return next();
        })
        .catch(next);
    };
  };
}

/** Most requests are answered without running a handler: only those that are not need a held response. */
function lazily<T>(make: () => T): { get(): T; made(): T | null } {
  let made: T | null = null;
  return {
    get: () => {
      made ??= make();
      return made;
    },
    made: () => made,
  };
}

function send(res: ServerResponse, outcome: Exclude<Outcome, { readonly kind: "pass" }>): void {
  if (outcome.kind === "handler") sendHandlerReply(res, outcome.reply);
  else sendLatchkeyReply(res, outcome.reply);
}

function incomingOf(req: ExpressMessage): Incoming {
  return {
    method: req.method ?? "",
    target: req.originalUrl,
    header: (name) => headerLines(req, name),
    readBody: (limitBytes) => readBody(req, limitBytes),
  };
}

const rawBodyKey = Symbol.for("latchkey.rawBody");

/**
 * Keeps the bytes that a body parser reads, for the fingerprint: `express.json({ verify: keepRawBody })`, and the same
 * for `urlencoded`, `text` and `raw`.
 */
export function keepRawBody(req: IncomingMessage, _res: ServerResponse, bytes: Uint8Array): void {
  Object.defineProperty(req, rawBodyKey, { value: bytes, configurable: true });
}

/** The bytes kept by the hook, or by the platform: some cloud functions read the body first and leave `rawBody`. */
function keptBytes(req: ExpressMessage): Uint8Array | null {
  const kept: unknown = Reflect.get(req, rawBodyKey) ?? Reflect.get(req, "rawBody");
  return kept instanceof Uint8Array ? kept : null;
}

async function readBody(req: ExpressMessage, limitBytes: number): Promise<BodyReading> {
  const kept = keptBytes(req);
  if (kept !== null)
    return kept.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes: kept };
  if (!announcesBody(req)) return { kind: "bytes", bytes: new Uint8Array(0) };
  if (req.readableDidRead) {
    return req.body === undefined
      ? { kind: "consumed", remedy: errorCodes["body-consumed"].remedy }
      : { kind: "parsed", value: req.body };
  }
  const reading = await readBytes(req, limitBytes);
  if (reading.kind === "bytes") giveBody(req, reading.bytes);
  return reading;
}

/** Nobody else can read these bytes any more: JSON as its value, anything else (compressed JSON too) as the bytes. */
function giveBody(req: ExpressMessage, bytes: Uint8Array): void {
  // What body parsers of Express 4 look at before they read.
  Object.defineProperty(req, "_body", { value: true, configurable: true, writable: true });
  if (req.body !== undefined) return;
  try {
    const encoded = req.headers["content-encoding"] !== undefined;
    const value = parseJsonBody(bytes, encoded ? null : (req.headers["content-type"] ?? null));
    req.body = value === undefined ? bytes : value; // `null` is JSON
  } catch (cause) {
    throw badRequest("The request's body is not valid JSON", "entity.parse.failed", cause);
  }
}
