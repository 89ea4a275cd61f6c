/**
 * A Node response that nobody should use yet: whoever does is noticed before anything comes of it, and it can be held then.
 * For adapters whose handlers hardly ever use it: watching costs a fifth of holding.
 */
import { ServerResponse } from "node:http";
import { beneath } from "./held-prototype.ts";
import { hasNodesMethods, looksPristine, methodNames, putUsedFirst } from "./response-methods.ts";

export interface ResponseWatch {
  /** Shows to all who look whether the answer has been given. */
  show(answered: boolean): void;
  /** Whether the response has begun all the same, past its methods. */
  hasBegun(): boolean;
  /**
   * Leaves the response as it was. `keepsShape`: it is sent next, and keeps Node's own methods where the watching ones lay: V8
   * gives up the shape of a response that a property is deleted from.
   */
  stop(keepsShape: boolean): void;
}

/**
 * Watches a response until somebody uses it or `stop` is called.
 *
 * @param onUse called once, before the method that was used; the response is as it was by then, and the method is called on it
 * @returns null when it has methods of its own, which must be seen to before they are used: then it is not watched
 */
export function watchResponse(response: ServerResponse, onUse: () => void): ResponseWatch | null {
  const res = response as Watched;
  if (!looksPristine(res) || !hasNodesMethods(Object.getPrototypeOf(res))) return null;
  if (!putUsedFirst(res, watchingMethods)) return null;
  const watch = new Watch(res, onUse);
  res[watchKey] = watch;
  return watch;
}

/** Under which a response keeps its watch. */
const watchKey = Symbol("latchkey.watch");

interface NodeState {
  _header: string | null;
  finished: boolean;
  writable: boolean;
}

type Watched = Omit<ServerResponse, "writable"> &
  ServerResponse &
  NodeState & { [watchKey]?: Watch | undefined };

/** By which Node's parts know that a head has been sent. */
const shownHeader = "watched";

class Watch implements ResponseWatch {
  readonly #res: Watched;
  readonly #onUse: () => void;
  /** What is Node's; null while that is what is shown. */
  #real: NodeState | null = null;

  constructor(res: Watched, onUse: () => void) {
    this.#res = res;
    this.#onUse = onUse;
  }

  show(answered: boolean): void {
    const res = this.#res;
    if (answered === (this.#real !== null)) return;
    if (this.#real !== null) {
      // Unless Node has written to it meanwhile.
      if (res._header === shownHeader) Object.assign(res, this.#real);
      this.#real = null;
      return;
    }
    const { _header, finished, writable } = res;
    this.#real = { _header, finished, writable };
    res._header = shownHeader;
    res.finished = true;
    res.writable = false;
  }

  hasBegun(): boolean {
    const { _header } = this.#res;
    return typeof _header === "string" && (this.#real === null || _header !== shownHeader);
  }

  stop(keepsShape: boolean): void {
    const res = this.#res;
    if (res[watchKey] !== this) return;
    res[watchKey] = undefined;
    this.show(false);
    if (keepsShape && methodNames.usedFirst.every((name) => isWatching(res, name))) {
      putUsedFirst(res, ServerResponse.prototype);
      return;
    }
    // In the opposite order: V8 undoes the property that was added last.
    for (const name of methodNames.usedFirst.toReversed())
      if (isWatching(res, name)) Reflect.deleteProperty(res, name);
  }

  use(): void {
    this.stop(false);
    this.#onUse();
  }
}

const watchingMethods: Readonly<Record<string, unknown>> = Object.fromEntries(
  methodNames.usedFirst.map((name) => [name, watching(name)]),
);

function isWatching(res: ServerResponse, name: string): boolean {
  return Reflect.get(res, name) === watchingMethods[name];
}

function watching(name: string) {
  return function (this: Watched, ...args: unknown[]): unknown {
    const watch = this[watchKey];
    watch?.use();
    // Somebody may have kept this method, or wrapped it, from when the response was watched.
    const method = watch === undefined ? beneath(this, name) : Reflect.get(this, name);
    return Reflect.apply(method as (...given: unknown[]) => unknown, this, args);
  };
}
