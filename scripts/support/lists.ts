/** Lists in written documents that must name everything of one kind. */
import type { Problem } from "./repository.ts";

export interface ListFacts {
  /** Texts of all written documents by path. */
  readonly documents: ReadonlyMap<string, string>;
  /** Names of the scripts of the repository's package.json. */
  readonly scripts: readonly string[];
  /** Names of the command line's commands. */
  readonly commands: readonly string[];
  readonly threats: readonly string[];
  /** `engines.node` of the published package. */
  readonly engine: string;
  /** Major versions of Postgres that the tests run on. */
  readonly postgresVersions: readonly number[];
}

/** Where documents name what is not there, or leave out what is. */
export function findListProblems(facts: ListFacts): readonly Problem[] {
  const { documents, commands, threats } = facts;
  const index = documents.get("docs/README.md") ?? "";
  const pages = [...documents.keys()].filter((path) => path.startsWith("docs/") && path !== "docs/README.md");
  const links = (text: string, path: string) => text.includes(`](${path.replace("docs/", "")}`);
  return [
    ...pages
      .filter((path) => !links(index, path))
      .map((path) => ({ where: "docs/README.md", message: `has no link to ${path}` })),
    ...compared(
      "docs/cli.md",
      rowsOf(documents, "docs/cli.md", /^\| `latchkey ([a-z-]+)` \|/gm),
      commands,
      "command",
    ),
    ...compared(
      "docs/checklist.md",
      rowsOf(documents, "docs/checklist.md", /^- \[.\] (.+): \d+ of \d+ tests/gm),
      threats,
      "threat",
    ),
    ...scriptProblems(facts),
    ...versionProblems(facts),
  ];
}

function rowsOf(documents: ListFacts["documents"], path: string, pattern: RegExp): readonly string[] {
  return [...(documents.get(path) ?? "").matchAll(pattern)].map(([, name = ""]) => name);
}

function compared(
  where: string,
  written: readonly string[],
  real: readonly string[],
  kind: string,
): readonly Problem[] {
  return [
    ...real
      .filter((one) => !written.includes(one))
      .map((one) => ({ where, message: `leaves out the ${kind} "${one}"` })),
    ...written
      .filter((one) => !real.includes(one))
      .map((one) => ({ where, message: `names the ${kind} "${one}", which does not exist` })),
  ];
}

/** `npm run <script>` in any document, workspaces (`-w`) left out, and the checks in CONTRIBUTING.md. */
function scriptProblems({ documents, scripts }: ListFacts): readonly Problem[] {
  const contributing = documents.get("CONTRIBUTING.md") ?? "";
  const named = [...documents].flatMap(([where, text]) =>
    [...text.matchAll(/`npm run ([a-z][a-z:-]*)(?![a-z:-]| -w)/g)].map(([, script = ""]) => ({
      where,
      script,
    })),
  );
  return [
    ...named
      .filter(({ script }) => !scripts.includes(script))
      .map(({ where, script }) => ({
        where,
        message: `names npm run ${script}, which package.json does not have`,
      })),
    ...scripts
      .filter((script) => script.startsWith("check:") && !contributing.includes(script))
      .map((script) => ({ where: "CONTRIBUTING.md", message: `leaves out npm run ${script}` })),
  ];
}

function versionProblems({ documents, engine, postgresVersions }: ListFacts): readonly Problem[] {
  const where = "docs/upgrading.md";
  const text = documents.get(where) ?? "";
  const node = `Node ${engine.replace(">=", "")} or newer`;
  const postgres = `Postgres ${Math.min(...postgresVersions)} to ${Math.max(...postgresVersions)}`;
  return [node, postgres]
    .filter((words) => !text.includes(words))
    .map((words) => ({ where, message: `does not say "${words}"` }));
}
