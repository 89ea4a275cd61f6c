/**
 * The prototypes that are laid between held responses and their own ones. Other code may keep one and put it back when the
 * hold is over, or lay another under it: a held prototype acts on responses that are held, and lets all others through.
 */
import type { ServerResponse } from "node:http";

/** Under which a response keeps its overlay while it is held. */
export const overlayKey = Symbol("latchkey.overlay");

/** What a run's view of a response has there once the run is over: methods that were bound to it do nothing from then on. */
export const runOver = Symbol("latchkey.runOver");

export type Method = (this: ServerResponse, ...args: never[]) => unknown;

/** The held prototype over each prototype, and all that there are. */
const heldOver = new WeakMap<object, object>();
const heldPrototypes = new WeakSet<object>();

/** Whether a response, or what stands for one, is held. */
export function isHeld(res: ServerResponse): boolean {
  return Reflect.get(res, overlayKey) !== undefined;
}

/** A method of a held prototype: on a response that is not held, the one beneath. */
export function whileHeld(name: string, method: Method): Method {
  return function (...args) {
    const overlay: unknown = Reflect.get(this, overlayKey);
    if (overlay === runOver) return this;
    return Reflect.apply(overlay === undefined ? (beneath(this, name) as Method) : method, this, args);
  };
}

/** What a response has without any held prototype. */
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

/** Lays the held prototype over a response's own one, which may not be the one that it was. */
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

/** Takes held prototypes away, also one that other code kept from another hold. */
export function uncoverPrototype(res: object): void {
  const prototype = ownPrototype(res);
  if (prototype !== Object.getPrototypeOf(res)) Object.setPrototypeOf(res, prototype);
}

function ownPrototype(res: object): object {
  let prototype: object = Object.getPrototypeOf(res);
  while (heldPrototypes.has(prototype)) prototype = Object.getPrototypeOf(prototype);
  return prototype;
}
