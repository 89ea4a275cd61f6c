/**
 * The methods of a response that buffering replaces. Each is written out, because V8 compiles `res.end` to a read of a known place,
 * and gives up the shape of an object with more than a dozen properties under computed names.
 */
import { ServerResponse } from "./node-http.ts";

/** Every real use of a response begins with one of these. */
const usedFirst = [
  "destroy",
  "end",
  "flushHeaders",
  "on",
  "once",
  "setHeader",
  "write",
  "writeContinue",
  "writeEarlyHints",
  "writeHead",
  "writeInformation",
  "writeProcessing",
] as const;

const others = [
  // The package `on-finished` keeps its listeners here.
  "__onFinished",
  "addListener",
  "addTrailers",
  "appendHeader",
  "cork",
  "emit",
  "eventNames",
  "listenerCount",
  "listeners",
  "off",
  "prependListener",
  "prependOnceListener",
  "rawListeners",
  "removeAllListeners",
  "removeHeader",
  "removeListener",
  "setHeaders",
  "uncork",
  "writeHeader",
] as const;

/** Watched in addition to `usedFirst`: all other methods that change a response. */
const watchedToo = [
  "addListener",
  "addTrailers",
  "appendHeader",
  "prependListener",
  "prependOnceListener",
  "removeHeader",
  "setHeaders",
  "writeHeader",
] as const;

const assigned: readonly string[] = [...usedFirst, "statusCode", "statusMessage"];

/** Whether a known prototype has no accessors under the assigned names. */
const plain = new WeakMap<object, boolean>();

/** Whether a prototype has Node's methods, so that a response can keep copies of them while it is sent. */
export function hasNodesMethods(prototype: object): boolean {
  let isPlain = plain.get(prototype);
  if (isPlain === undefined) {
    isPlain = assigned.every((name) => !hasAccessor(prototype, name));
    plain.set(prototype, isPlain);
  }
  return isPlain && hasUsedFirst(prototype, ServerResponse.prototype);
}

function hasAccessor(prototype: object, name: string): boolean {
  for (let each: object | null = prototype; each !== null; each = Object.getPrototypeOf(each)) {
    const own = Object.getOwnPropertyDescriptor(each, name);
    if (own !== undefined) return !("value" in own);
  }
  return false;
}

/** Whether a response has Node's methods under all names that may be covered, its own or its prototype's. */
export function looksUnmodified(response: object): boolean {
  const node = ServerResponse.prototype;
  return hasUsedFirst(response, node) && hasWatchedToo(response, node) && hasNodesRest(response);
}

/** Whether a response has these methods where it is watched, and Node's elsewhere. */
export function looksWatched(response: object, methods: object): boolean {
  return hasUsedFirst(response, methods) && hasWatchedToo(response, methods) && hasNodesRest(response);
}

function hasWatchedToo(response: object, methods: object): boolean {
  const res = response as Methods<(typeof watchedToo)[number]>;
  const from = methods as typeof res;
  return (
    res.addListener === from.addListener &&
    res.addTrailers === from.addTrailers &&
    res.appendHeader === from.appendHeader &&
    res.prependListener === from.prependListener &&
    res.prependOnceListener === from.prependOnceListener &&
    res.removeHeader === from.removeHeader &&
    res.setHeaders === from.setHeaders &&
    res.writeHeader === from.writeHeader
  );
}

function hasNodesRest(response: object): boolean {
  const res = response as Methods<Exclude<(typeof others)[number], (typeof watchedToo)[number]>>;
  const node = ServerResponse.prototype as object as typeof res;
  return (
    res.__onFinished === undefined &&
    res.cork === node.cork &&
    res.emit === node.emit &&
    res.eventNames === node.eventNames &&
    res.listenerCount === node.listenerCount &&
    res.listeners === node.listeners &&
    res.off === node.off &&
    res.rawListeners === node.rawListeners &&
    res.removeAllListeners === node.removeAllListeners &&
    res.removeListener === node.removeListener &&
    res.uncork === node.uncork
  );
}

/** Assigns all watched methods to a response, as `putUsedFirst` does. */
export function putWatched(response: object, methods: object): boolean {
  return putUsedFirst(response, methods) && putWatchedToo(response, methods);
}

function putWatchedToo(response: object, methods: object): boolean {
  try {
    const res = response as Methods<(typeof watchedToo)[number]>;
    const from = methods as typeof res;
    res.addListener = from.addListener;
    res.addTrailers = from.addTrailers;
    res.appendHeader = from.appendHeader;
    res.prependListener = from.prependListener;
    res.prependOnceListener = from.prependOnceListener;
    res.removeHeader = from.removeHeader;
    res.setHeaders = from.setHeaders;
    res.writeHeader = from.writeHeader;
    return hasWatchedToo(response, methods);
  } catch {
    return false;
  }
}

/** `usedFirst` are put on a buffered response itself; its prototype covers `others`, unless the response has its own. */
export const methodNames: {
  readonly usedFirst: readonly string[];
  readonly others: readonly string[];
  readonly watched: readonly string[];
} = { usedFirst, others, watched: [...usedFirst, ...watchedToo] };

type Methods<Name extends string> = Record<Name, unknown>;

function hasUsedFirst(response: object, methods: object): boolean {
  const res = response as Methods<(typeof usedFirst)[number]>;
  const from = methods as typeof res;
  return (
    res.destroy === from.destroy &&
    res.end === from.end &&
    res.flushHeaders === from.flushHeaders &&
    res.on === from.on &&
    res.once === from.once &&
    res.setHeader === from.setHeader &&
    res.write === from.write &&
    res.writeContinue === from.writeContinue &&
    res.writeEarlyHints === from.writeEarlyHints &&
    res.writeHead === from.writeHead &&
    res.writeInformation === from.writeInformation &&
    res.writeProcessing === from.writeProcessing
  );
}

/**
 * Assigns methods to a response, which keeps its shape. False: some could not be assigned, because a property is read-only or
 * an accessor.
 */
export function putUsedFirst(response: object, methods: object): boolean {
  try {
    assignUsedFirst(response, methods);
    return hasUsedFirst(response, methods);
  } catch {
    return false;
  }
}

function assignUsedFirst(response: object, methods: object): void {
  const res = response as Methods<(typeof usedFirst)[number]>;
  const from = methods as typeof res;
  res.destroy = from.destroy;
  res.end = from.end;
  res.flushHeaders = from.flushHeaders;
  res.on = from.on;
  res.once = from.once;
  res.setHeader = from.setHeader;
  res.write = from.write;
  res.writeContinue = from.writeContinue;
  res.writeEarlyHints = from.writeEarlyHints;
  res.writeHead = from.writeHead;
  res.writeInformation = from.writeInformation;
  res.writeProcessing = from.writeProcessing;
}
