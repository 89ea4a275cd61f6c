/** Saves and restores an object's own properties, in which frameworks keep the state of a response. */

export type OwnProperties = ReadonlyMap<PropertyKey, unknown>;

export function readOwn(object: object): OwnProperties {
  return new Map(Reflect.ownKeys(object).map((name) => [name, Reflect.get(object, name)]));
}

export function restoreOwn(object: object, own: OwnProperties): void {
  for (const name of Reflect.ownKeys(object)) if (!own.has(name)) Reflect.deleteProperty(object, name);
  for (const [name, value] of own) Reflect.set(object, name, value);
}
