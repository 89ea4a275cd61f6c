/**
 * Writes the documents that are generated from tables in the code, and the modules that are generated from files of SQL and
 * Lua; with `--check` reports which are out of date.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Edge, edges } from "../packages/latchkey/src/engine/edges.ts";
import { errorCodes } from "../packages/latchkey/src/errors.ts";
import { edgeEvents } from "../packages/latchkey/src/telemetry/edge-events.ts";
import { renderNeighbours } from "../test/neighbours/render.ts";
import { idempotencyBugs } from "../test/proof/known-bugs/idempotency-bugs.ts";
import { knownBugs } from "../test/proof/known-bugs/known-bugs.ts";
import { neighbourBugs } from "../test/proof/known-bugs/neighbour-bugs.ts";
import { peerBugs } from "../test/proof/known-bugs/peer-bugs.ts";
import { renderKnownBugs } from "../test/proof/known-bugs/render.ts";
import { pagePath, renderProofPage } from "../test/proof/page.ts";
import { renderThreats } from "../test/proof/threats/render.ts";
import { threats } from "../test/proof/threats/threats.ts";
import type { Framework } from "../test/registry/framework.ts";
import { frameworks } from "../test/registry/frameworks.ts";
import { renderDecisions } from "./support/decisions.ts";
import { renderEvents } from "./support/events.ts";
import { renderFloors } from "./support/floors.ts";
import { inlinedModules } from "./support/inlined.ts";
import { renderMigrations } from "./support/migrations.ts";
import {
  renderConsumerOptions,
  renderHttpOptions,
  renderInboxOptions,
  renderLatchkeyOptions,
} from "./support/option-tables.ts";
import {
  adapterSections,
  fixtureSections,
  indexSections,
  moduleSections,
  packageReadmeSections,
  readmeSections,
  transactionSections,
} from "./support/registered.ts";
import { type Problem, report, repositoryRoot } from "./support/repository.ts";
import {
  renderCaptured,
  renderMetrics,
  renderOptions,
  renderPolicies,
  renderProgram,
  renderStoredHeaders,
  renderTable,
  replaceSection,
} from "./support/sections.ts";

export interface ProblemType {
  readonly status: number;
  readonly title: string;
  readonly retryable: boolean;
  readonly safeNewKey: boolean;
  readonly detail: string;
}

export interface ErrorText {
  readonly summary: string;
  readonly remedy: string;
}

export interface GeneratedPage {
  /** Relative to the repository's root. */
  readonly path: string;
  readonly text: string;
}

const sourceFolder = "packages/latchkey/src";

/** The text of every generated page whose tables exist, and a line for each table that does not exist yet. */
export async function generatePages(): Promise<{
  pages: readonly GeneratedPage[];
  missing: readonly string[];
}> {
  const problemTypes = await loadProblemTypes();
  return {
    pages: [
      { path: "docs/state-machine.md", text: renderStateMachine(edges) },
      { path: "docs/errors.md", text: renderErrors(errorCodes, problemTypes ?? {}) },
      ...Object.entries(writtenPages).map(([path, sections]) => ({
        path,
        text: withSections(path, sections),
      })),
      ...inlinedModules(),
    ],
    missing: problemTypes ? [] : [`${sourceFolder}/http/protocol/problem-types.ts`],
  };
}

type Sections = Readonly<Record<string, () => string>>;

/** Documents written by hand, and the parts of them that are generated. */
const ofIdempotency = [...idempotencyBugs, ...peerBugs];

