/** Handlers of the Fetch form: `(request) => Response`. */
import type { IncomingMessage } from "node:http";

import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { leaveUnder, untouchedMessage } from "../node-response/fetch-server.ts";

import { discardUnread, readBytes } from "../node-response/node-messages.ts";
import { requireUnread } from "../node-response/submit.ts";
import { beforeHandler, createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { BodyReading, Incoming } from "../protocol/incoming.ts";
import { markProtected } from "../protocol/protection.ts";
import { createServing, type ServeContext } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import {
  captureResponse,
  joinedHeader,
  readRequestBytes,
  targetOf,
  toResponse,
  unread,
} from "./fetch-messages.ts";

export type FetchContext<R, Tx, E extends Execution> = HandlerContext<Tx, E> & {
  /** The platform's own request, for its platform-specific data. Its body has been read. */
  readonly original: R;
};

/**
 * A protected handler. Its `request` has an unread body on every run; `rest` is whatever else the platform passes, such as
 * the parameters of a route.
 */
export type FetchHandler<R, Tx, E extends Execution, Rest extends readonly unknown[]> = (
  request: Request,
  context: FetchContext<R, Tx, E>,
  ...rest: Rest
) => Response | Promise<Response>;

/**
 * Protects one handler. Returns an ordinary Fetch handler, which rejects with the handler's error, and with Latchkey's own
 * for mistakes of the service (`tenant-missing`, `body-consumed` …).
 */
export type FetchProtect<R extends Request, Tx> = <E extends Execution, Rest extends readonly unknown[] = []>(
  operation: Operation<E>,
  handler: FetchHandler<R, Tx, E, Rest>,
  overrides?: RouteOptions<R>,
) => (request: R, ...rest: Rest) => Promise<Response>;

/**
 * Makes `protect(operation, handler)` for Fetch handlers. The body of the handler's response is read to its end, up to
 * `answerHoldBytes`, before it is sent.
 *
 * `Headers` joins repeated field lines, so a repeated key is recognised by a comma outside quotes.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function fetchProtect<Tx, R extends Request = Request>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): FetchProtect<R, Tx> {
  const exchange = createExchange<R, Tx>(latchkey, options);
  return (operation, handler, overrides) => {
    const submit = exchange.route(operation, overrides);
    const { answerHoldBytes } = operation.settings;
    type E = (typeof operation)["execution"];
    return markProtected(async (original, ...rest) => {
      const { incoming, readable, requireStream, discard } = read(original);
      const handle = (context: HandlerContext<Tx, E>) => {
        requireStream();
        return handler(beforeHandler(readable), { ...context, original }, ...rest);
      };
      const outcome = await submit(original, incoming, async (context) =>
        captureResponse(await handle(context), answerHoldBytes),
      );
      if (outcome.kind !== "pass") {
        discard();
        return toResponse(outcome.reply);
      }
      // Only operations without `tx` have this outcome, and their whole context is the attempt.
      return handle({ attempt: outcome.attempt } as HandlerContext<Tx, E>);
    }, operation);
  };
}

/** Serves one operation that owns its work. Returns an ordinary Fetch handler, which rejects as a protected one does. */
export type FetchServe<R extends Request> = <E extends Execution, I, Rest extends readonly unknown[] = []>(
  operation: OwnedOperation<E, I>,
  toInput: (
    request: Request,
    context: ServeContext & { readonly original: R },
    ...rest: Rest
  ) => NoInfer<I> | Promise<NoInfer<I>>,
  overrides?: RouteOptions<R>,
) => (request: R, ...rest: Rest) => Promise<Response>;

/**
 * Makes `serve(operation, toInput)` for Fetch handlers: `toInput` makes the operation's input from a request with an unread
 * body, and the operation's `run` answers. If `toInput` throws, the handler rejects with that and nothing is stored.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function fetchServe<Tx, R extends Request = Request>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): FetchServe<R> {
  const served = createServing<R, Tx>(latchkey, options);
  return (operation, toInput, overrides) => {
    const submit = served(operation, overrides);
    return markProtected(async (original, ...rest) => {
      const { incoming, readable, discard } = read(original);
      const { reply } = await submit(original, incoming, (context) =>
        toInput(readable(), { ...context, original }, ...rest),
      );
      discard();
      return toResponse(reply);
    }, operation);
  };
}

interface ReadRequest {
  readonly incoming: Incoming;
  /** Returns the request with an unread body, any number of times. */
  readable(): Request;
  /** @throws {CannotRunAgain} when an earlier run has read the stream of the underlying Node message. */
  requireStream(): void;
  /** Discards what is still unread of that message. */
  discard(): void;
}

function read(original: Request): ReadRequest {
  let body: BodyReading | null = null;
  let message: IncomingMessage | null = null;
  return {
    incoming: {
      method: original.method,
      target: targetOf(original),
      header: (name) => joinedHeader(original, name),
      async readBody(limitBytes) {
        message = untouchedMessage(original);
        body =
          message === null
            ? await readRequestBytes(original, limitBytes)
            : leaveUnder(message, await readBytes(message, limitBytes, "unread"));
        return body;
      },
    },
    readable: () => unread(original, body?.kind === "bytes" ? body.bytes : null),
    requireStream: () => requireUnread(message ?? undefined),
    discard: () => discardUnread(message ?? undefined),
  };
}

/**
 * Makes the handler of the status resource, which returns the outcome of a request that was answered 202. Mount it for GET and
 * HEAD where the last segment of the path is the id, after authorisation. Give it the options of the routes that answer 202.
 * Callers with another tenant or principal get 404.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function fetchStatus<Tx, R extends Request = Request>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): (request: R, ...rest: readonly unknown[]) => Promise<Response> {
  const ask = createStatus<R, Tx>(latchkey, options);
  return async (request) => {
    const { reply } = await ask(request, { method: request.method, target: targetOf(request) });
    return toResponse(reply);
  };
}
