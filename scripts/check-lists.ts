/** Checks that lists in written documents and in `test/registry/` are those of the code. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../packages/latchkey/src/cli/run.ts";
import { threats } from "../test/proof/threats/threats.ts";
import { clients } from "../test/registry/clients.ts";
import { frameworks } from "../test/registry/frameworks.ts";
import { stores } from "../test/registry/stores.ts";
import { POSTGRES_VERSIONS } from "../test/support/postgres-binaries.ts";
import { findListProblems, type ListFacts } from "./support/lists.ts";
import { findRegistryProblems, type RegistryFacts } from "./support/registry.ts";
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

/** What each entry of the registry must have where no loop over the registry reaches. */
export function readRegistryFacts(): RegistryFacts {
  const read = (path: string) => readFileSync(join(repositoryRoot, path), "utf8");
  const { exports }: { exports: Readonly<Record<string, Readonly<Record<string, string>>>> } = JSON.parse(
    read("packages/latchkey/package.json"),
  );
  const documents = (path: string) => new Map([[path, read(path)]]);
  const inFolder = (family: string, name: string, files: readonly string[]) =>
    files.map((file) => `test/registry/${family}/${name}/${file}.ts`);
  return {
    files: new Set(readFiles(repositoryRoot, "{test/registry/*/*/*.ts,docs/*/*.md,examples/*/*.ts}").keys()),
    sources: new Map(
      Object.entries(exports).map(([name, row]) => [name.replace("./", ""), row["latchkey-source"] ?? ""]),
    ),
    families: [
      {
        name: "frameworks",
        sources: /^\.\/src\/http\/(?!openapi\/)/u,
        documents: new Map(),
        entries: frameworks.map(({ name }) => ({
          name,
          files: [
            `docs/adapters/${name}.md`,
            ...inFolder("frameworks", name, [
              name,
              "suite",
              "fixture",
              "documented",
              "services",
              "neighbours",
            ]),
          ],
        })),
      },
      {
        name: "clients",
        sources: /^\.\/src\/sql\//u,
        documents: new Map(),
        entries: clients.map(({ name, bridge }) => ({
          name,
          files: [
            `docs/transactions/${name}.md`,
            `examples/transactions/${name}.ts`,
            ...inFolder("clients", name, bridge === undefined ? [name] : [name, "ways"]),
          ],
        })),
      },
      {
        name: "stores",
        sources: /^\.\/src\/stores\/(?!archive\.ts)/u,
        documents: documents("docs/stores.md"),
        entries: stores.map(({ name }) => ({ name, files: inFolder("stores", name, [name, "fixture"]) })),
      },
    ],
  };
}

if (import.meta.main) {
  const problems = [...findListProblems(await readListFacts()), ...findRegistryProblems(readRegistryFacts())];
  report("lists", problems, "pages, commands, scripts, threats, versions, the registry");
}