const writtenPages: Readonly<Record<string, Sections>> = {
  ...Object.fromEntries(frameworks.map((each) => [`docs/adapters/${each.name}.md`, capturedSections(each)])),
  "README.md": readmeSections,
  "packages/latchkey/README.md": packageReadmeSections,
  "docs/README.md": indexSections,
  "docs/adapters/README.md": { ...adapterSections, "stored headers": renderStoredHeaders },
  "docs/adapters/neighbours.md": { neighbours: renderNeighbours },
  "docs/architecture.md": { floors: () => renderFloors() },
  "docs/choosing-a-policy.md": {
    policies: renderPolicies,
    options: renderOptions,
    "options of createLatchkey": renderLatchkeyOptions,
  },
  "docs/decisions/README.md": { decisions: () => renderDecisions() },
  "docs/events.md": { events: renderEvents },
  "docs/http.md": { options: renderHttpOptions },
  "docs/known-bugs.md": {
    "known bugs": () => renderKnownBugs(knownBugs),
    "idempotency bugs": () => renderKnownBugs(ofIdempotency, knownBugs.length),
    "neighbour bugs": () => renderKnownBugs(neighbourBugs, knownBugs.length + ofIdempotency.length),
  },
  "docs/messages.md": { options: renderInboxOptions, "options of consumers": renderConsumerOptions },
  "docs/metrics.md": { metrics: renderMetrics },
  "docs/modules.md": moduleSections,
  "docs/transactions/README.md": transactionSections,
  ...recipePages({
    "five-states": ["service.ts"],
    "golden-path": ["app.ts", "routes.test.ts", "main.ts"],
    "recovery-points": ["service.ts"],
    "redis-in-front": ["service.ts", "shipping.ts", "bench.ts"],
    "uncertain-outcome": ["service.ts"],
  }),
  "docs/upgrading.md": { migrations: () => renderMigrations() },
  "test/fixture/README.md": fixtureSections,
  "docs/threat-model.md": { threats: () => renderThreats(threats) },
};

/** What an adapter captures, on the page of its framework. */
function capturedSections({ variants }: Framework): Sections {
  const described = Object.values(variants).flatMap(({ captured, section = "captured" }) =>
    captured === undefined ? [] : [[section, () => renderCaptured(captured)] as const],
  );
  return Object.fromEntries(described);
}

/** A page for each recipe, with its programs. */
function recipePages(
  programs: Readonly<Record<string, readonly string[]>>,
): Readonly<Record<string, Sections>> {
  const sectionsOf = (recipe: string, files: readonly string[]): Sections =>
    Object.fromEntries(
      files.map((file) => [file, () => renderProgram(`examples/recipes/${recipe}/${file}`)]),
    );
  return Object.fromEntries(
    Object.entries(programs).map(([recipe, files]) => [
      `docs/recipes/${recipe}.md`,
      sectionsOf(recipe, files),
    ]),
  );
}

function withSections(path: string, sections: Sections): string {
  const written = readFileSync(join(repositoryRoot, path), "utf8");
  return Object.entries(sections).reduce(
    (text, [name, render]) => replaceSection(text, name, render()),
    written,
  );
}

async function loadProblemTypes(): Promise<Readonly<Record<string, ProblemType>> | undefined> {
  const path = join(repositoryRoot, sourceFolder, "http/protocol/problem-types.ts");
  if (!existsSync(path)) return undefined;
  const module: { problemTypes?: Readonly<Record<string, ProblemType>> } = await import(
    pathToFileURL(path).href
  );
  if (!module.problemTypes) throw new TypeError(`${path} does not export problemTypes`);
  return module.problemTypes;
}

/** The state machine as a diagram and a table. */
export function renderStateMachine(table: readonly Edge[]): string {
  const node = (state: string): string => (state === "none" ? "[*]" : state);
  const cell = (state: string): string => (state === "none" ? "(none)" : `\`${state}\``);
  return page(
    "State machine of a record",
    `${sourceFolder}/engine/edges.ts`,
    "How a record moves from one state to another: these edges and no others. The [glossary](glossary.md#states-of-a-record) " +
      "says what each state means. `(none)`, drawn as a dot, is the absence of a record: no row, or a row that admission " +
      "treats as forgotten. The last column names the [event](events.md) that `onEvent` gets.",
    "One thing is outside the table: [deleting a tenant](data.md#deleting-a-tenant) removes that tenant's records in " +
      "any state, unless their work is still under way.",
    [
      "```mermaid",
      "stateDiagram-v2",
      ...table.map(({ from, to, event }) => `  ${node(from)} --> ${node(to)}: ${event}`),
      "```",
    ].join("\n"),
    renderTable(
      ["From", "Event", "Who", "To", "When", "Reported as"],
      table.map(({ from, event, by, to, note }) => [
        cell(from),
        `\`${event}\``,
        by.join(", "),
        cell(to),
        note ?? "",
        reportedAs(`${from} ${event}`),
      ]),
    ),
  );
}

