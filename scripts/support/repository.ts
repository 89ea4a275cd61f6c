import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Absolute path of the repository, without a trailing slash. */
export const repositoryRoot = join(import.meta.dirname, "..", "..");

/** One thing a check found: where (path from the repository's root, perhaps with a line) and what. */
export interface Problem {
  readonly where: string;
  readonly message: string;
}

/**
 * Paths of the files below `folder` that match `pattern`, sorted, relative to `folder`, with `/` between
 * the parts. Installed packages and built files are left out. A missing folder has no files.
 */
function listFiles(folder: string, pattern: string): readonly string[] {
  return globSync(pattern, { cwd: folder, exclude: (name) => name === "node_modules" || name === "dist" })
    .map((path) => path.replaceAll("\\", "/"))
    .sort();
}

/** Texts of the files below `folder` that match `pattern`, by their path relative to `folder`. */
export function readFiles(folder: string, pattern: string): ReadonlyMap<string, string> {
  return new Map(listFiles(folder, pattern).map((path) => [path, readFileSync(join(folder, path), "utf8")]));
}

/** Prints one line per problem, or one `ok` line, and sets the exit code of the process: 1 with problems. */
export function report(check: string, problems: readonly Problem[], covered: string): void {
  for (const { where, message } of problems) console.error(`${where}: ${message}`);
  if (problems.length > 0) process.exitCode = 1;
  console.log(problems.length > 0 ? `${check}: ${problems.length} problem(s)` : `${check}: ok (${covered})`);
}
