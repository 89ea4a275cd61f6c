import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Random } from "../../ports.ts";
import { lockDirectory, type ReleaseLock } from "./directory-lock.ts";

/**
 * Makes and locks the folder that `dataDir` names. In memory there is nothing to lock.
 *
 * @throws {LatchkeyError} `data-directory-locked`
 * @throws {TypeError} when `dataDir` is neither a folder nor in memory
 */
export function claimDataDirectory(dataDir: string, random: Random): ReleaseLock {
  if (dataDir.startsWith("memory://")) return () => {};
  const path = dataDir.replace(/^file:\/\//u, "");
  if (path === "" || /^[a-z0-9-]{2,}:\/\//u.test(path)) {
    throw new TypeError(`dataDir must be a folder or "memory://" (got ${JSON.stringify(dataDir)})`);
  }
  const folder = resolve(path);
  mkdirSync(folder, { recursive: true });
  return lockDirectory(folder, random);
}
