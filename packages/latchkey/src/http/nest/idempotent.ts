/** Decorators for the methods of controllers, in apps that import `LatchkeyModule`. */

import type { DirectExecution, Execution } from "../../engine/classify.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { Operation, OperationOptions } from "../../operations/operation.ts";
import type { OwnedOperationOptions } from "../../operations/owned-operation.ts";
import type { RouteOptions } from "../protocol/http-options.ts";
import { markProtected } from "../protocol/protection.ts";
import { nestContext } from "./nest.ts";
import {
  hasInterceptor,
  injectTokens,
  isRoute,
  useInterceptor,
  useOpenApiExtension,
  useParameter,
} from "./nest-metadata.ts";
import { isOperation, LatchkeyRoutes, openApiMarker, type RouteDefinition } from "./nest-routes.ts";
import type { NestCallHandler, NestHost, NestInterceptor, NestRequest, NestStream } from "./nest-types.ts";

type Loose = ReturnType<JSON["parse"]>;
type Decorate = (target: object, method: string | symbol, descriptor: TypedPropertyDescriptor<Loose>) => void;

/**
 * Protects a method: `@Post() @Idempotent("orders.create")`. Defines the operation on the app's latchkey, once, when the app
 * starts; name and options are those of `latchkey.operation`. With the option `run` the operation owns its work: the method
 * returns its input, and `run` answers (see `nestServe`). The name is part of every stored key: changing it forgets them.
 *
 * Interceptors of decorators below this one wrap it; those above it are part of the run, as are pipes.
 *
 * @param overrides this route's overrides of `http` of `LatchkeyModule`
 * @throws {TypeError} for a value that is not an operation; when the app starts, as `latchkey.operation` and `nestProtect` do.
 */
export function Idempotent<E extends DirectExecution, R = NestRequest>(
  name: string,
  options?: OperationOptions<E>,
  overrides?: RouteOptions<R>,
): Decorate;
export function Idempotent<I, E extends Execution, R = NestRequest>(
  name: string,
  options: OwnedOperationOptions<I, Loose, E>,
  overrides?: RouteOptions<R>,
): Decorate;
/**
 * Protects a method with an operation that is defined elsewhere: the operation itself, or the token (a symbol) of its
 * provider. For operations of several routes, and for those whose `run` needs providers.
 */
export function Idempotent<R = NestRequest>(
  operation: Operation | symbol,
  overrides?: RouteOptions<R>,
): Decorate;
export function Idempotent(
  operation: string | symbol | Operation,
  ...more: readonly (OperationOptions | RouteOptions<never> | undefined)[]
): Decorate {
  const isNamed = typeof operation === "string";
  if (!isNamed && typeof operation !== "symbol" && !isOperation(operation)) {
    throw new TypeError(
      "@Idempotent takes an operation's name, an operation, or the token (a symbol) of one",
    );
  }
  const [options, overrides] = isNamed ? more : [undefined, more[0]];
  return (target, method, { value }) => {
    const definition: RouteDefinition = {
      place: placeOf(target, method),
      operation,
      options: (options ?? {}) as OperationOptions,
      overrides: (overrides ?? {}) as RouteOptions<never>,
    };
    const tokens = typeof operation === "symbol" ? [operation] : [];
    const interceptor = interceptorClass(
      (routes, provided) => routes.interceptorFor(definition, provided),
      tokens,
    );
    markProtected(interceptor, { name: operationName(operation) });
    useInterceptor(value, interceptor);
    decorated.add({ target, method, interceptor });
    useOpenApiExtension(value, openApiMarker, definition.place);
  };
}

function operationName(operation: string | symbol | Operation): string {
  if (typeof operation === "string") return operation;
  return typeof operation === "symbol" ? (operation.description ?? String(operation)) : operation.name;
}

/**
 * Makes a method the status resource: `@Get("operations/:id") @IdempotencyStatus()`. The method's body never runs. Set
 * `statusPath` in the `http` of `LatchkeyModule` to its path.
 */
export function IdempotencyStatus(): Decorate {
  return (_target, _method, { value }) =>
    useInterceptor(
      value,
      interceptorClass((routes) => routes.statusInterceptor(), []),
    );
}

/**
 * Passes the context of a protected method to a parameter, or one member of it: `@IdempotencyContext() { tx, attempt }`,
 * `@IdempotencyContext("tx") tx`. Annotate the type yourself: `PgTx<pg.Pool>`, `Attempt`,
 * `HandlerContext<PgTx<pg.Pool>, "transaction">`.
 *
 * @throws {TypeError} at the request, in a method that is not protected, or for a member that its execution does not have.
 */
export function IdempotencyContext(
  member?: keyof HandlerContext<unknown, "transaction">,
): (target: object, method: string | symbol | undefined, index: number) => void {
  return (target, method, index) => {
    if (method === undefined) throw new TypeError("@IdempotencyContext is for parameters of methods");
    useParameter({ target, method, index }, "latchkey", memberOf, member);
  };
}

function memberOf(member: string | undefined, host: NestHost): unknown {
  const context = nestContext(undefined, host);
  if (member === undefined) return context;
  if (member in context) return Reflect.get(context, member);
  throw new TypeError(`@IdempotencyContext(${JSON.stringify(member)}): only "transaction" execution has it`);
}

interface Decorated {
  readonly target: object;
  readonly method: string | symbol;
  readonly interceptor: object;
}

/** Methods with `@Idempotent` that no app has checked yet. */
const decorated = new Set<Decorated>();

/**
 * Nest reads the metadata when the class is complete. If another decorator has replaced the method, or the method is not a
 * route, the interceptor is never called and requests would run unprotected.
 *
 * @throws {TypeError} for the first such method, when an app starts.
 */
export function requireProtected(): void {
  for (const one of decorated) {
    decorated.delete(one);
    const { target, method, interceptor } = one;
    const name = `@Idempotent on ${target.constructor.name}.${String(method)}`;
    const current: unknown = Reflect.get(target, method);
    if (typeof current !== "function" || !hasInterceptor(current, interceptor)) {
      throw new TypeError(
        `${name} protects nothing: a decorator above it has replaced the method. Put @Idempotent above that one, or let it copy the method's metadata`,
      );
    }
    if (!isRoute(current)) {
      throw new TypeError(`${name} protects nothing: the method is not a route of a controller`);
    }
  }
}

const places = new Map<string, number>();

/** A number distinguishes controllers with the same name, such as those of two versions. */
function placeOf(target: object, method: string | symbol): string {
  const place = `${target.constructor.name}.${String(method)}`;
  const count = (places.get(place) ?? 0) + 1;
  places.set(place, count);
  return count === 1 ? place : `${place}#${count}`;
}

/** Makes a class, so that Nest instantiates it with its controller and injects the app's providers. */
function interceptorClass(
  make: (routes: LatchkeyRoutes, provided: unknown) => NestInterceptor,
  tokens: readonly symbol[],
): object {
  class IdempotentInterceptor implements NestInterceptor {
    readonly #interceptor: NestInterceptor;
    constructor(...[routes, provided]: readonly [LatchkeyRoutes, unknown?]) {
      this.#interceptor = make(routes, provided);
    }
    intercept<S extends NestStream>(host: NestHost, next: NestCallHandler<S>): S {
      return this.#interceptor.intercept(host, next);
    }
  }
  injectTokens(IdempotentInterceptor, [LatchkeyRoutes, ...tokens]);
  return IdempotentInterceptor;
}
