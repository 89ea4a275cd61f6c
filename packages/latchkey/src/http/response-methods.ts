/**
 * The methods of a response that a hold covers, each written out: V8 compiles `res.end` to the read of a known place, and
 * gives up the shape of an object that gets more than a dozen properties under computed names.
 */
import { ServerResponse } from "node:http";

/** Whoever uses a response in earnest begins with one of these. */
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
  // Where the package `on-finished` keeps those who wait for the socket's end.
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

const assigned: readonly string[] = [...usedFirst, "statusCode", "statusMessage"];

/** Whether a prototype, seen before, is without accessors under the names that are assigned. */
const plain = new WeakMap<object, boolean>();

/** Whether a prototype has Node's methods, so that they may as well lie on a response for as long as it is sent. */
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

/** Whether a response has Node's methods under all names that may be covered, be they its own or its prototype's. */
export function looksPristine(response: object): boolean {
  const res = response as Methods<(typeof usedFirst)[number] | (typeof others)[number]>;
  const node = ServerResponse.prototype as object as typeof res;
  return (
    hasUsedFirst(res, node) &&
    res.__onFinished === undefined &&
    res.addListener === node.addListener &&
    res.addTrailers === node.addTrailers &&
    res.appendHeader === node.appendHeader &&
    res.cork === node.cork &&
    res.emit === node.emit &&
    res.eventNames === node.eventNames &&
    res.listenerCount === node.listenerCount &&
    res.listeners === node.listeners &&
    res.off === node.off &&
    res.prependListener === node.prependListener &&
    res.prependOnceListener === node.prependOnceListener &&
    res.rawListeners === node.rawListeners &&
    res.removeAllListeners === node.removeAllListeners &&
    res.removeHeader === node.removeHeader &&
    res.removeListener === node.removeListener &&
    res.setHeaders === node.setHeaders &&
    res.uncork === node.uncork &&
    res.writeHeader === node.writeHeader
  );
}

/** Those that lie on a held response itself, and those that its prototype covers unless it has some of its own. */
export const methodNames: {
  readonly usedFirst: readonly string[];
  readonly others: readonly string[];
} = { usedFirst, others };

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
 * Lays methods on a response by assigning them, which keeps its shape. False: some are not there as they are given, since
 * something cannot be assigned or is an accessor.
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
