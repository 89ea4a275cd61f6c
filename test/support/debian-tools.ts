/**
 * Debian programs that npm does not have: found on this machine, otherwise downloaded by apt and unpacked into the tests'
 * cache, which needs no root, installs nothing and works offline from the second time on.
 */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, delimiter, dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { cacheDirectory } from "./scratch.ts";

interface Recipe {
  readonly package: string;
  /** The end of the path of the unpacked file. */
  readonly file: string;
  /** Arguments with which it does nothing and succeeds; null for a library. */
  readonly probe: readonly string[] | null;
}

const recipes = {
  /** The model checker. What it generates needs a C compiler. */
  spin: { package: "spin", file: "spin", probe: ["-V"] },
  /** Refuses to run as root. */
  pgbouncer: { package: "pgbouncer", file: "pgbouncer", probe: ["--version"] },
  pgpool: { package: "pgpool2", file: "pgpool", probe: ["--version"] },
  /** The browser for tests of pages. Its script in /usr/bin needs files in /etc. */
  chromium: { package: "chromium", file: "chromium/chromium", probe: ["--version"] },
  /** Checks and tests Prometheus' rules. */
  promtool: { package: "prometheus", file: "promtool", probe: ["--version"] },
  /** Python: fetched with the modules that it needs. */
  patroni: { package: "patroni", file: "patroni", probe: ["--version"] },
  etcd: { package: "etcd-server", file: "etcd", probe: ["--version"] },
  /** Not a program: libfaketime.so.1, for LD_PRELOAD. libfaketimeMT.so.1, for programs with threads, lies beside it. */
  faketime: { package: "libfaketime", file: "libfaketime.so.1", probe: null },
} as const satisfies Record<string, Recipe>;

export type DebianTool = keyof typeof recipes;

const run = promisify(execFile);
/** Package lists are 10 MB; a missing network is reported sooner. */
const stepLimitMs = 120_000;
/** If their version differs from the system's loader, every program ends at once. */
const neverUnpacked = /^(libc6|libgcc-s1|gcc-\d+-base)$/;

const found = new Map<DebianTool, Promise<string | null>>();

/**
 * Its path, executable by every user; null if it is not installed and cannot be downloaded. Callers then report that with
 * `notRun`.
 */
export function debianTool(tool: DebianTool): Promise<string | null> {
  const known = found.get(tool) ?? find(tool);
  found.set(tool, known);
  return known;
}

async function find(tool: DebianTool): Promise<string | null> {
  return installed(recipes[tool]) ?? (await unpackedTool(tool));
}

function installed({ file, probe }: Recipe): string | null {
  const folders = probe === null ? libraryFolders() : [...onPath(), "/usr/local/sbin", "/usr/sbin", "/sbin"];
  return folders.map((folder) => join(folder, basename(file))).find((path) => existsSync(path)) ?? null;
}

function onPath(): readonly string[] {
  return (process.env.PATH ?? "").split(delimiter).filter(Boolean);
}

/** `/usr/lib`, those of each architecture in it, and the folder `faketime` that Debian has in these. */
function libraryFolders(): readonly string[] {
  const roots = ["/usr/lib", "/usr/local/lib"].filter((root) => existsSync(root));
  const all = roots.flatMap((root) => [root, ...readdirSync(root).map((name) => join(root, name))]);
  return all.flatMap((folder) => [folder, join(folder, "faketime")]);
}

/** Like `debianTool`, without checking what is installed. */
export async function unpackedTool(tool: DebianTool): Promise<string | null> {
  const home = join(cacheDirectory(), "debian");
  const place = join(home, `${tool}-${process.arch}`);
  if (await works(recipes[tool], place)) return entry(place, recipes[tool].file);
  const draft = join(home, `${tool}.${randomUUID()}.draft`);
  try {
    openFolder(home);
    openFolder(draft);
    await unpack(recipes[tool], draft);
    if (!(await works(recipes[tool], draft))) return null;
    await moveInto(place, draft, recipes[tool]);
    return entry(place, recipes[tool].file);
  } catch {
    return null;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** The servers' user also needs access. */
function openFolder(path: string): void {
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o755);
}

/** In one step. The first one stays, unless it is broken: cleaners remove single old files from temporary directories. */
async function moveInto(place: string, draft: string, recipe: Recipe): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      renameSync(draft, place);
      return;
    } catch (error) {
      if (await works(recipe, place)) return;
      if (tries === 3) throw error;
      const broken = `${draft}.broken`;
      if (existsSync(place)) renameSync(place, broken);
      await rm(broken, { recursive: true, force: true });
    }
  }
}

