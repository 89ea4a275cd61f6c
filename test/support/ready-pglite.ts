/**
 * Databases of PGlite as new ones are. PGlite takes five seconds of a processor to make one; here the first who needs one
 * makes it, and everybody copies that.
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
  // It tells of the slash before each name, which it leaves out.
  execFileSync("tar", ["-xf", archive, "-C", path], { stdio: "pipe" });
}

/** Others may be at it, too: who is last has written the same. */
async function makeArchive(): Promise<void> {
  if (existsSync(archive)) return;
  const database = new PGlite("memory://");
  // Asked before that it never answers.
  await database.waitReady;
  const bytes = await (await database.dumpDataDir("none")).arrayBuffer();
  await database.close();
  mkdirSync(folder, { recursive: true });
  const unfinished = `${archive}.${process.pid}`;
  writeFileSync(unfinished, new Uint8Array(bytes));
  renameSync(unfinished, archive);
}
