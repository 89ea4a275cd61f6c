/** Nest, on Express and on Fastify. */

import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { OwnedOperation } from "../../operations/owned-operation.ts";
import { readBufferedBody } from "../node-response/node-body.ts";
import { headerLines, requireHttp1 } from "../node-response/node-messages.ts";
import { createExchange } from "../protocol/exchange.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import type { Incoming } from "../protocol/incoming.ts";
import { markProtected } from "../protocol/protection.ts";
import { createServing } from "../protocol/serving.ts";
import { createStatus } from "../protocol/status.ts";
import { lastOf, NestExchange, placeOf } from "./nest-exchange.ts";
import type { NestHost, NestInterceptor, NestMessage, NestPlace, NestRequest } from "./nest-types.ts";

/** Protects one route: `@UseInterceptors(protect(operation))` on its method. */
export type NestProtect<R extends NestMessage> = <E extends Execution>(
  operation: Operation<E>,
  overrides?: RouteOptions<R>,
) => NestInterceptor;

const contexts = new WeakMap<object, HandlerContext<unknown, Execution>>();

/**
 * Makes `protect(operation)` for the route handlers of a Nest app. Guards run before it. Pipes, the handler and the
 * interceptors named after it are one run: an error in them rolls back and goes to the exception filters, and they may run
 * again. The interceptors before it, `@HttpCode`, `@Header`, `@Redirect`, `@Render` and `@Res` act on the captured answer,
 * which is what Nest writes to the response, kept until it is confirmed. For a replay Nest answers too, but what it writes is
 * discarded.
 *
 * Create the app with `rawBody: true`, so that the fingerprint covers the body as sent. Limits: if a COMMIT fails with a
 * serialization failure after Nest has answered, the run cannot be repeated and the client gets 503, to retry; if a handler
 * returns an Observable, Nest does not answer a client that has hung up, and the run fails; no server-sent events.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function nestProtect<Tx, R extends NestMessage = NestRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): NestProtect<R> {
  const exchange = createExchange<R, Tx>(latchkey, options);
  return (operation, overrides) => {
    const submit = exchange.route(operation, overrides);
    const { answerHoldBytes } = operation.settings;
    const interceptor: NestInterceptor = {
      intercept(host, next) {
        const place = placeOf(host);
        // Must be checked before the response is buffered.
        requireHttp1(place.message);
        const { request } = place;
        const turn = new NestExchange(host, place, answerHoldBytes, operation.execution !== "transaction");
        return turn.take(
          next,
          (context) => contexts.set(request, context),
          // R is what the adapter's options know of a request, NestMessage what both platforms' have.
          (work) => submit(request as R, incomingOf(place, host), work),
        );
      },
    };
    return markProtected(interceptor, operation);
  };
}

/** Serves one operation that owns its work: `@UseInterceptors(serve(operation))` on a method that returns its input. */
export type NestServe<R extends NestMessage> = <E extends Execution, I>(
  operation: OwnedOperation<E, I>,
  overrides?: RouteOptions<R>,
) => NestInterceptor;

/**
 * Makes `serve(operation)` for the route handlers of a Nest app: the handler returns the operation's input, and the operation's
 * `run` answers. Guards run before it; pipes, the handler and the interceptors named after it make the input. Their errors go
 * to the exception filters, and nothing is stored. What Nest writes for interceptors before it is discarded, as for a replay
 * under `nestProtect`.
 *
 * Decorators do not check types: annotate the method, `charge(@Body() body: ChargeDto): InputOf<typeof charge>`.
 *
 * @throws {TypeError} when an option is missing or out of range; `serve`, when the operation has no `run`.
 */
export function nestServe<Tx, R extends NestMessage = NestRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): NestServe<R> {
  const served = createServing<R, Tx>(latchkey, options);
  return <E extends Execution, I>(operation: OwnedOperation<E, I>, overrides?: RouteOptions<R>) => {
    const submit = served(operation, overrides);
    const { answerHoldBytes } = operation.settings;
    const interceptor: NestInterceptor = {
      intercept(host, next) {
        const place = placeOf(host);
        requireHttp1(place.message);
        const turn = new NestExchange(host, place, answerHoldBytes, operation.execution !== "transaction");
        // What the method returns is the input, as its annotation says.
        const input = () => lastOf(next.handle()) as Promise<I>;
        // R is what the adapter's options know of a request, NestMessage what both platforms' have.
        return turn.take(
          next,
          () => {},
          () => submit(place.request as R, incomingOf(place, host), input),
        );
      },
    };
    return markProtected(interceptor, operation);
  };
}

function incomingOf({ request, message }: NestPlace, host: NestHost): Incoming {
  return {
    method: request.method,
    target: request.originalUrl,
    variant: variantOf(host),
    header: (name) => headerLines(message, name),
    readBody: (limitBytes) => readBufferedBody(message, request, limitBytes, remedy),
  };
}

/** Routes with the same path differ in their version, for instance in a header, or in the host of their controller. */
function variantOf(host: NestHost): string | undefined {
  const [handler, controller] = [host.getHandler(), host.getClass()];
  const read: unknown = Reflect.get(Reflect, "getMetadata");
  if (typeof read !== "function") return undefined;
  const version: unknown = read("__version__", handler) ?? read("__version__", controller);
  const hosts: unknown = read("host", controller);
  if (version === undefined && hosts === undefined) return undefined;
  const shown = [version, hosts].map((each) => (Array.isArray(each) ? each : [each]).map(String).sort());
  return JSON.stringify(shown);
}

const remedy =
  'Create the app with `NestFactory.create(AppModule, { rawBody: true })`, or opt in to `fingerprint: "parsed"`.';

/**
 * Returns the `tx` and `attempt` of a protected handler. Make it a parameter decorator with Nest's own
 * `createParamDecorator(nestContext)`; the parameter's type is `HandlerContext<Tx, "transaction">`.
 *
 * @throws {TypeError} in a handler that is not protected.
 */
export function nestContext(_data: unknown, host: NestHost): HandlerContext<unknown, Execution> {
  const context = contexts.get(host.switchToHttp().getRequest());
  if (context !== undefined) return context;
  throw new TypeError("Only protected handlers have a context: @UseInterceptors(protect(operation))");
}

/**
 * Makes the status resource, which returns the outcome of a request that was answered 202: `@Get("operations/:id")` and
 * `@UseInterceptors(status)` on a method of any name, whose body never runs. Guards run before it. Give it the options of the
 * routes that answer 202. Callers with another tenant or principal get 404.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function nestStatus<Tx, R extends NestMessage = NestRequest>(
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): NestInterceptor {
  const ask = createStatus<R, Tx>(latchkey, options);
  return {
    intercept(host, next) {
      const place = placeOf(host);
      const { method, originalUrl: target } = place.request;
      return new NestExchange(host, place, holdBytes, true).take(
        next,
        () => {},
        // R is what the adapter's options know of a request, NestMessage what both platforms' have.
        () => ask(place.request as R, { method, target }),
      );
    },
  };
}

/** Limit for Nest's own writing of the answer, which is discarded. */
const holdBytes = 32 * 1024 * 1024;
