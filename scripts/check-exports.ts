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
  const documented = readTable(surface.modulesTable);
  const specifiers = Object.keys(surface.exports).map(specifierOf);
  return [
    ...Object.entries(surface.exports).flatMap(([subpath, row]) => rowProblems(subpath, row, surface)),
    ...Object.keys(surface.exports).flatMap((subpath) => tableProblems(subpath, documented)),
    ...documented
      .filter(({ specifier }) => !specifiers.includes(specifier))
      .map(({ specifier, line }) => ({
        where: `${tablePath}:${line}`,
        message: `names ${specifier}, which ${manifestPath} does not export`,
      })),
    ...orphanTestProblems(surface.files),
  ];
}

function rowProblems(subpath: string, row: unknown, surface: Surface): readonly Problem[] {
  const problem = (message: string) => [{ where: manifestPath, message: `exports["${subpath}"] ${message}` }];
  if (subpath.includes("*")) return problem("is a wildcard: write one row per module");
  const source = sourceOf(subpath);
  if (!isDeepStrictEqual(row, expectedRow(source))) {
    return problem(`must be exactly ${JSON.stringify(expectedRow(source))}`);
  }
  if (!surface.files.has(source)) return problem(`has no source file ${source}`);
  return isTested(source, surface.files)
    ? []
    : problem(`has no test: write ${testOf(source)}, or import it in one`);
}

function tableProblems(subpath: string, documented: readonly TableRow[]): readonly Problem[] {
  const specifier = specifierOf(subpath);
  const source = sourceOf(subpath);
  const rows = documented.filter((row) => row.specifier === specifier);
  if (rows.length === 0)
    return [{ where: tablePath, message: `has no row for ${specifier} (\`${source}\`)` }];
  return rows
    .slice(1)
    .map((row) => ({ line: row.line, message: `has a second row for ${specifier}` }))
    .concat(
      rows
        .filter((row) => row.source !== source)
        .map((row) => ({ line: row.line, message: `says ${row.source}; ${specifier} is ${source}` })),
    )
    .map(({ line, message }) => ({ where: `${tablePath}:${line}`, message }));
}

interface TableRow {
  readonly specifier: string;
  readonly source: string;
  readonly line: number;
}

/** Rows such as ``| `latchkey/stores/store` | `src/stores/store.ts` | … |``. */
function readTable(text: string): readonly TableRow[] {
  return text.split("\n").flatMap((content, index) => {
    const [, specifier, source] = /^\| *`(latchkey[^`]*)` *\| *`([^`]+)` *\|/.exec(content) ?? [];
    return specifier && source ? [{ specifier, source, line: index + 1 }] : [];
  });
}

/** A test beside the module that has its name, or any test that imports it (such as a family's suite). */
function isTested(source: string, files: ReadonlyMap<string, string>): boolean {
  const name = source.replace(/\.ts$/, "");
  const tests = [...files].filter(([path]) => path.endsWith(".test.ts"));
  return tests.some(([path, text]) => path.startsWith(`${name}.`) || imports(path, text, source));
}

function imports(path: string, text: string, source: string): boolean {
  return readSyntax(text).imports.some(
    ({ specifier }) =>
      (specifier.startsWith(".") && posix.join(posix.dirname(path), specifier) === source) ||
      specifier === specifierOf(subpathOf(source)),
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
        "is named after no module or folder beside it; tests across modules belong into packages/latchkey/test",
    }));
}

const sourceOf = (subpath: string): string =>
  subpath === "." ? "src/index.ts" : `src/${subpath.slice(2)}.ts`;
const testOf = (source: string): string => source.replace(/\.ts$/, ".test.ts");
const subpathOf = (source: string): string =>
  source === "src/index.ts" ? "." : source.replace(/^src\//, "./").replace(/\.ts$/, "");
const specifierOf = (subpath: string): string => `latchkey${subpath.slice(1)}`;

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
