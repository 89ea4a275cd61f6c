/**
 * A Node response that should not be used yet: a first use is noticed before it has any effect, and buffering can begin then.
 * For adapters whose handlers hardly ever use it: watching costs a fifth of holding.
 */
import { ServerResponse } from "node:http";
import { heldMethods } from "./held-methods.ts";
import { hasNodesMethods, looksPristine, looksWatched, methodNames, putWatched } from "./method-table.ts";

export interface ResponseWatch {
  /** Makes the response report itself as ended. Returns false if other code has modified it. */
  showAnswered(): boolean;
  /** Whether the response has begun all the same, past its methods. */
  hasBegun(): boolean;
  /**
   * Leaves the response as it was. `isSent`: it is sent next, and keeps Node's own methods where the watching ones lay: V8
   * gives up the shape of a response that a property is deleted from.
   *
   * @returns the methods that other code has put on the response meanwhile; they are removed
   */
  stop(isSent: boolean): ReadonlyMap<string, unknown>;
}

/**
 * Watches a response until it is used or `stop` is called.
 *
 * @param onUse called once, before the method that was used; it must stop the watch
 * @returns null when the response has methods of its own, which must be seen to before they are used: it is not watched
 */
export function watchResponse(response: ServerResponse, onUse: () => void): ResponseWatch | null {
  const res = response as Watched;
  if (!looksPristine(res) || !hasNodesMethods(Object.getPrototypeOf(res))) return null;
  const watch = new Watch(res, onUse);
  if (putWatched(res, watchingMethods)) {
    res[watchKey] = watch;
    return watch;
  }
  watch.stop(false);
  return null;
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

/** What may lie on a response, from the last to the first: V8 undoes the property that was added last. */
const coveredNames = [
  ...methodNames.watched,
  ...methodNames.others.filter((name) => !methodNames.watched.includes(name)),
].reverse();

const none: ReadonlyMap<string, unknown> = new Map();

class Watch implements ResponseWatch {
  readonly #res: Watched;
  readonly #prototype: object;
  readonly #onUse: () => void;
  /** What is Node's; null while that is what is shown. */
  #real: NodeState | null = null;

  constructor(res: Watched, onUse: () => void) {
    this.#res = res;
    this.#prototype = Object.getPrototypeOf(res);
    this.#onUse = onUse;
  }

  showAnswered(): boolean {
    const res = this.#res;
    if (!this.#isUntouched()) return false;
    const { _header, finished, writable } = res;
    this.#real = { _header, finished, writable };
    res._header = shownHeader;
    res.finished = true;
    res.writable = false;
    return true;
  }

  hasBegun(): boolean {
    const { _header } = this.#res;
    // Empty text is what stand-ins for responses begin with.
    return Boolean(_header === shownHeader ? this.#real?._header : _header);
  }

  stop(isSent: boolean): ReadonlyMap<string, unknown> {
    const res = this.#res;
    if (res[watchKey] === this) res[watchKey] = undefined;
    // Unless Node has written to it meanwhile.
    if (this.#real !== null && res._header === shownHeader) Object.assign(res, this.#real);
    this.#real = null;
    return isSent && this.#isUntouched() && putWatched(res, ServerResponse.prototype) ? none : this.#clear();
  }

  notice(): void {
    this.#onUse();
  }

  #isUntouched(): boolean {
    const res = this.#res;
    const isAsWatched = looksWatched(res, watchingMethods) && Object.getPrototypeOf(res) === this.#prototype;
    return isAsWatched && !this.hasBegun();
  }

  #clear(): ReadonlyMap<string, unknown> {
    const left = new Map<string, unknown>();
    for (const name of coveredNames) {
      if (!Object.hasOwn(this.#res, name)) continue;
      const value: unknown = Reflect.get(this.#res, name);
      if (value !== watchingMethods[name]) left.set(name, value);
      Reflect.deleteProperty(this.#res, name);
    }
    return left;
  }
}

const watchingMethods: Readonly<Record<string, unknown>> = Object.fromEntries(
  methodNames.watched.map((name) => [name, watching(name)]),
);

/** Other code may keep such a method, or wrap it, beyond its watch: then it is the held one, or Node's. */
function watching(name: string) {
  return function (this: Watched, ...args: unknown[]): unknown {
    this[watchKey]?.notice();
    return Reflect.apply(heldMethods[name] as (...given: unknown[]) => unknown, this, args);
  };
}
