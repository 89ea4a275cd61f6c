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

/** Whether assigning makes properties of the response itself, by prototype: no accessor and nothing read-only is in the way. */
const assignable = new WeakMap<object, boolean>();

/**
 * Whether a prototype's methods are Node's own, so that they can lie on a response as well. One that has others of its own,
 * as a mounted app may, counts only as long as it is the response's.
 */
export function hasNodesMethods(prototype: object): boolean {
  let isAssignable = assignable.get(prototype);
  if (isAssignable === undefined) {
    isAssignable = assigned.every((name) => descriptorOf(prototype, name)?.writable !== false);
    assignable.set(prototype, isAssignable);
  }
  return isAssignable && hasMethods(prototype, ServerResponse.prototype);
}

/** An accessor counts as what cannot be written. */
function descriptorOf(prototype: object, name: string): { readonly writable: boolean } | null {
  for (let each: object | null = prototype; each !== null; each = Object.getPrototypeOf(each)) {
    const own = Object.getOwnPropertyDescriptor(each, name);
    if (own !== undefined) return { writable: own.writable === true };
  }
  return null;
}

/** Those that lie on a held response itself, and those that its prototype covers unless it has some of its own. */
export const methodNames: {
  readonly usedFirst: readonly string[];
  readonly others: readonly string[];
} = { usedFirst, others };

type Methods<Name extends string> = Record<Name, unknown>;

/** Whether a response has nothing else than a prototype under all these names: mostly, nothing of its own. */
export function hasMethods(response: object, prototype: object): boolean {
  return hasUsedFirst(response, prototype) && hasOtherMethods(response, prototype);
}

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

/** The same, for those that do not lie on a held response itself. */
export function hasOtherMethods(response: object, prototype: object): boolean {
  const res = response as Methods<(typeof others)[number]>;
  const from = prototype as typeof res;
  return (
    res.__onFinished === from.__onFinished &&
    res.addListener === from.addListener &&
    res.addTrailers === from.addTrailers &&
    res.appendHeader === from.appendHeader &&
    res.cork === from.cork &&
    res.emit === from.emit &&
    res.eventNames === from.eventNames &&
    res.listenerCount === from.listenerCount &&
    res.listeners === from.listeners &&
    res.off === from.off &&
    res.prependListener === from.prependListener &&
    res.prependOnceListener === from.prependOnceListener &&
    res.rawListeners === from.rawListeners &&
    res.removeAllListeners === from.removeAllListeners &&
    res.removeHeader === from.removeHeader &&
    res.removeListener === from.removeListener &&
    res.setHeaders === from.setHeaders &&
    res.uncork === from.uncork &&
    res.writeHeader === from.writeHeader
  );
}

/** Lays methods on a response in the place of whatever is there, accessors and what cannot be assigned, too. */
export function putUsedFirst(response: object, methods: object): void {
  try {
    assignUsedFirst(response, methods);
    if (hasUsedFirst(response, methods)) return;
  } catch {
    // One cannot be assigned.
  }
  for (const name of usedFirst) Reflect.deleteProperty(response, name);
  assignUsedFirst(response, methods);
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