/** The event of `onEvent`, in code. */
function reportedAs(edge: string): string {
  const event = Object.entries(edgeEvents).find(([name]) => name === edge)?.[1];
  return event === undefined ? "" : `\`${event}\``;
}

/** Pages with more about an error. The remedy itself is also in the error's message, where a link would lead nowhere. */
const moreOf: Readonly<Record<string, string>> = {
  "store-unsuitable": "See [Database settings](database-settings.md), for Redis [Stores](stores.md#redis).",
};

/** Problem types (HTTP answers), then the codes of thrown errors. */
export function renderErrors(
  codes: Readonly<Record<string, ErrorText>>,
  problems: Readonly<Record<string, ProblemType>>,
): string {
  return page(
    "Problems and errors",
    `${sourceFolder}/http/protocol/problem-types.ts and ${sourceFolder}/errors.ts`,
    "What each code means and what to do about it. A *problem* is an HTTP answer that a client gets from Latchkey " +
      "instead of from the handler (`application/problem+json`, RFC 9457). An *error* is thrown in the service's own " +
      "code. Codes never change between minor versions; messages, titles and details may.",
    "## Problems",
    ...Object.entries(problems).map(([code, problem]) => renderProblem(code, problem)),
    "## Errors",
    renderTable(
      ["Code", "What it means", "What to do"],
      Object.entries(codes).map(([code, { summary, remedy }]) => [
        `\`${code}\``,
        summary,
        [remedy, moreOf[code]].filter((text) => text !== undefined).join(" "),
      ]),
    ),
  );
}

function renderProblem(code: string, { status, title, retryable, safeNewKey, detail }: ProblemType): string {
  const answer = (yes: boolean): string => (yes ? "yes" : "**no**");
  return [
    `### ${code}`,
    `Status ${status}. ${title}.`.replace(/\.\.$/, "."),
    detail,
    `- Retry with the same key (\`retryable\`): ${answer(retryable)}\n` +
      `- Use a new key (\`safe_new_key\`): ${answer(safeNewKey)}`,
  ].join("\n\n");
}

function page(title: string, source: string, ...blocks: readonly string[]): string {
  const origin = `<!-- Generated from ${source} by \`npm run docs:generate\`. Do not edit. -->`;
  return `${[origin, `# ${title}`, ...blocks].join("\n\n")}\n`;
}

/** The pages that differ from what the code generates now. */
export function findStalePages(pages: readonly GeneratedPage[]): readonly Problem[] {
  return pages
    .filter(({ path, text }) => {
      const file = join(repositoryRoot, path);
      return !existsSync(file) || readFileSync(file, "utf8") !== text;
    })
    .map(({ path }) => ({
      where: path,
      message: "is out of date: run `npm run docs:generate` and commit it",
    }));
}

if (import.meta.main) {
  const { pages, missing } = await generatePages();
  for (const source of missing)
    console.log(`generated docs: ${source} does not exist yet; its part is left out`);
  if (process.argv.includes("--check")) {
    report("generated docs", findStalePages(pages), pages.map(({ path }) => path).join(", "));
  } else {
    const all = [...pages, { path: pagePath, text: renderProofPage(repositoryRoot) }];
    for (const { path, text } of all) writeFileSync(join(repositoryRoot, path), text);
    console.log(`generated docs: wrote ${all.map(({ path }) => path).join(", ")}`);
  }
}
