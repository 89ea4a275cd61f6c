/**
 * Held prototypes, inserted between held responses and their own prototypes. Other code may keep one and set it again after the
 * hold, or insert another beneath it, so a held prototype acts only on responses that are held.
 */
import type { ServerResponse } from "node:http";

/** The property that holds a response's overlay while it is held. */
export const overlayKey = Symbol("latchkey.overlay");

/** Replaces the overlay in a run's view after the run: methods that were bound to the view then do nothing. */
export const runOver = Symbol("latchkey.runOver");

export type Method = (this: ServerResponse, ...args: never[]) => unknown;

/** The held prototype for each prototype, and the set of all held prototypes. */
const heldOver = new WeakMap<object, object>();
const heldPrototypes = new WeakSet<object>();

/** Whether a response, or a view of one, is held. */
export function isHeld(res: ServerResponse): boolean {
  return Reflect.get(res, overlayKey) !== undefined;
}

/** Makes a method of a held prototype, which calls the method beneath if the response is not held. */
export function whileHeld(name: string, method: Method): Method {
  return function (...args) {
    const overlay: unknown = Reflect.get(this, overlayKey);
    if (overlay === runOver) return this;
    return Reflect.apply(overlay === undefined ? (beneath(this, name) as Method) : method, this, args);
  };
}

/** The member that a response has without held prototypes. */
export function beneath(res: ServerResponse, name: string): unknown {
  return Reflect.get(prototypeBeneath(res), name, res);
}

/** The first prototype below all held ones. */
export function prototypeBeneath(res: ServerResponse): object {
  let found: object = Object.getPrototypeOf(res);
  for (let each: object | null = found; each !== null; each = Object.getPrototypeOf(each)) {
    if (heldPrototypes.has(each)) found = Object.getPrototypeOf(each);
  }
  return found;
}

/** Inserts the held prototype over the response's current prototype, which may have changed. */
export function coverPrototype(res: ServerResponse, descriptors: PropertyDescriptorMap): object {
  const prototype = ownPrototype(res);
  const held = heldOver.get(prototype) ?? layOver(prototype, descriptors);
  Object.setPrototypeOf(res, held);
  return held;
}

function layOver(prototype: object, descriptors: PropertyDescriptorMap): object {
  const held: object = Object.create(prototype, descriptors);
  heldOver.set(prototype, held);
  heldPrototypes.add(held);
  return held;
}

/** Removes held prototypes, also one that other code kept from another hold. */
export function uncoverPrototype(res: object): void {
  const prototype = ownPrototype(res);
  if (prototype !== Object.getPrototypeOf(res)) Object.setPrototypeOf(res, prototype);
}

function ownPrototype(res: object): object {
  let prototype: object = Object.getPrototypeOf(res);
  while (heldPrototypes.has(prototype)) prototype = Object.getPrototypeOf(prototype);
  return prototype;
}