async function works({ file, probe }: Recipe, place: string): Promise<boolean> {
  const path = entry(place, file);
  if (path === null || probe === null) return path !== null;
  return run(path, [...probe], { timeout: stepLimitMs }).then(
    () => true,
    () => false,
  );
}

const launchers = "launch";

/** The launcher, where there is one. */
function entry(place: string, file: string): string | null {
  const launcher = join(place, launchers, basename(file));
  if (existsSync(launcher)) return launcher;
  if (!existsSync(place)) return null;
  const found = readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((one) => join("/", one.parentPath, one.name).endsWith(`/${file}`) && !one.isDirectory())
    // Debian's packages have files of the same name in /etc and /usr/share.
    .find((one) => /\/(s?bin|lib)(\/|$)/.test(`/${relative(place, one.parentPath)}`));
  return found === undefined ? null : join(found.parentPath, found.name);
}

/** @throws when there is no apt, no dpkg, no network or no such package */
async function unpack(recipe: Recipe, place: string): Promise<void> {
  const debs = join(place, "debs");
  openFolder(debs);
  await download(recipe, [], debs).catch(async () => {
    // If the lists are missing, or so old that the mirror has newer files, we create our own next to the system's.
    const own = await freshLists(join(place, "apt"));
    await download(recipe, own, debs);
  });
  for (const deb of readdirSync(debs)) await run("dpkg-deb", ["-x", join(debs, deb), place]);
  await rm(debs, { recursive: true });
  await rm(join(place, "apt"), { recursive: true, force: true });
  if (recipe.probe !== null) writeLauncher(place, recipe.file);
}

/** The package, and its dependencies that this machine does not have. */
async function download(recipe: Recipe, lists: readonly string[], to: string): Promise<void> {
  const options = ["-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", ...lists];
  const apt = (command: readonly string[]) =>
    run("apt-get", [...options, ...command], { cwd: to, env: asked(), timeout: stepLimitMs });
  const plan = await apt(["install", "--simulate", "--no-install-recommends", recipe.package]);
  const needed = [...plan.stdout.matchAll(/^Inst (\S+)/gm)].map(([, name = ""]) => name.replace(/:.*/, ""));
  const names = new Set([recipe.package, ...needed.filter((name) => !neverUnpacked.test(name))]);
  await apt(["download", ...names]);
}

async function freshLists(folder: string): Promise<readonly string[]> {
  for (const name of ["lists/partial", "archives/partial"])
    mkdirSync(join(folder, name), { recursive: true });
  const own = [
    ["Dir::State::lists", join(folder, "lists")],
    ["Dir::Cache", folder],
    ["APT::Sandbox::User", ""],
  ].flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  await run("apt-get", ["update", "-q", ...own], { env: asked(), timeout: stepLimitMs });
  return own;
}

function asked(): NodeJS.ProcessEnv {
  return { ...process.env, LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" };
}

/**
 * Runs the program with the libraries and Python modules that were unpacked with it; if there are none, it needs no launcher.
 */
function writeLauncher(place: string, file: string): void {
  const program = entry(place, file);
  const all = readdirSync(place, { recursive: true, withFileTypes: true });
  const modules = all
    .filter(({ name }) => name === "dist-packages")
    .map((one) => join(one.parentPath, one.name));
  const libraries = all
    .filter(({ name, parentPath }) => /\.so(\.|$)/.test(name) && !parentPath.includes("/dist-packages"))
    .map(({ parentPath }) => parentPath);
  const settings = [
    ...searched(place, "LD_LIBRARY_PATH", libraries),
    ...searched(place, "PYTHONPATH", modules),
  ];
  if (program === null || settings.length === 0) return;
  const lines = [
    "#!/bin/sh",
    'root=$(cd "$(dirname "$0")/.." && pwd)',
    ...settings,
    `exec "$root/${relative(place, program)}" "$@"`,
  ];
  const launcher = join(place, launchers, basename(file));
  openFolder(dirname(launcher));
  writeFileSync(launcher, `${lines.join("\n")}\n`, { mode: 0o755 });
}

/** Shell lines that put folders of the place before what a variable has. */
function searched(place: string, variable: string, folders: readonly string[]): readonly string[] {
  if (folders.length === 0) return [];
  const path = [...new Set(folders)].map((folder) => `$root/${relative(place, folder)}`).join(":");
  return [`${variable}="${path}\${${variable}:+:$${variable}}"`, `export ${variable}`];
}
