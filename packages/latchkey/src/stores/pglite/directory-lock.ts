/**
 * A lock file in a folder, held by one process at a time. Two processes that open one PGlite folder lose each other's
 * data without an error, so nothing is opened without it.
 */
import { mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { LatchkeyError } from "../../errors.ts";
import type { Random } from "../../ports.ts";
import { lifeOf, ownIdentity, type ProcessIdentity } from "./process-identity.ts";

export const lockFileName = "latchkey.lock";

/** How often the lock may be found free, or with a dead holder, and then be taken by another process, before this one gives up. */
const triesMax = 8;

/** The contents of a lock file. */
interface Holder extends ProcessIdentity {
  /** Identifies this lock file: no other ever has the same. */
  readonly token: string;
}

/** Releases the lock. Calling it again does nothing. */
export type ReleaseLock = () => void;

/**
 * Takes the lock of `directory`, which must exist. A lock whose process is dead is removed first. The returned function
 * releases the lock, as does the exit of the process; after a kill, the next process finds the lock's owner dead.
 *
 * @throws {LatchkeyError} `data-directory-locked` when another process, or another opening in this one, holds it
 */
export function lockDirectory(directory: string, random: Random): ReleaseLock {
  const path = join(directory, lockFileName);
  const mine: Holder = { ...ownIdentity(), token: random.token() };
  for (let tries = 1; !create(path, mine); tries++) {
    const holder = read(path);
    if (tries === triesMax) throw locked(path, holder);
    if (holder !== "gone") reap(path, holder, random);
  }
  const release = () => {
    process.off("exit", release);
    if (holds(path, mine)) unlinkSync(path);
  };
  process.once("exit", release);
  return release;
}

/**
 * Removes the lock file of a dead holder. Between reading a lock and removing it another process may have written its own;
 * so the removal is itself under a lock, made for this very token. While one process holds that lock, only the owner of the
 * lock file could change it, and the owner is dead.
 *
 * @throws {LatchkeyError} `data-directory-locked` when the holder lives, or a living process is removing the file
 */
function reap(path: string, holder: Holder | null, random: Random): void {
  if (holder === null || lifeOf(holder) !== "dead") throw locked(path, holder);
  const permit = `${path}.${holder.token}`;
  if (!create(permit, { ...ownIdentity(), token: random.token() })) {
    const other = read(permit);
    if (other !== "gone") reap(permit, other, random);
    return;
  }
  if (holds(path, holder)) unlinkSync(path);
  unlinkSync(permit);
}

/** False if the file exists already. */
function create(path: string, holder: Holder): boolean {
  try {
    writeFileSync(path, JSON.stringify(holder), { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Null if the file is not complete yet, or was not written by Latchkey. */
function read(path: string): Holder | null | "gone" {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isHolder(value) ? value : null;
  } catch (error) {
    return codeOf(error) === "ENOENT" ? "gone" : null;
  }
}

function holds(path: string, holder: Holder): boolean {
  const found = read(path);
  return found !== "gone" && found?.token === holder.token;
}

function isHolder(value: unknown): value is Holder {
  if (typeof value !== "object" || value === null) return false;
  const { place, pid, started, token } = value as Partial<Record<keyof Holder, unknown>>;
  return (
    typeof place === "string" &&
    typeof pid === "number" &&
    (typeof started === "string" || started === null) &&
    typeof token === "string" &&
    /^[0-9a-f]{32}$/.test(token)
  );
}

function locked(path: string, holder: Holder | null | "gone"): LatchkeyError {
  const who = holder === null || holder === "gone" ? "an unknown process" : describe(holder);
  return new LatchkeyError("data-directory-locked", {
    message: `${path} is held by ${who}. An embedded database belongs to one process: stop that one first. If it has certainly ended, delete the file.`,
  });
}

function describe(holder: Holder): string {
  const seen =
    lifeOf(holder) === "out_of_sight" ? `, in ${holder.place}, which cannot be seen from here` : "";
  return holder.pid === process.pid && seen === "" ? "this process" : `process ${holder.pid}${seen}`;
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

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
