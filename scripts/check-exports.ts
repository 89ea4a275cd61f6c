/**
 * Checks that the library's public surface is the same list four times: `exports` in package.json, source files,
 * tests, and the table of docs/modules.md. A module is public exactly when `exports` has a row for it.
 */
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type Problem, readFiles, report, repositoryRoot } from "./support/repository.ts";
import { readSyntax } from "./support/syntax.ts";

export interface Surface {
  /** `exports` of package.json, as parsed. */
  readonly exports: Readonly<Record<string, unknown>>;
  /** Texts of the library's TypeScript files and of all tests, by path relative to `packages/latchkey`. */
  readonly files: ReadonlyMap<string, string>;
  /** Text of docs/modules.md. */
  readonly modulesTable: string;
}

const manifestPath = "packages/latchkey/package.json";
const tablePath = "docs/modules.md";

/** Finds where the four lists differ. */
export function findExportProblems(surface: Surface): readonly Problem[] {
  const rows = Object.entries(surface.exports);
  const documented = readTable(surface.modulesTable);
  const specifiers = rows.map(([subpath]) => specifierOf(subpath));
  return [
    ...rows.flatMap(([subpath, row]) =>
      rowProblems(subpath, row, surface).map((message) => ({
        where: manifestPath,
        message: `exports["${subpath}"] ${message}`,
      })),
    ),
    ...rows.flatMap(([subpath, row]) => tableProblems(subpath, sourceOf(row), documented)),
    ...documented
      .filter(({ specifier }) => !specifiers.includes(specifier))
      .map(({ specifier, line }) => ({
        where: `${tablePath}:${line}`,
        message: `names ${specifier}, which ${manifestPath} does not export`,
      })),
    ...orphanTestProblems(surface.files),
  ];
}

function rowProblems(subpath: string, row: unknown, surface: Surface): readonly string[] {
  if (subpath.includes("*")) return ["is a wildcard: write one row per module"];
  const source = sourceOf(row);
  if (!isDeepStrictEqual(row, expectedRow(source))) {
    return [`must be of the form ${JSON.stringify(expectedRow("src/x.ts"))}`];
  }
  if (!surface.files.has(source)) return [`has no source file ${source}`];
  if (isTested(source, specifierOf(subpath), surface.files)) return [];
  return [`has no test: write ${source.replace(/\.ts$/, ".test.ts")}, or import it in one`];
}

function tableProblems(subpath: string, source: string, documented: readonly TableRow[]): readonly Problem[] {
  const specifier = specifierOf(subpath);
  const rows = documented.filter((row) => row.specifier === specifier);
  if (rows.length === 0)
    return [{ where: tablePath, message: `has no row for ${specifier} (\`${source}\`)` }];
  const repeated = rows.slice(1).map(({ line }) => ({ line, message: `has a second row for ${specifier}` }));
  const misplaced = rows
    .filter((row) => row.source !== source)
    .map((row) => ({
      line: row.line,
      message: `names ${row.source}; the source of ${specifier} is ${source}`,
    }));
  return [...repeated, ...misplaced].map(({ line, message }) => ({ where: `${tablePath}:${line}`, message }));
}

interface TableRow {
  readonly specifier: string;
  readonly source: string;
  readonly line: number;
}

/** Rows such as ``| `latchkey/memory` | `src/stores/memory.ts` | … |``. */
function readTable(text: string): readonly TableRow[] {
  return text.split("\n").flatMap((content, index) => {
    const [, specifier, source] = /^\| *`(latchkey[^`]*)` *\| *`([^`]+)` *\|/.exec(content) ?? [];
    return specifier && source ? [{ specifier, source, line: index + 1 }] : [];
  });
}

/** A test beside the module that has its name, or any test that imports it (such as a family's suite). */
function isTested(source: string, specifier: string, files: ReadonlyMap<string, string>): boolean {
  const name = source.replace(/\.ts$/, "");
  const tests = [...files].filter(([path]) => path.endsWith(".test.ts"));
  return tests.some(
    ([path, text]) =>
      path.startsWith(`${name}.`) ||
      readSyntax(text).imports.some(
        (item) => item.specifier === specifier || posix.join(posix.dirname(path), item.specifier) === source,
      ),
  );
}

/** Tests in `src` whose module is gone: `x.test.ts` and `x.topic.test.ts` belong to `x.ts` or to the folder `x`. */
function orphanTestProblems(files: ReadonlyMap<string, string>): readonly Problem[] {
  const folders = new Set([...files.keys()].map((path) => posix.dirname(path)));
  return [...files.keys()]
    .filter((path) => path.startsWith("src/") && path.endsWith(".test.ts"))
    .filter((path) => {
      const folder = posix.dirname(path);
      const [name = ""] = posix.basename(path).split(".");
      const belongs = files.has(`${folder}/${name}.ts`) || posix.basename(folder) === name;
      return !belongs && !folders.has(`${folder}/${name}`);
    })
    .map((path) => ({
      where: `packages/latchkey/${path}`,
      message:
        "is not named after a module or folder beside it; tests across modules belong in packages/latchkey/test",
    }));
}

const specifierOf = (subpath: string): string => `latchkey${subpath.slice(1)}`;

/** The source file that a row names, such as `src/stores/memory.ts`; empty when it names none. */
function sourceOf(row: unknown): string {
  const source =
    typeof row === "object" && row !== null && "latchkey-source" in row ? row["latchkey-source"] : "";
  return typeof source === "string" ? source.replace(/^\.\//, "") : "";
}

function expectedRow(source: string): Readonly<Record<string, string>> {
  const built = source.replace(/^src\//, "./dist/").replace(/\.ts$/, "");
  return { "latchkey-source": `./${source}`, types: `${built}.d.ts`, default: `${built}.js` };
}

if (import.meta.main) {
  const packageFolder = join(repositoryRoot, "packages/latchkey");
  const manifest: { exports: Record<string, unknown> } = JSON.parse(
    readFileSync(join(packageFolder, "package.json"), "utf8"),
  );
  const problems = findExportProblems({
    exports: manifest.exports,
    files: new Map([
      ...readFiles(packageFolder, "{src,test}/**/*.ts"),
      ...readFiles(packageFolder, "../../test/**/*.test.ts"),
    ]),
    modulesTable: readFileSync(join(repositoryRoot, tablePath), "utf8"),
  });
  report("exports", problems, `${Object.keys(manifest.exports).length} public modules`);
}
