/** What an object has of its own, to be brought back later: frameworks keep there what has been done to a response. */

export type OwnProperties = ReadonlyMap<PropertyKey, unknown>;

export function readOwn(object: object): OwnProperties {
  return new Map(Reflect.ownKeys(object).map((name) => [name, Reflect.get(object, name)]));
}

export function restoreOwn(object: object, own: OwnProperties): void {
  for (const name of Reflect.ownKeys(object)) if (!own.has(name)) Reflect.deleteProperty(object, name);
  for (const [name, value] of own) Reflect.set(object, name, value);
}
