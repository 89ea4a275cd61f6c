/**
 * Writes docs/checklist.md: each threat and the results of the tests that show its control.
 * `npm test -- --reporter=json --outputFile=results.json`, then `npm run checklist -- results.json`.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { type ShownBy, type Threat, threats } from "../test/proof/threats/threats.ts";
import { repositoryRoot } from "./support/repository.ts";

/** One test, as Vitest's JSON reporter has it. */
export interface RanTest {
  readonly file: string;
  readonly name: string;
  readonly outcome: "passed" | "failed" | "not run";
}

export interface RunFacts {
  readonly date: string;
  readonly commit: string;
  readonly node: string;
}

/** Cases of an exported suite run under their names in the files of those who use it. */
const isCase = (file: string) => !file.endsWith(".test.ts");

export function testsOf({ file, title }: ShownBy, ran: readonly RanTest[]): readonly RanTest[] {
  // What is filled into a title when it runs is not in it here.
  const fixed = title.split(/%s|\$\{/u)[0] ?? title;
  return ran.filter((one) => (isCase(file) || one.file === file) && one.name.includes(fixed));
}

export function renderChecklist(
  all: readonly Threat[],
  ran: readonly RanTest[],
  { date, commit, node }: RunFacts,
): string {
  const lines = all.map(({ threat, shownBy }) => {
    const tests = [...new Set(shownBy.flatMap((one) => testsOf(one, ran)))];
    const passed = tests.filter(({ outcome }) => outcome === "passed").length;
    const isShown = passed === tests.length && shownBy.every((one) => testsOf(one, ran).length > 0);
    return `- [${isShown ? "x" : " "}] ${threat}: ${passed} of ${tests.length} tests passed`;
  });
  const others = ran.filter(({ outcome }) => outcome !== "passed");
  const named = others.map(({ outcome, name, file }) => `- ${outcome}: "${name}" (\`${file}\`)`).sort();
  const remark = others.length === 0 ? "" : `, [the others](#tests-that-did-not-pass) did not`;
  const list = others.length === 0 ? "" : `\n## Tests that did not pass\n\n${named.join("\n")}\n`;
  return `# Checklist

<!-- Written by \`npm run checklist\` from the results of a test run; do not edit. -->

Results of the tests behind the [threat model](threat-model.md), to print and to sign: run on ${date.slice(0, 10)}, at commit ${commit.slice(0, 10)}, Node ${node}. In the whole run ${(ran.length - others.length).toLocaleString("en-US")} of ${ran.length.toLocaleString("en-US")} tests passed${remark}.

${lines.join("\n")}

Checked by: ____________________   Date: ____________
${list}`;
}

interface Results {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

export function ranTests({ testResults }: Results, root: string): readonly RanTest[] {
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.map(({ fullName, status }) => ({
      file: relative(root, name),
      name: fullName,
      outcome: status === "passed" || status === "failed" ? status : "not run",
    })),
  );
}

if (import.meta.main) {
  const [path] = process.argv.slice(2);
  if (path === undefined) throw new TypeError("npm run checklist -- <results of vitest's json reporter>");
  const ran = ranTests(JSON.parse(readFileSync(path, "utf8")) as Results, repositoryRoot);
  const commit = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
  const facts = { date: new Date().toISOString(), commit, node: process.versions.node };
  writeFileSync(join(repositoryRoot, "docs/checklist.md"), renderChecklist(threats, ran, facts));
}
