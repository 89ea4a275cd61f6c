/**
 * The metadata that Nest's decorators put on classes and methods. Nest does not document these names; they have not changed
 * since Nest 5, Nest's own packages and others depend on them, and the tests run on 11 and 12 (docs/decisions/036).
 */

/** Interceptors, on a method's function. */
const interceptors = "__interceptors__";
/** The path of a route, on a method's function. */
const routePath = "path";
/** Parameters of a route's method, on the controller, by method. */
const routeArguments = "__routeArguments__";
/** Marks a parameter of `createParamDecorator`. */
const customArgument = "__customRouteArgs__";
/** Constructor parameters with injection tokens, on a class. */
const constructorTokens = "self:paramtypes";
/** Extensions of an operation in the OpenAPI document, on a method's function. */
const openApiExtensions = "swagger/apiExtension";

type Read = (key: string, target: object, property?: string | symbol) => unknown;
type Define = (key: string, value: unknown, target: object, property?: string | symbol) => void;

/** Undefined without `reflect-metadata`, which every Nest app loads. */
function readMetadata(key: string, target: object, property?: string | symbol): unknown {
  const read: unknown = Reflect.get(Reflect, "getMetadata");
  return typeof read === "function" ? (read as Read)(key, target, property) : undefined;
}

/** @throws {TypeError} without `reflect-metadata`. */
function defineMetadata(key: string, value: unknown, target: object, property?: string | symbol): void {
  const define: unknown = Reflect.get(Reflect, "defineMetadata");
  if (typeof define !== "function") {
    throw new TypeError(
      'Nest is not loaded: import "reflect-metadata" or "@nestjs/common" before controllers',
    );
  }
  (define as Define)(key, value, target, property);
}

/** Like `@UseInterceptors(interceptor)`. */
export function useInterceptor(method: object, interceptor: object): void {
  const before = (readMetadata(interceptors, method) ?? []) as readonly object[];
  defineMetadata(interceptors, [...before, interceptor], method);
}

/** Whether Nest finds this interceptor on the method's function. */
export function hasInterceptor(method: object, interceptor: object): boolean {
  const found = readMetadata(interceptors, method);
  return Array.isArray(found) && found.includes(interceptor);
}

/** Whether `@Get`, `@Post` or another decorator of Nest's has made the method's function a route. */
export function isRoute(method: object): boolean {
  return readMetadata(routePath, method) !== undefined;
}

/** Like `@Inject(token)` on each constructor parameter, in order. */
export function injectTokens(target: object, tokens: readonly unknown[]): void {
  const named = tokens.map((param, index) => ({ index, param }));
  defineMetadata(constructorTokens, named, target);
}

/** Like a decorator made by `createParamDecorator(factory)`. */
export function useParameter(
  {
    target,
    method,
    index,
  }: { readonly target: object; readonly method: string | symbol; readonly index: number },
  id: string,
  factory: unknown,
  data: unknown,
): void {
  const before = readMetadata(routeArguments, target.constructor, method);
  const added = { [`${id}${customArgument}:${index}`]: { index, factory, data, pipes: [] } };
  defineMetadata(routeArguments, { ...(before as object | undefined), ...added }, target.constructor, method);
}

/** Like `@ApiExtension(key, value)` of `@nestjs/swagger`. */
export function useOpenApiExtension(method: object, key: string, value: string): void {
  const before = readMetadata(openApiExtensions, method) as object | undefined;
  defineMetadata(openApiExtensions, { [key]: value, ...before }, method);
}
