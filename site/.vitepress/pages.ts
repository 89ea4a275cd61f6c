import { existsSync, globSync, readdirSync } from "node:fs";
import { posix } from "node:path";
import { repositoryRoot } from "../../scripts/support/repository.ts";

const pagesAtTheRoot = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
const noPages = ["docs/decisions/template.md"];

/** Repository paths of the documents that are pages of the site. */
export function listPages(): readonly string[] {
  const documents = globSync("docs/**/*.md", { cwd: repositoryRoot }).map((path) =>
    path.replaceAll("\\", "/"),
  );
  return [...pagesAtTheRoot, ...documents.filter((path) => !noPages.includes(path)).sort()];
}

/** Patterns of what below the repository's root is no page; without them VitePress takes every Markdown file. */
export function listExcluded(): readonly string[] {
  const folders = readdirSync(repositoryRoot, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [...noPages, ...folders.filter(({ name }) => name !== "docs").map(({ name }) => `${name}/**`)];
}

/** A document's place in the site, with its ending: `docs/adapters/README.md` is `adapters/index.md`. */
export function placeOf(path: string): string {
  if (path === "README.md") return "index.md";
  if (path === "docs/README.md") return "documents.md";
  if (!path.startsWith("docs/")) return path.toLowerCase();
  return path.slice("docs/".length).replace(/(^|\/)README\.md$/, "$1index.md");
}

/**
 * Where a link of a document leads in the site. `null`: to a file of the repository that the site does not have.
 * @throws {Error} where neither the site nor the repository has it
 */
export function siteLink(from: string, target: string): string | null {
  if (/^([a-z][a-z+.-]*:|#)/i.test(target)) return target;
  const [file = "", anchor] = target.split("#");
  const linked = posix.join(posix.dirname(from), decodeURI(file));
  if (listPages().includes(linked)) return `/${placeOf(linked)}${anchor === undefined ? "" : `#${anchor}`}`;
  if (existsSync(`${repositoryRoot}/${linked}`)) return null;
  throw new Error(`${from} links to ${target}, which does not exist`);
}
