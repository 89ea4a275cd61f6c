/**
 * Finds the public test vectors that are not part of the repository: in the folder named by LATCHKEY_VECTORS, else
 * in `../shared/vectors` seen from the repository's root.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { notRun } from "../support/not-run.ts";

const repositoryRoot = join(import.meta.dirname, "../..");
const vectorRoot = process.env.LATCHKEY_VECTORS ?? join(repositoryRoot, "../shared/vectors");

export interface VectorFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/**
 * Reads the files of a folder below the vectors' root, sorted by name, that end with `ending`. Where the folder is
 * not there: none, and a line that says "not run"; in CI an error.
 */
export function readVectors(folder: string, ending: string): readonly VectorFile[] {
  const path = join(vectorRoot, folder);
  if (!existsSync(path)) {
    notRun(`test vectors ${folder}`, "LATCHKEY_VECTORS names no folder that has them");
    return [];
  }
  const names = readdirSync(path).filter((name) => name.endsWith(ending));
  return names.sort().map((name) => ({ name, bytes: new Uint8Array(readFileSync(join(path, name))) }));
}
