/**
 * Watches a Node response for its first use, and reports it before it has any effect, so that buffering can begin then. For
 * adapters whose handlers rarely use the response: watching costs a fifth of buffering.
 */
import { bufferedMethods } from "./buffered-methods.ts";
import { hasNodesMethods, looksUnmodified, looksWatched, methodNames, putWatched } from "./method-table.ts";
import { ServerResponse } from "./node-http.ts";

export interface ResponseWatch {
  /** Makes the response report itself as ended. Returns false if other code has modified it. */
  showAnswered(): boolean;
  /** Whether the response has begun past its methods. */
  hasBegun(): boolean;
  /**
   * Ends the watch and restores the response. `isSent`: it is sent next, so the watching methods are replaced by Node's and not
   * deleted, because V8 gives up a response's shape when a property is deleted.
   *
   * @returns the methods that other code has put on the response meanwhile, which are removed
   */
  stop(isSent: boolean): ReadonlyMap<string, unknown>;
}

/**
 * Watches a response until it is used or `stop` is called.
 *
 * @param onUse called once, before the used method runs; it must stop the watch
 * @returns null if the response has its own methods: it is not watched, and must be buffered before they are used
 */
export function watchResponse(response: ServerResponse, onUse: () => void): ResponseWatch | null {
  const res = response as Watched;
  if (!looksUnmodified(res) || !hasNodesMethods(Object.getPrototypeOf(res))) return null;
  const watch = new Watch(res, onUse);
  if (putWatched(res, watchingMethods)) {
    res[watchKey] = watch;
    return watch;
  }
  watch.stop(false);
  return null;
}

/** The property of a response that holds its watch. */
const watchKey = Symbol("latchkey.watch");

interface NodeState {
  _header: string | null;
  finished: boolean;
  writable: boolean;
}

type Watched = Omit<ServerResponse, "writable"> &
  ServerResponse &
  NodeState & { [watchKey]?: Watch | undefined };

/** Any text: Node takes it to mean that the head has been sent. */
const shownHeader = "watched";

/** The names to delete from a response, last one first, because V8 can undo the property that was added last. */
const coveredNames = [
  ...methodNames.watched,
  ...methodNames.others.filter((name) => !methodNames.watched.includes(name)),
].reverse();

const none: ReadonlyMap<string, unknown> = new Map();

class Watch implements ResponseWatch {
  readonly #res: Watched;
  readonly #prototype: object;
  readonly #onUse: () => void;
  /** Node's values while others are shown; null: they are not replaced. */
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
    // Boolean, because stand-ins for responses begin with empty text.
    return Boolean(_header === shownHeader ? this.#real?._header : _header);
  }

  stop(isSent: boolean): ReadonlyMap<string, unknown> {
    const res = this.#res;
    if (res[watchKey] === this) res[watchKey] = undefined;
    // Restores Node's values, unless Node has written to the response meanwhile.
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

/** Other code may keep or wrap such a method beyond the watch: then it acts as the buffered method or Node's. */
function watching(name: string) {
  return function (this: Watched, ...args: unknown[]): unknown {
    this[watchKey]?.notice();
    return Reflect.apply(bufferedMethods[name] as (...given: unknown[]) => unknown, this, args);
  };
}
