import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  statfsSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Whom servers run as. Postgres refuses to run as root. */
export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

export const isRoot = process.getuid?.() === 0;

/** The unprivileged user for servers when we are root (`postgres`, else `nobody`); undefined: run as ourselves. */
export function serverUser(): ServerUser | undefined {
  if (!isRoot) return undefined;
  const rows = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((row) => row.split(":"));
  for (const name of ["postgres", "nobody"]) {
    const row = rows.find(([first]) => first === name);
    if (row) return { name, uid: Number(row[2]), gid: Number(row[3]) };
  }
  throw new Error("running as root, and neither user postgres nor user nobody exists to run servers as");
}

/** A Unix socket's path may have 103 bytes on macOS (107 on Linux); ours add up to 40 to the base. */
const BASE_LENGTH_LIMIT = 60;

function everyoneMayEnter(path: string): boolean {
  const passable = (statSync(path).mode & 0o001) !== 0;
  return passable && (path === dirname(path) || everyoneMayEnter(dirname(path)));
}

/** The temporary directory, or another one when its path is too long or the server's user cannot enter it. */
function scratchBase(): string {
  const usable = [tmpdir(), "/tmp", "/var/tmp"].find(
    (path) => path.length <= BASE_LENGTH_LIMIT && (!isRoot || everyoneMayEnter(path)),
  );
  if (!usable) throw new Error("no temporary directory with a short path that a server's user can enter");
  return usable;
}

/** Set by `vitest.config.ts` for the test processes and for what they start: where servers keep their files. */
const variable = "LATCHKEY_TEST_MEMORY";
/** Linux's file system in memory. A server's files there cost a fifth less processor time in `npm test`. */
const memory = "/dev/shm";
/** A run of `npm test` holds up to 0.7 GB there. */
const memoryMinBytes = 2 ** 32;

/** A file system in memory that servers can write to, if this machine has one and memory to spare; otherwise "". */
export function memoryFolder(): string {
  try {
    accessSync(memory, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = statfsSync(memory);
    return Math.min(bavail * bsize, process.availableMemory()) < memoryMinBytes ? "" : memory;
  } catch {
    return "";
  }
}

/**
 * Makes a fresh directory that everybody may enter; for servers that tests start, in memory if there is plenty.
 *
 * @param owner the user that servers run as, or ourselves; programs can be started only from a directory of ours
 */
export function scratchDirectory(owner: "servers" | "us" = "servers"): string {
  const base = (owner === "servers" && process.env[variable]) || scratchBase();
  const path = mkdtempSync(join(base, "lk-"));
  chmodSync(path, 0o755);
  const user = owner === "servers" ? serverUser() : undefined;
  if (user) chownSync(path, user.uid, user.gid);
  return path;
}

/**
 * A directory kept between runs, one per user. In a shared temporary directory somebody else may have made it
 * first with programs of his own inside, so it counts only if it is ours and nobody else can write to it.
 */
export function cacheDirectory(): string {
  const uid = process.getuid?.() ?? 0;
  const path = join(scratchBase(), `latchkey-test-${uid}`);
  mkdirSync(path, { recursive: true });
  const stat = lstatSync(path);
  if (!stat.isDirectory() || stat.uid !== uid) return scratchDirectory("us");
  chmodSync(path, 0o755);
  return path;
}

export { variable as memoryVariable };
