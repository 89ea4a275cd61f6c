/**
 * Builds the site of the documents and checks it: every page exists, every link leads to a page and a heading, and nothing is
 * loaded from other sites.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, posix } from "node:path";
import { listPages, placeOf } from "../site/.vitepress/pages.ts";
import { type Problem, readFiles, report, repositoryRoot } from "./support/repository.ts";

const siteFolder = join(repositoryRoot, "site");
const builtFolder = join(siteFolder, ".vitepress/dist");

/** What is wrong with built pages. `exists` is asked for files beside them, such as scripts and images. */
export function findSiteProblems(
  pages: ReadonlyMap<string, string>,
  exists: (path: string) => boolean,
): readonly Problem[] {
  const anchorsOf = new Map([...pages].map(([path, html]) => [path, new Set(attributesOf(html, "id"))]));
  return [...pages].flatMap(([where, html]) => {
    const links = [...attributesOf(html, "href"), ...attributesOf(html, "src")];
    return [
      ...loadedFrom(html).map((url) => ({ where, message: `loads ${url}` })),
      ...links.flatMap((link) => {
        if (/^([a-z][a-z+.-]*:|\/\/)/i.test(link)) return [];
        const [file = "", anchor = ""] = link.split("#");
        const linked = file === "" ? where : posix.join(posix.dirname(where), file);
        const anchors = anchorsOf.get(linked);
        if (anchors === undefined && !exists(linked))
          return [{ where, message: `links to ${link}, which does not exist` }];
        if (anchor === "" || anchors?.has(decodeURIComponent(anchor))) return [];
        return [{ where, message: `links to ${link}, which has no such heading` }];
      }),
    ];
  });
}

function attributesOf(html: string, name: string): readonly string[] {
  return [...html.matchAll(new RegExp(`<[^>]*\\s${name}="([^"]*)"`, "g"))].map(([, value = ""]) =>
    value.replaceAll("&amp;", "&"),
  );
}

/** Addresses on other sites that a browser would request automatically. */
function loadedFrom(html: string): readonly string[] {
  const loading = /<(?:script|img|link|iframe|source)\b[^>]*\s(?:src|href)="((?:https?:)?\/\/[^"]*)"/g;
  return [...html.matchAll(loading)].map(([, url = ""]) => url);
}

/** @throws {Error} with the output of VitePress */
export function buildSite(folder: string): void {
  const built = spawnSync("npx", ["vitepress", "build", siteFolder, "--outDir", folder], {
    encoding: "utf8",
  });
  if (built.status !== 0) throw new Error(`the site was not built:\n${built.stdout}${built.stderr}`);
}

if (import.meta.main) {
  buildSite(builtFolder);
  const pages = readFiles(builtFolder, "**/*.html");
  const missing = listPages()
    .map((path) => ({ where: path, place: placeOf(path).replace(/\.md$/, ".html") }))
    .filter(({ place }) => !pages.has(place))
    .map(({ where, place }) => ({ where, message: `has no page ${place}` }));
  const problems = [...missing, ...findSiteProblems(pages, (path) => existsSync(join(builtFolder, path)))];
  report("site", problems, `${pages.size} pages`);
}
