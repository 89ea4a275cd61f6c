import { execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { notRun } from "./not-run.ts";
import { freePort } from "./postgres-cluster.ts";
import { endTree, identify } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { isRoot, scratchDirectory, serverUser } from "./scratch.ts";
import { until } from "./until.ts";
import { watchDirectory, watchProcess } from "./watchdog.ts";

/** How to get a server that npm cannot supply. */
export interface ServerRecipe {
  /** For messages, e.g. "Redis". */
  readonly name: string;
  /** Environment variable with the URL of a server to use as it is, e.g. LATCHKEY_REDIS_URL. */
  readonly variable: string;
  readonly program: ProgramRecipe;
  /** Arguments that make the program listen on 127.0.0.1:`port` in the foreground with its files in `folder`. */
  arguments(place: { port: number; folder: string }): string[];
  /** Variables for the program besides PATH, HOME and TMPDIR (`folder`). */
  environment?(place: { port: number; folder: string }): Record<string, string>;
  url(place: { port: number; folder: string }): string;
  /** True (or no error) once the server answers. */
  answers(url: string): Promise<boolean>;
}

export interface ProgramRecipe {
  /** Names to look for on PATH and in the system's sbin folders. */
  readonly names: readonly string[];
  /** Debian package that brings it. */
  readonly apt?: string;
}

export interface RunningServer {
  readonly url: string;
  /** Undefined for a server named by an environment variable. */
  readonly pid: number | undefined;
  log(): string;
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 60_000;

/**
 * The order for servers that npm cannot supply: a URL in the environment, else a program on this machine started
 * privately, else (see `findProgram`) one installed now, else undefined after a "not run" report.
 */
export async function startServer(recipe: ServerRecipe): Promise<RunningServer | undefined> {
  const given = process.env[recipe.variable];
  if (given) return { url: given, pid: undefined, log: () => "", stop: async () => {} };
  const program = findProgram(recipe.program);
  if (program) return await launch(recipe, program);
  notRun(recipe.name, `no ${recipe.variable}, and no ${recipe.program.names.join(" or ")} on this machine`);
  return undefined;
}

/**
 * Path of a program, or undefined. Debian's package is installed only where the machine is ours to change: as root,
 * with LATCHKEY_APT_INSTALL=1 or in CI.
 */
export function findProgram({ names, apt }: ProgramRecipe): string | undefined {
  const found = onPath(names);
  if (found || !apt || !installDebianPackage(apt)) return found;
  return onPath(names);
}

function onPath(names: readonly string[]): string | undefined {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/local/sbin", "/usr/sbin", "/sbin"];
  return folders
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((path) => existsSync(path));
}

function installDebianPackage(name: string): boolean {
  const allowed = process.env.LATCHKEY_APT_INSTALL === "1" || process.env.CI === "true";
  if (!allowed || !isRoot || !onPath(["apt-get"])) return false;
  const options = ["install", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", name];
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  for (const steps of [[options], [["update", "-q"], options]]) {
    try {
      for (const step of steps) execFileSync("apt-get", step, { stdio: "ignore", env });
      return true;
    } catch {
      // First without, then after an update of the package lists.
    }
  }
  return false;
}

async function launch(recipe: ServerRecipe, program: string): Promise<RunningServer> {
  const folder = scratchDirectory();
  const place = { port: await freePort(), folder };
  const user = serverUser();
  const log = openSync(join(folder, "log"), "a");
  const child = spawn(program, recipe.arguments(place), {
    ...(user && { uid: user.uid, gid: user.gid }),
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, TMPDIR: folder, ...recipe.environment?.(place) },
    stdio: ["ignore", log, log],
    detached: true,
  });
  closeSync(log);
  child.on("error", () => {});
  if (!child.pid) throw new Error(`could not start ${program}`);
  const identity = identify(child.pid);
  child.unref();
  const endings = [watchDirectory(folder), watchProcess(child.pid), onRelease(() => stop())];
  const stop = async () => {
    await endTree(identity, "SIGTERM");
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    for (const end of endings) end();
  };
  const server = {
    url: recipe.url(place),
    pid: child.pid,
    log: () => readFileSync(join(folder, "log"), "utf8"),
    stop,
  };
  try {
    await until(() => child.exitCode !== null || recipe.answers(server.url), { timeoutMs: START_TIMEOUT_MS });
    if (child.exitCode !== null) throw new Error(`it exited with code ${child.exitCode}`);
    return server;
  } catch (error) {
    const failure = new Error(`${recipe.name} did not start:\n${server.log()}`, { cause: error });
    await stop();
    throw failure;
  }
}

const FAKETIME_FOLDERS = ["/usr/lib", "/usr/local/lib", "/opt/homebrew/lib"];

/** A wall clock that a test moves, for any program started with `environment`. The machine's own stays. */
export interface FakeClock {
  readonly environment: Readonly<Record<string, string>>;
  /** Shifts the program's wall clock against the real one, at once. Monotonic clocks are not touched. */
  shift(seconds: number): void;
}

/** Path of libfaketime's library, installing it under the rules of `findProgram`; undefined when there is none. */
function faketimeLibrary(): string | undefined {
  const found = findFaketime();
  return found || !installDebianPackage("libfaketime") ? found : findFaketime();
}

function findFaketime(): string | undefined {
  const architectures = existsSync("/usr/lib")
    ? readdirSync("/usr/lib").map((one) => join("/usr/lib", one))
    : [];
  return [...FAKETIME_FOLDERS, ...architectures]
    .flatMap((folder) => [
      join(folder, "faketime/libfaketime.so.1"),
      join(folder, "faketime/libfaketime.1.dylib"),
    ])
    .find((path) => existsSync(path));
}

/** A clock to move, or undefined after a "not run" report. */
export function fakeClock(): FakeClock | undefined {
  const library = faketimeLibrary();
  if (!library) {
    notRun("clock jumps", "libfaketime is not installed");
    return undefined;
  }
  const folder = scratchDirectory();
  const file = join(folder, "shift");
  const shift = (seconds: number) => writeFileSync(file, `${seconds < 0 ? "" : "+"}${seconds}\n`);
  shift(0);
  const forget = watchDirectory(folder);
  onRelease(async () => {
    await rm(folder, { recursive: true, force: true });
    forget();
  });
  const preload = process.platform === "darwin" ? "DYLD_INSERT_LIBRARIES" : "LD_PRELOAD";
  return {
    environment: {
      [preload]: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
    shift,
  };
}
