import { execFile, execFileSync } from "node:child_process";
import { createHash, randomInt } from "node:crypto";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import type { PostgresInstallation } from "./postgres-binaries.ts";
import { cacheDirectory, serverUser } from "./scratch.ts";

/** The files of a cluster: made once a day per installation by initdb, then copied. */

const run = promisify(execFile);

/** Below the kernel's range for outgoing connections, else one of those can sit on the port while we restart. */
const PORT_RANGE = { first: 15_000, end: 32_000 };

const asServerUser = () => {
  const user = serverUser();
  return {
    ...(user && { uid: user.uid, gid: user.gid }),
    cwd: "/",
    env: { PATH: process.env.PATH, LC_ALL: "C" },
  };
};

/** A TCP port on 127.0.0.1 that was free a moment ago. Whoever uses it must be ready to ask for another. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORT_RANGE.first, PORT_RANGE.end);
    const free = await new Promise<boolean>((resolve) => {
      const probe = createServer();
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

/** Puts a fresh cluster into `dataDir` (which may exist, if it is empty), owned by the servers' user. */
export async function createDataDirectory(from: PostgresInstallation, dataDir: string): Promise<void> {
  const template = await templateDirectory(from);
  mkdirSync(dataDir, { recursive: true });
  const user = serverUser();
  if (user) chownSync(dataDir, user.uid, user.gid);
  chmodSync(dataDir, 0o700);
  await copyTree([`${template}/.`], dataDir);
}

/** Copies files as the servers' user, keeping modes and times; shares blocks where the file system can. */
export async function copyTree(from: string[], to: string): Promise<void> {
  await run("cp", ["-Rp", ...from, to], asServerUser());
}

async function templateDirectory(from: PostgresInstallation): Promise<string> {
  const folder = join(cacheDirectory(), "clusters");
  mkdirSync(folder, { recursive: true });
  const user = serverUser();
  if (user) chownSync(folder, user.uid, user.gid);
  chmodSync(folder, 0o755);
  // The day is part of the name because cleaners of temporary directories take old files out of the middle.
  const day = new Date().toISOString().slice(0, 10);
  const source = createHash("sha256").update(`${from.bin} ${user?.uid}`).digest("hex").slice(0, 8);
  const template = join(folder, `${day}-${from.fullVersion}-${source}`);
  if (existsSync(template)) return template;
  await removeOldTemplates(folder, day);
  const draft = `${template}.${process.pid}-${randomInt(1e9)}.draft`;
  const options = ["-D", draft, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
  await run(join(from.bin, "initdb"), [...options, "--wal-segsize=1"], asServerUser());
  try {
    renameSync(draft, template);
  } catch (error) {
    // Another process was faster.
    await rm(draft, { recursive: true, force: true });
    if (!existsSync(template)) throw error;
  }
  return template;
}

/** Keeps today's and yesterday's: a run may have begun before midnight. */
async function removeOldTemplates(folder: string, today: string): Promise<void> {
  const oldest = new Date(Date.parse(today) - 86_400_000).toISOString().slice(0, 10);
  const old = readdirSync(folder).filter((name) => name < oldest);
  for (const name of old) await rm(join(folder, name), { recursive: true, force: true });
}

/**
 * A server that was killed leaves a System V memory segment behind (a machine has 4096). Only for clusters whose
 * processes are all gone and that will not start again.
 */
export function removeSharedMemory(dataDir: string): void {
  try {
    const segment = readFileSync(join(dataDir, "postmaster.pid"), "utf8")
      .split("\n")[6]
      ?.trim()
      .split(/\s+/)[1];
    if (segment) execFileSync("ipcrm", ["-m", segment], { stdio: "ignore" });
  } catch {
    // Nothing was left, or this machine has no ipcrm.
  }
}
