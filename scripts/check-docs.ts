/**
 * Checks the documents as far as a machine can: every TypeScript block type-checks against the sources, every link between
 * files leads to a file and a heading, and the pages about the code name files that exist.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { type MarkdownDocument, readMarkdown, type Snippet } from "./support/markdown.ts";
import { findNameProblems } from "./support/named-files.ts";
import { type Problem, readFiles, report, repositoryRoot } from "./support/repository.ts";

const documentPattern = "{*.md,docs/**/*.md,packages/*/*.md,examples/*/*.md}";
/** Pages that tell contributors where things are. On other pages a name may refer to the reader's own file. */
const pagesAboutTheCode = ["CONTRIBUTING.md", "docs/architecture.md"];

/** Links to files or headings that do not exist. `exists` is asked for paths relative to the repository's root. */
export function findLinkProblems(
  documents: readonly MarkdownDocument[],
  exists: (path: string) => boolean,
): readonly Problem[] {
  const anchorsOf = new Map(documents.map(({ path, anchors }) => [path, anchors]));
  return documents.flatMap(({ path, links }) =>
    links.flatMap(({ target, line }) => {
      if (/^[a-z][a-z+.-]*:/i.test(target)) return [];
      const [file = "", anchor] = target.split("#");
      const linked = file === "" ? path : posix.join(posix.dirname(path), decodeURI(file));
      const where = `${path}:${line}`;
      if (!exists(linked)) return [{ where, message: `links to ${target}, which does not exist` }];
      const anchors = anchorsOf.get(linked);
      if (anchor === undefined || anchors === undefined || anchors.has(anchor)) return [];
      return [{ where, message: `links to ${target}, but ${linked} has no such heading` }];
    }),
  );
}

/** Type-checks all snippets in one compiler run, in a folder from which `latchkey` resolves to its sources. */
export function findTypeProblems(snippets: readonly Snippet[]): readonly Problem[] {
  if (snippets.length === 0) return [];
  const cache = join(repositoryRoot, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "latchkey-docs-"));
  try {
    return compile(folder, snippets);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Where each snippet is written: one without a name stands alone; named ones of a document share a folder. A repeated name
 * starts a new folder, where it and the ones after it replace those of the same names.
 */
function layOut(snippets: readonly Snippet[]): ReadonlyMap<string, Snippet> {
  const alone = snippets.filter(({ file }) => file === undefined);
  const named = Map.groupBy(
    snippets.filter(({ file }) => file !== undefined),
    ({ document }) => document,
  );
  const folders = [...named.values()].flatMap(foldersOf);
  return new Map([
    ...alone.map((snippet, index) => [`${index}.ts`, snippet] as const),
    ...folders.flatMap((files, index) =>
      [...files].map(([name, snippet]) => [`folder-${index}/${name}`, snippet] as const),
    ),
  ]);
}

function foldersOf(snippets: readonly Snippet[]): readonly ReadonlyMap<string, Snippet>[] {
  const folders: Map<string, Snippet>[] = [];
  const fresh = new Set<string>();
  for (const snippet of snippets) {
    const { file = "" } = snippet;
    if (folders.length === 0 || fresh.has(file)) {
      folders.push(new Map(folders.at(-1)));
      fresh.clear();
    }
    fresh.add(file);
    folders.at(-1)?.set(file, snippet);
  }
  return folders;
}

function compile(folder: string, snippets: readonly Snippet[]): readonly Problem[] {
  const places = layOut(snippets);
  for (const [path, { lines }] of places) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), lines.join("\n"));
  }
  // Without it the folder would count as CommonJS: package scopes end at node_modules.
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const compilerOptions = {
    noUnusedLocals: false,
    noUnusedParameters: false,
    moduleDetection: "force",
    // As in projects that use Nest.
    experimentalDecorators: true,
    erasableSyntaxOnly: false,
  };
  const base = join(repositoryRoot, "tsconfig.base.json");
  const files = [...places.keys()];
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ extends: base, compilerOptions, files }));

  const compiler = join(repositoryRoot, "node_modules/typescript/bin/tsc");
  const result = spawnSync(process.execPath, [compiler, "-p", folder, "--pretty", "false"], {
    cwd: folder,
    encoding: "utf8",
  });
  if (result.status === 0) return [];
  const problems = parseCompilerOutput(result.stdout, places);
  if (problems.length > 0) return problems;
  throw new Error(
    `the compiler ended with ${result.status} and no diagnostics: ${result.stdout}${result.stderr}`,
  );
}

function parseCompilerOutput(output: string, places: ReadonlyMap<string, Snippet>): readonly Problem[] {
  const problems = output.split("\n").flatMap((text) => {
    const [, file = "", line = "", column = "", message = ""] =
      /^(.+?)\((\d+),(\d+)\): (.*)$/.exec(text) ?? [];
    if (message === "") return [];
    const where = `${places.get(file)?.document ?? file}:${line}:${column}`;
    return [[`${where} ${message}`, { where, message }] as const];
  });
  // A file in two folders has its errors twice.
  return [...new Map(problems).values()];
}

/** A file's text, nothing for a folder. */
export function readNamed(path: string): string | undefined {
  const named = join(repositoryRoot, path);
  const found = statSync(named, { throwIfNoEntry: false });
  if (found === undefined || found.isDirectory() !== path.endsWith("/")) return undefined;
  return found.isDirectory() ? "" : readFileSync(named, "utf8");
}

if (import.meta.main) {
  const texts = readFiles(repositoryRoot, documentPattern);
  const documents = [...texts].map(([path, text]) => readMarkdown(path, text));
  const snippets = documents.flatMap((document) => document.snippets);
  const problems = [
    ...documents.flatMap(({ path, problems }) =>
      problems.map(({ line, message }) => ({ where: `${path}:${line}`, message })),
    ),
    ...findLinkProblems(documents, (path) => existsSync(join(repositoryRoot, path))),
    ...pagesAboutTheCode.flatMap((path) => findNameProblems(path, texts.get(path) ?? "", readNamed)),
    ...findTypeProblems(snippets),
  ];
  const links = documents.reduce((sum, document) => sum + document.links.length, 0);
  report(
    "docs",
    problems,
    `${documents.length} documents, ${snippets.length} TypeScript blocks, ${links} links`,
  );
}
