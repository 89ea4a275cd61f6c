/** The folder of an embedded database: whose it is, and whether it was ever finished. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Random } from "../../ports.ts";
import { lockDirectory, lockFileName } from "./directory-lock.ts";

/**
 * There from the first byte that PGlite writes into an empty folder until the database is ready for use. A process
 * that dies in between leaves half a database, which PGlite would take for a whole one.
 */
const unfinishedName = "latchkey.unfinished";

export interface DataDirectory {
  /** The database is complete from now on. */
  finished(): void;
  /** Lets others open it. Calling it again does nothing. */
  release(): void;
}

const inMemory: DataDirectory = { finished() {}, release() {} };

/**
 * Makes and locks the folder that `dataDir` names, and empties it if its first opening was never finished. In memory
 * there is nothing to do.
 *
 * @throws {LatchkeyError} `data-directory-locked`
 * @throws {TypeError} when `dataDir` is neither a folder nor in memory
 */
export function claimDataDirectory(dataDir: string, random: Random): DataDirectory {
  const folder = folderOf(dataDir);
  if (folder === null) return inMemory;
  mkdirSync(folder, { recursive: true });
  const release = lockDirectory(folder, random);
  const unfinished = join(folder, unfinishedName);
  try {
    if (existsSync(unfinished)) empty(folder);
    else if (contentsOf(folder).length === 0) writeFileSync(unfinished, "");
  } catch (error) {
    release();
    throw error;
  }
  return { finished: () => rmSync(unfinished, { force: true }), release };
}

/** Null: in memory. */
function folderOf(dataDir: string): string | null {
  if (/^memory:\/\//u.test(dataDir)) return null;
  const path = dataDir.replace(/^file:\/\//u, "");
  if (path === "" || /^[a-z0-9-]{2,}:\/\//u.test(path)) {
    throw new TypeError(`dataDir must be a folder or "memory://" (got ${JSON.stringify(dataDir)})`);
  }
  return resolve(path);
}

function contentsOf(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => !name.startsWith(lockFileName));
}

function empty(folder: string): void {
  for (const name of contentsOf(folder)) {
    if (name !== unfinishedName) rmSync(join(folder, name), { recursive: true });
  }
}
