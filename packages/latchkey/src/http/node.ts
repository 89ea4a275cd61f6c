/** `node:http`, without a framework. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Execution } from "../engine/classify.ts";
import type { Latchkey } from "../latchkey.ts";
import type { HandlerContext } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { OwnedOperation } from "../operations/owned-operation.ts";
import { standInBytes } from "./node-response/node-body.ts";
import { announcesBody, headerLines, readBytes } from "./node-response/node-messages.ts";
import { sendOutcome, submitBuffered } from "./node-response/submit.ts";
import { createExchange } from "./protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "./protocol/http-options.ts";
import type { BodyReading, Incoming } from "./protocol/incoming.ts";
import { markProtected } from "./protocol/protection.ts";
import { createServing, type ServeContext } from "./protocol/serving.ts";
import { createStatus } from "./protocol/status.ts";

export type NodeContext<Tx, E extends Execution> = HandlerContext<Tx, E> & {
  /** The request's body as sent; empty if there is none. `req` can be read once more, for instance by a proxy. */
  readonly body: Buffer;
};

/** A protected handler: it receives `tx` (under `transaction`), `attempt` and `body`, and answers through `res`. */
export type NodeHandler<Req, Res, Tx, E extends Execution> = (
  req: Req,
  res: Res,
  context: NodeContext<Tx, E>,
) => unknown;

/**
 * Protects one handler; call the returned function after authorisation. It fulfils once the answer has been passed to `res`.
 * It rejects with the handler's error, and with Latchkey's own for mistakes of the service (`tenant-missing`,
 * `body-consumed` …). The response is then as it was before, and the caller must answer, because `node:http` does not.
 */
export type NodeProtect<R extends IncomingMessage, Tx> = <
  E extends Execution,
  Req extends IncomingMessage = R,
  Res extends ServerResponse = ServerResponse,
>(
  operation: Operation<E>,
  handler: NodeHandler<Req, Res, Tx, E>,
  overrides?: RouteOptions<R>,
) => (req: Req, res: Res) => Promise<void>;

/**
 * Makes `protect(operation, handler)` for `node:http` and every framework that passes on its requests and responses.
 *
 * The answer is buffered until it is confirmed. Meanwhile `res` has no socket: bytes are collected up to `answerHoldBytes`, and
 * trailers and informational responses are dropped. A handler that throws is rolled back. HTTP/1 only: messages of
 * `node:http2` are refused.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function nodeProtect<Tx, R extends IncomingMessage = IncomingMessage>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): NodeProtect<R, Tx> {
  const exchange = createExchange<R, Tx>(latchkey, options);
  return (operation, handler, overrides) => {
    const submit = exchange.route(operation, overrides);
    const { answerHoldBytes } = operation.settings;
    type E = (typeof operation)["execution"];
    return markProtected(async (req, res) => {
      const { incoming, body } = read(req);
      const answer = {
        res,
        limitBytes: answerHoldBytes,
        keepsHeaders: true,
        replacesReqRes: true,
        middlewareMayAnswer: true,
      };
      // R is what the adapter's options know of a request, Req what this handler knows of the same one.
      const outcome = await submitBuffered(
        submit,
        req as IncomingMessage as R,
        incoming,
        answer,
        (view, context) => handler(req, view, { ...context, body: body() }),
      );
      if (outcome.kind !== "pass") return sendOutcome(res, outcome);
      // Only operations without `tx` have this outcome, and their context has only the attempt.
      const context = { attempt: outcome.attempt } as HandlerContext<Tx, E>;
      await handler(req, res, { ...context, body: body() });
    }, operation);
  };
}

/**
 * Serves one operation that owns its work; call the returned function after authorisation. It fulfils once the answer has been
 * passed to `res`, and rejects with errors of `toInput` and `run`, and with Latchkey's own as a protected handler does.
 */
export type NodeServe<R extends IncomingMessage> = <E extends Execution, I, Req extends IncomingMessage = R>(
  operation: OwnedOperation<E, I>,
  toInput: (req: Req, context: ServeContext & { readonly body: Buffer }) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<R>,
) => (req: Req, res: ServerResponse) => Promise<void>;

/**
 * Makes `serve(operation, toInput)` for `node:http`: `toInput` makes the operation's input from a request and the bytes of its
 * body, and the operation's `run` answers. If `toInput` throws, the function rejects with that and nothing is stored.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function nodeServe<Tx, R extends IncomingMessage = IncomingMessage>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): NodeServe<R> {
  const served = createServing<R, Tx>(latchkey, options);
  return (operation, toInput, overrides) => {
    const submit = served(operation, overrides);
    return markProtected(async (req, res) => {
      const { incoming, body } = read(req);
      // R is what the adapter's options know of a request, Req what this handler knows of the same one.
      const request = req as IncomingMessage as R;
      const input = (context: ServeContext) => toInput(req, { ...context, body: body() });
      sendOutcome(res, await submit(request, incoming, input));
    }, operation);
  };
}

/** A request, and the bytes of its body once they have been read. */
function read(req: IncomingMessage): { readonly incoming: Incoming; body(): Buffer } {
  let body: Buffer = Buffer.alloc(0);
  return {
    incoming: {
      method: req.method ?? "",
      target: targetOf(req),
      header: (name) => headerLines(req, name),
      async readBody(limitBytes) {
        const reading = await readBody(req, limitBytes);
        if (reading.kind === "bytes") body = asBuffer(reading.bytes);
        return reading;
      },
    },
    body: () => body,
  };
}

/** Routers in the style of Connect remove a mount's path from `url` and keep the whole path in `originalUrl`. */
function targetOf(req: IncomingMessage): string {
  const original: unknown = Reflect.get(req, "originalUrl");
  return typeof original === "string" ? original : (req.url ?? "");
}

async function readBody(req: IncomingMessage, limitBytes: number): Promise<BodyReading> {
  const given = standInBytes(req, Reflect.get(req, "body"));
  if (given !== null)
    return given.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes: given };
  if (!announcesBody(req)) return { kind: "bytes", bytes: new Uint8Array(0) };
  if (!req.readableDidRead) return readBytes(req, limitBytes, "unread");
  return { kind: "consumed", remedy: "Pass the request to the protected handler unread." };
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/**
 * Makes the handler of the status resource, which returns the outcome of a request that was answered 202. Call it for GET and
 * HEAD where the last segment of the path is the id, after authorisation. Give it the options of the routes that answer 202.
 * Callers with another tenant or principal get 404. It rejects as a protected handler does.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function nodeStatus<Tx, R extends IncomingMessage = IncomingMessage>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): (req: R, res: ServerResponse) => Promise<void> {
  const ask = createStatus<R, Tx>(latchkey, options);
  return async (req, res) => {
    sendOutcome(res, await ask(req, { method: req.method ?? "", target: targetOf(req) }));
  };
}
