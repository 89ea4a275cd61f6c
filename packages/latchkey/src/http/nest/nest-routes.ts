/** The routes of one app that `@Idempotent` protects: their operations, and the interceptors in front of them. */

import type { Execution } from "../../engine/classify.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { Operation, OperationOptions } from "../../operations/operation.ts";
import { type OwnedOperation, ownsItsWork } from "../../operations/owned-operation.ts";
import { describeDocument } from "../openapi/document.ts";
import { describeRoute } from "../openapi/route-description.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import { type RouteContext, resolveRoute } from "../protocol/route.ts";
import { type NestProtect, type NestServe, nestProtect, nestServe, nestStatus } from "./nest.ts";
import type { NestInterceptor, NestMessage } from "./nest-types.ts";

/** The arguments of one `@Idempotent`. */
export interface RouteDefinition {
  /** The decorated method: `OrdersController.create`. */
  readonly place: string;
  /** A name to define, an operation, or the token of an operation's provider. */
  readonly operation: string | symbol | Operation;
  readonly options: OperationOptions;
  readonly overrides: RouteOptions<never>;
}

/** Operations by the decorator that defines them, because several apps in a process, as in tests, may share one latchkey. */
const definitions = new WeakMap<Latchkey<never>, Map<RouteDefinition, Operation>>();

/** Provided by `LatchkeyModule` to the interceptors of decorators. */
export class LatchkeyRoutes {
  readonly #latchkey: Latchkey<never>;
  readonly #http: HttpOptions<never>;
  readonly #protect: NestProtect<NestMessage>;
  readonly #serve: NestServe<NestMessage>;
  readonly #made = new Map<RouteDefinition, NestInterceptor>();
  /** By the place of the decorator. */
  readonly #contexts = new Map<unknown, RouteContext>();
  #status: NestInterceptor | null = null;

  /** @throws {TypeError} when an option is missing or out of range. */
  constructor(latchkey: Latchkey<never>, http: HttpOptions<never>) {
    this.#latchkey = latchkey;
    this.#http = http;
    // The type of the app's requests makes no difference here.
    const options = http as HttpOptions<NestMessage>;
    this.#protect = nestProtect(latchkey, options);
    this.#serve = nestServe(latchkey, options);
  }

  /**
   * Returns the same interceptor each time, because Nest asks for one in each module that uses a controller.
   *
   * @param provided the token's provider, if the definition is a token
   * @throws {TypeError} when an option is out of range, or the token provides no operation.
   */
  interceptorFor(definition: RouteDefinition, provided: unknown): NestInterceptor {
    const made = this.#made.get(definition) ?? this.#make(definition, provided);
    this.#made.set(definition, made);
    return made;
  }

  /** @throws {TypeError} when an option is out of range. */
  statusInterceptor(): NestInterceptor {
    this.#status ??= nestStatus(this.#latchkey, this.#http as HttpOptions<NestMessage>);
    return this.#status;
  }

  /** @throws {TypeError} when it is not an OpenAPI 3 document. */
  describe<D extends object>(document: D): D {
    return describeDocument(document, ({ operation }) => {
      const context = this.#contexts.get(operation[openApiMarker]);
      return context === undefined ? null : describeRoute(context, this.#latchkey.runtime.limits);
    });
  }

  #make(definition: RouteDefinition, provided: unknown): NestInterceptor {
    const operation = this.#operationOf(definition, provided);
    const overrides = definition.overrides as RouteOptions<NestMessage>;
    const { route } = resolveRoute(
      this.#latchkey,
      this.#http as HttpOptions<NestMessage>,
      operation,
      overrides,
    );
    this.#contexts.set(definition.place, route);
    if (!ownsItsWork(operation)) return this.#protect(operation, overrides);
    return this.#serve(operation as OwnedOperation<Execution, unknown>, overrides);
  }

  #operationOf(definition: RouteDefinition, provided: unknown): Operation {
    const { place, operation, options } = definition;
    if (typeof operation === "object") return operation;
    if (typeof operation === "symbol") {
      if (isOperation(provided)) return provided;
      throw new TypeError(`@Idempotent on ${place}: the provider ${String(operation)} is not an operation`);
    }
    const defined = definitions.get(this.#latchkey) ?? new Map<RouteDefinition, Operation>();
    definitions.set(this.#latchkey, defined);
    const one =
      defined.get(definition) ?? this.#latchkey.operation(operation, options as OperationOptions<"lease">);
    defined.set(definition, one);
    return one;
  }
}

/** In documents of `@nestjs/swagger`, an operation has the decorator's place here until `describe` replaces it by the settings. */
export const openApiMarker = "x-idempotency";

export function isOperation(value: unknown): value is Operation {
  return typeof value === "object" && value !== null && "name" in value && "settings" in value;
}
