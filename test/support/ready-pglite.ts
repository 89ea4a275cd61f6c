/**
 * Databases of PGlite in their initial state. PGlite takes five seconds of CPU time to create one; here the first caller
 * creates it, and all others copy it.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";

const repository = join(import.meta.dirname, "../..");
const { version } = JSON.parse(
  readFileSync(join(repository, "node_modules/@electric-sql/pglite/package.json"), "utf8"),
) as { readonly version: string };
const folder = join(repository, "node_modules/.cache/latchkey");
const archive = join(folder, `pglite-${version}.tar`);

/** In memory, and ready. */
export async function readyPglite(): Promise<PGlite> {
  await makeArchive();
  const database = new PGlite({
    dataDir: "memory://",
    loadDataDir: new Blob([readFileSync(archive)]),
  });
  await database.waitReady;
  return database;
}

/** Fills a folder with the files of a new database, unless it is there already. */
export async function fillPgliteFolder(path: string): Promise<void> {
  if (existsSync(path)) return;
  await makeArchive();
  mkdirSync(path, { recursive: true });
  // tar reports on stderr that it removes the leading slash of each name.
  execFileSync("tar", ["-xf", archive, "-C", path], { stdio: "pipe" });
}

/** Concurrent callers are harmless: all write the same. */
async function makeArchive(): Promise<void> {
  if (existsSync(archive)) return;
  const database = new PGlite("memory://");
  // A query before this would never return.
  await database.waitReady;
  const bytes = await (await database.dumpDataDir("none")).arrayBuffer();
  await database.close();
  mkdirSync(folder, { recursive: true });
  const unfinished = `${archive}.${process.pid}`;
  writeFileSync(unfinished, new Uint8Array(bytes));
  renameSync(unfinished, archive);
}
