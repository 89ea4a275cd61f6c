/** Handlers of the Fetch form: `(request) => Response`. */
import type { HandlerContext } from "../attempt/attempt.ts";
import type { Execution } from "../engine/classify.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import { createExchange } from "./exchange.ts";
import {
  captureResponse,
  joinedHeader,
  readRequestBytes,
  targetOf,
  toResponse,
  unread,
} from "./fetch-messages.ts";
import type { HttpOptions, RouteOptions } from "./http-options.ts";
import type { BodyReading } from "./incoming.ts";

export type FetchContext<R, Tx, E extends Execution> = HandlerContext<Tx, E> & {
  /** The request as the platform made it, for what only the platform knows. Its body has been read. */
  readonly original: R;
};

/**
 * A handler that is handed over. Its `request` has an unread body on every run; `rest` is whatever else the platform
 * passes, such as the parameters of a route.
 */
export type FetchHandler<R, Tx, E extends Execution, Rest extends readonly unknown[]> = (
  request: Request,
  context: FetchContext<R, Tx, E>,
  ...rest: Rest
) => Response | Promise<Response>;

/**
 * Protects one handler. What it returns is an ordinary Fetch handler; it rejects with the handler's error, and with
 * Latchkey's own where the service must be mended (`tenant-missing`, `body-consumed` …).
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
 * `Headers` has joined repeated field lines, so a repeated key is recognised by a comma outside quotes.
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
    return async (original, ...rest) => {
      let body: BodyReading | null = null;
      const incoming = {
        method: original.method,
        target: targetOf(original),
        header: (name: string) => joinedHeader(original, name),
        readBody: async (limitBytes: number) => {
          body = await readRequestBytes(original, limitBytes);
          return body;
        },
      };
      const handle = (context: HandlerContext<Tx, E>) => {
        const request = unread(original, body?.kind === "bytes" ? body.bytes : null);
        return handler(request, { ...context, original }, ...rest);
      };
      const outcome = await submit(original, incoming, async (context) =>
        captureResponse(await handle(context), answerHoldBytes),
      );
      if (outcome.kind !== "pass") return toResponse(outcome.reply);
      // An outcome of operations without `tx` alone, whose whole context is the attempt.
      return handle({ attempt: outcome.attempt } as HandlerContext<Tx, E>);
    };
  };
}
