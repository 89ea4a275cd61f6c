/** Lists are read in pages. A page ends with the place where the next one begins; places stay valid when rows come or go. */

/** A place in a list: after this row. */
export interface Place {
  readonly createdAt: number;
  readonly id: string;
}

/** `<createdAt>_<id>`: milliseconds since the epoch, then the id. */
export function placeText({ createdAt, id }: Place): string {
  return `${createdAt}_${id}`;
}

/** Null if the text is not a place. */
export function parsePlace(text: string): Place | null {
  const [, createdAt, id] = /^(\d{1,15})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/u.exec(text) ?? [];
  return createdAt === undefined || id === undefined ? null : { createdAt: Number(createdAt), id };
}
