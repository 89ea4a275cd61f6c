/** Lists are read in pages. A page ends with a cursor, where the next one begins; it stays valid when rows come or go. */

/** A position in a list: after this row. */
export interface PageCursor {
  readonly createdAt: number;
  readonly id: string;
}

/** `<createdAt>_<id>`: milliseconds since the epoch, then the id. */
export function cursorText({ createdAt, id }: PageCursor): string {
  return `${createdAt}_${id}`;
}

/** Null if the text is not a cursor. */
export function parseCursor(text: string): PageCursor | null {
  const [, createdAt, id] = /^(\d{1,15})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/u.exec(text) ?? [];
  return createdAt === undefined || id === undefined ? null : { createdAt: Number(createdAt), id };
}
