/** docs/proof.md from the ledger. */
import type { Coverage, PlantedResult, Tier, TierId } from "./harness/tier.ts";
import { liveness, safety } from "./invariants.ts";
import { type Finding, isComplete, type Ledger, type TierEntry } from "./ledger.ts";
import { tierIds } from "./options.ts";

export interface ReportParts {
  readonly ledger: Ledger;
  readonly tiers: Readonly<Partial<Record<TierId, Pick<Tier, "title" | "about">>>>;
  readonly findings: readonly Finding[];
  /** The digest of what the tier runs, as it is now. */
  readonly digestOf: (tier: TierId) => string;
}

export function renderReport({ ledger, tiers, findings, digestOf }: ReportParts): string {
  const known = tierIds.flatMap((id) => {
    const tier = tiers[id];
    return tier === undefined ? [] : [{ id, tier, entry: ledger.tiers[id] }];
  });
  return `${[
    head,
    summaryTable(known, digestOf),
    ...known.map(({ id, tier, entry }) => renderTier(id, tier, entry, digestOf(id))),
    renderPlanted(ledger.tiers.P7?.planted ?? []),
    renderFindings(findings),
    renderNotShown(ledger),
    renderInvariants(),
    `Machine: ${ledger.machine}`,
  ].join("\n\n")}\n`;
}

const head = `# Proof

<!-- Written by \`npm run prove\` from proof.json; do not edit. -->

What has been run against Latchkey to break it, how much of it, and what was not tested. \`npm run prove\` runs it and writes this page; \`npm run prove -- --tier P2 --minutes 60\` runs one tier for an hour and goes on where the last sitting ended. \`npm test\` runs a smaller bound of every tier. The invariants (I1 to I15, L1 to L5) are listed at the [end](#invariants).

Counts belong to one state of the code: a tier starts at zero when what it runs of the library changes. A row that was run on earlier code says so.`;

interface Known {
  readonly id: TierId;
  readonly tier: Pick<Tier, "title" | "about">;
  readonly entry: TierEntry | undefined;
}

function summaryTable(known: readonly Known[], digestOf: ReportParts["digestOf"]): string {
  const rows = known.map(({ id, tier, entry }) => {
    if (entry === undefined) return row([id, tier.title, "not run yet", "", ""]);
    const { sittings } = entry;
    const minutes = sittings.reduce((sum, sitting) => sum + sitting.minutes, 0);
    const dates = [...new Set(sittings.map(({ date }) => date.slice(0, 10)))].join(", ");
    const complete = isComplete(entry) ? "whole bound or volume" : "part of it";
    const code = entry.source.digest === digestOf(id) ? "this code" : "earlier code";
    return row([id, tier.title, `${complete}, ${code}`, number(Math.round(minutes * 10) / 10), dates]);
  });
  return ["## Summary", "", ...table(["Tier", "What", "Covered", "Minutes", "Run on"], rows)].join("\n");
}

function renderTier(
  id: TierId,
  { title, about }: Pick<Tier, "title" | "about">,
  entry: TierEntry | undefined,
  digest: string,
): string {
  const parts = [`## ${id}: ${title}`, about];
  if (entry === undefined) return [...parts, "Not run yet."].join("\n\n");
  const { source, sittings, reached, faults, versions, notRun, measured } = entry;
  parts.push(table(["What", "Bound", "Count", "Of"], entry.covered.map(coverageRow)).join("\n"));
  if (source.digest !== digest) {
    parts.push(`Run on earlier code (${source.commit?.slice(0, 10) ?? "no commit"}).`);
  }
  parts.push(...list("Reached", counts(reached)), ...list("Faults", counts(faults)));
  parts.push(
    ...list(
      "With",
      Object.entries(versions).map(([name, version]) => `${name} ${version}`),
    ),
  );
  parts.push(...list("Seeds", seedsOf(sittings)));
  if (measured.length > 0)
    parts.push(`Measured, not judged:\n\n${measured.map((one) => `- ${one}`).join("\n")}`);
  if (notRun.length > 0) {
    parts.push(`Not run:\n\n${notRun.map(({ what, reason }) => `- ${what}: ${reason}`).join("\n")}`);
  }
  return parts.join("\n\n");
}

function coverageRow({ what, bound, count, of, complete }: Coverage): string {
  const whole = of === "all" ? (complete ? "every one" : "not finished") : number(of);
  return row([what, bound, number(count), whole]);
}

/** Seeds of the last sittings: each can be run again. */
const seedsShown = 12;

function seedsOf(sittings: TierEntry["sittings"]): readonly string[] {
  const seeds = sittings.map(({ seed }) => seed);
  const more = seeds.length - seedsShown;
  return more > 0 ? [...seeds.slice(-seedsShown), `${more} earlier ones in proof.json`] : seeds;
}

function renderPlanted(planted: readonly PlantedResult[]): string {
  if (planted.length === 0) return "## Planted bugs\n\nNot run yet.";
  const tiers = tierIds.filter((id) => planted.some(({ found }) => found[id] !== undefined));
  const caught = planted.filter(({ found }) => Object.values(found).some((count) => count !== null));
  const rows = planted.map(({ name, recreates, found }) =>
    row([name, recreates ?? "", ...tiers.map((id) => foundBy(found[id]))]),
  );
  const about = `${caught.length} of ${planted.length} caught. A number says how many schedules, sequences or cycles it took; a dash, that this tier was asked and did not find it (it may be blind to it); an empty cell, that it was not asked.`;
  return ["## Planted bugs", "", about, "", ...table(["The mistake", "Known as", ...tiers], rows)].join("\n");
}

function foundBy(count: number | null | undefined): string {
  if (count === undefined) return "";
  return count === null ? "–" : number(count);
}

function renderFindings(findings: readonly Finding[]): string {
  const rows = findings.map(({ tier, what, test }) => row([tier, what, `\`${test}\``]));
  return ["## Found by this", "", ...table(["By", "What was wrong", "Now tested by"], rows)].join("\n");
}

function renderNotShown(ledger: Ledger): string {
  const all = tierIds.flatMap((id) => ledger.tiers[id]?.notShown.map((what) => `- ${id}: ${what}`) ?? []);
  const always = [
    "- Power loss: kill -9 leaves what the operating system has in its cache. Nothing here cuts power.",
    "- Network faults below TCP, and disks that lie about what they have written.",
    "- macOS and Windows.",
  ];
  return ["## Not tested", "", ...always, ...new Set(all)].join("\n");
}

function renderInvariants(): string {
  const lines = (letter: string, all: readonly string[]) =>
    all.map((one, index) => `- **${letter}${index + 1}** ${one}`);
  return [
    "## Invariants",
    "",
    ...lines("I", safety),
    "",
    "Once faults stop:",
    "",
    ...lines("L", liveness),
  ].join("\n");
}

function list(name: string, items: readonly string[]): readonly string[] {
  return items.length === 0 ? [] : [`${name}: ${items.join(", ")}.`];
}

function counts(of: Readonly<Record<string, number>>): readonly string[] {
  return Object.entries(of).map(([what, count]) => `${what} ${number(count)}`);
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}

function table(titles: readonly string[], rows: readonly string[]): readonly string[] {
  return [row(titles), row(titles.map(() => "---")), ...rows];
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}
