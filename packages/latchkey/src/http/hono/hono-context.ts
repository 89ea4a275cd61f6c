/** The Hono context of one run: once the run is over, its handler can no longer affect an answer. */
import type { HonoContext } from "./hono-types.ts";

/** Methods that change the prepared response; those in `making` may do so, too. */
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
    // Read from the context itself, because Hono uses private fields.
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
