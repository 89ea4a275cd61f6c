import type { IsolationLevel } from "../transaction.ts";

const levels: Readonly<Record<string, IsolationLevel>> = {
  // Postgres treats the two levels alike.
  "READ UNCOMMITTED": "read committed",
  "READ COMMITTED": "read committed",
  "REPEATABLE READ": "repeatable read",
  SERIALIZABLE: "serializable",
};

/**
 * The level that an ORM's options name; null where they name none.
 *
 * @throws {TypeError} when Postgres has no such level
 */
export function isolationNamed(name: string | null | undefined): IsolationLevel | null {
  if (name === undefined || name === null) return null;
  const level = levels[name];
  if (level === undefined) throw new TypeError(`Postgres has no isolation level ${name}`);
  return level;
}
