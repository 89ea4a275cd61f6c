/**
 * For wrappers of a store or of one of its parts. They list every member, so that a new optional one does not compile until each
 * wrapper handles it: without this it would be lost, and the wrapped store would seem to lack it.
 */

/** Also the optional members, as undefined where what is wrapped lacks them. */
export type EveryMember<T> = { readonly [Name in keyof Required<T>]: T[Name] };

/** Leaves out the members that are undefined. */
export function wrapped<T>(members: EveryMember<T>): T {
  const present = Object.entries(members).filter(([, member]) => member !== undefined);
  return Object.fromEntries(present) as T;
}
