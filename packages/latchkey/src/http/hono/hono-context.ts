/** A run's context of Hono: once the run is over, its handler answers no request any more. */
import type { HonoContext } from "./hono-types.ts";

/** What changes the response in preparation; those that make a response may, too. */
const changing: ReadonlySet<PropertyKey> = new Set(["header", "setLayout", "setRenderer", "status"]);
const making: ReadonlySet<PropertyKey> = new Set([
  "body",
  "html",
  "json",
  "newResponse",
  "notFound",
  "redirect",
  "render",
  "text",
]);

export function contextOfRun<C extends HonoContext>(c: C, isLive: () => boolean): C {
  return new Proxy(c, new RunContext<C>(isLive));
}

class RunContext<C extends HonoContext> implements ProxyHandler<C> {
  readonly #isLive: () => boolean;

  constructor(isLive: () => boolean) {
    this.#isLive = isLive;
  }

  get(target: C, name: PropertyKey): unknown {
    if (name === "res" && !this.#isLive()) return new Response();
    // Hono keeps what it needs in private fields, which only the context itself has.
    const value: unknown = Reflect.get(target, name);
    if (typeof value !== "function") return value;
    return (...args: unknown[]): unknown => {
      if (!this.#isLive()) {
        if (changing.has(name)) return undefined;
        if (making.has(name)) return new Response();
      }
      return Reflect.apply(value, target, args);
    };
  }

  set(target: C, name: PropertyKey, value: unknown): boolean {
    return !this.#isLive() || Reflect.set(target, name, value);
  }
}
