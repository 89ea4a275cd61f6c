/** Checks that lists in written documents are those of the code: pages, commands, scripts, threats, versions. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../packages/latchkey/src/cli/run.ts";
import { threats } from "../test/proof/threats/threats.ts";
import { POSTGRES_VERSIONS } from "../test/support/postgres-binaries.ts";
import { findListProblems, type ListFacts } from "./support/lists.ts";
import { readFiles, report, repositoryRoot } from "./support/repository.ts";

export async function readListFacts(): Promise<ListFacts> {
  const manifest = (path: string) =>
    JSON.parse(readFileSync(join(repositoryRoot, path), "utf8")) as {
      readonly scripts: Readonly<Record<string, string>>;
      readonly engines: { readonly node: string };
    };
  const lines: string[] = [];
  const print = (text: string) => lines.push(text);
  await run({ args: ["help"], env: {}, cwd: repositoryRoot, print, complain: print });
  return {
    // Decisions are history: their table is generated, and what they name may be gone.
    documents: readFiles(repositoryRoot, "{*,docs/*,docs/!(decisions)/*,packages/*/*,examples/*/*}.md"),
    scripts: Object.keys(manifest("package.json").scripts),
    commands: [...lines.join("\n").matchAll(/^ {2}([a-z-]+) /gm)].map(([, name = ""]) => name),
    threats: threats.map(({ threat }) => threat),
    engine: manifest("packages/latchkey/package.json").engines.node,
    postgresVersions: POSTGRES_VERSIONS.map(Number),
  };
}

if (import.meta.main)
  report("lists", findListProblems(await readListFacts()), "pages, commands, scripts, threats, versions");
