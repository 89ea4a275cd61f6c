/**
 * Buffering prototypes, inserted between buffered responses and their own prototypes. Other code may keep one and set it
 * again afterwards, or insert another beneath it, so a buffering prototype acts only on responses that are buffered.
 */
import type { ServerResponse } from "node:http";

/** The property that holds a response's interception while it is buffered. */
export const interceptionKey = Symbol("latchkey.interception");

/** Replaces the interception in a run's view after the run: methods that were bound to the view then do nothing. */
export const runOver = Symbol("latchkey.runOver");

export type Method = (this: ServerResponse, ...args: never[]) => unknown;

/** The buffering prototype for each prototype, and the set of all buffering prototypes. */
const bufferedOver = new WeakMap<object, object>();
const bufferedPrototypes = new WeakSet<object>();

/** Whether a response, or a view of one, is buffered. */
export function isBuffered(res: ServerResponse): boolean {
  return Reflect.get(res, interceptionKey) !== undefined;
}

/** Makes a method of a buffering prototype, which calls the method beneath if the response is not buffered. */
export function whileBuffered(name: string, method: Method): Method {
  return function (...args) {
    const interception: unknown = Reflect.get(this, interceptionKey);
    if (interception === runOver) return this;
    return Reflect.apply(interception === undefined ? (beneath(this, name) as Method) : method, this, args);
  };
}

/** The member that a response has without buffering prototypes. */
export function beneath(res: ServerResponse, name: string): unknown {
  return Reflect.get(prototypeBeneath(res), name, res);
}

/** The first prototype below all buffering ones. */
export function prototypeBeneath(res: ServerResponse): object {
  let found: object = Object.getPrototypeOf(res);
  for (let each: object | null = found; each !== null; each = Object.getPrototypeOf(each)) {
    if (bufferedPrototypes.has(each)) found = Object.getPrototypeOf(each);
  }
  return found;
}

/** Inserts the buffering prototype over the response's current prototype, which may have changed. */
export function coverPrototype(res: ServerResponse, descriptors: PropertyDescriptorMap): object {
  const prototype = ownPrototype(res);
  const covering = bufferedOver.get(prototype) ?? layOver(prototype, descriptors);
  Object.setPrototypeOf(res, covering);
  return covering;
}

function layOver(prototype: object, descriptors: PropertyDescriptorMap): object {
  const covering: object = Object.create(prototype, descriptors);
  bufferedOver.set(prototype, covering);
  bufferedPrototypes.add(covering);
  return covering;
}

/** Removes buffering prototypes, also one that other code kept from an earlier buffering. */
export function uncoverPrototype(res: object): void {
  const prototype = ownPrototype(res);
  if (prototype !== Object.getPrototypeOf(res)) Object.setPrototypeOf(res, prototype);
}

function ownPrototype(res: object): object {
  let prototype: object = Object.getPrototypeOf(res);
  while (bufferedPrototypes.has(prototype)) prototype = Object.getPrototypeOf(prototype);
  return prototype;
}
