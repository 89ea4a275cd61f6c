/** docs/proof.md, from the ledger and from the code as it is now. */
import type { Description } from "./descriptions.ts";
import type { TierId } from "./harness/tier.ts";
import { liveness, safety } from "./invariants.ts";
import { entryOn, type Finding, type Ledger, type TierEntry } from "./ledger.ts";
import { tierIds } from "./options.ts";
import { coverageTable, earlierText, number, short, type Today, table, todayText } from "./report-rows.ts";

export interface ReportParts {
  readonly ledger: Ledger;
  readonly descriptions: Readonly<Record<TierId, Description>>;
  readonly findings: readonly Finding[];
  today(tier: TierId): Today;
}

export function renderReport({ ledger, descriptions, findings, today }: ReportParts): string {
  const known = tierIds.map((id) => ({
    id,
    description: descriptions[id],
    entries: ledger.tiers[id] ?? [],
    today: today(id),
  }));
  return `${[
    head,
    renderSummary(known, ledger.tiers.P7 ?? []),
    ...known.map(renderTier),
    renderPlanted(ledger.tiers.P7 ?? []),
    renderFindings(findings),
    renderNotShown(descriptions),
    renderInvariants(),
    `Machine: ${ledger.machine}`,
  ].join("\n\n")}\n`;
}

const head = `# Proof

<!-- Written by \`npm run docs:generate\` from proof.json and today's code; do not edit. -->

What has been run to break Latchkey, how much of it, on which code, and what was not tested.`;

const reading = `A row is **whole** when its bound is exhausted or its volume reached; "not yet" means that nothing has been collected on this code. Evidence belongs to the code on which it was collected: both the part of the library that the tier loads and the tier's own harness, without comments, types, layout and file names. Evidence of earlier code stays here with its commit and with the number of lines that have since been added to and removed from that part of the library. [proof.json](proof.json) has all counts and seeds.

\`npm test\` runs small bounds of every tier. \`npm run prove\` runs the volumes on this page; \`npm run prove -- --tier P2 --minutes 60\` runs one tier for an hour and continues where the last run on the same code stopped.`;

const always = [
  "Power loss. kill -9 keeps what the operating system has in its cache, and nothing here cuts the power.",
  "Network faults below TCP, and disks that report writes they have not made.",
  "macOS and Windows.",
];

interface Known {
  readonly id: TierId;
  readonly description: Description;
  readonly entries: readonly TierEntry[];
  readonly today: Today;
}

function renderSummary(known: readonly Known[], planting: readonly TierEntry[]): string {
  const rows = known.map(({ id, description: { title, question }, entries, today }) => [
    `[${id}](#${anchorOf(`${id}: ${title}`)})`,
    question,
    todayText(entries, today),
    earlierText(entries, today),
  ]);
  const bugs = plantedRows(planting);
  return [
    "## In short",
    table(["Tier", "Question", "Today's code", "Earlier code"], rows),
    `No run that is listed here ended with a lost, repeated or altered result; what earlier runs found is [fixed](#found-by-this). ${bugs.filter(isCaught).length} of ${bugs.length} [planted bugs](#planted-bugs) were caught.`,
    `Not shown by any of this (the [full list](#not-tested)):\n\n${bullets(always)}`,
    reading,
  ].join("\n\n");
}

function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^a-z0-9 -]/g, "")
    .replaceAll(" ", "-");
}

function renderTier({ id, description, entries, today }: Known): string {
  const { title, about, group } = description;
  const parts = [`## ${id}: ${title}`, about];
  const newest = entryOn(entries, today.code) ?? entries.at(-1);
  if (newest === undefined) return [...parts, "Not run yet."].join("\n\n");
  parts.push(coverageTable(entries, today, group), facts(newest));
  if (newest.measured.length > 0) parts.push(`Measured, not judged:\n\n${bullets(newest.measured)}`);
  if (newest.notRun.length > 0) {
    parts.push(`Not run:\n\n${bullets(newest.notRun.map(({ what, reason }) => `${what}: ${reason}`))}`);
  }
  return parts.join("\n\n");
}

/** Seeds of the last sittings: each can be run again. */
const seedsShown = 3;

function facts({ source, sittings, reached, faults, versions, planted }: TierEntry): string {
  const minutes = sittings.reduce((sum, sitting) => sum + sitting.minutes, 0);
  const dates = [...new Set(sittings.map(({ date }) => date.slice(0, 10)))].join(", ");
  const seeds = sittings.slice(-seedsShown).map(({ seed }) => seed);
  const withs = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const met = Object.entries(reached).filter(([, count]) => count > 0);
  const missed = Object.entries(reached).flatMap(([what, count]) => (count > 0 ? [] : [what]));
  const rarest = met.toSorted(([, one], [, other]) => one - other)[0];
  return bullets([
    `Last run at ${short(source.commit)}: ${dates}, ${number(Math.round(minutes * 10) / 10)} minutes in all, seeds ${seeds.join(", ")}.`,
    ...(withs.length > 0 ? [`With ${withs.join(", ")}.`] : []),
    ...(rarest === undefined
      ? []
      : [
          `Reached: ${kindsOf(Object.fromEntries(met), "situations")}; the rarest ("${rarest[0]}") ${number(rarest[1])} times.`,
        ]),
    ...(missed.length > 0 ? [`Not reached: ${missed.map((what) => `"${what}"`).join(", ")}.`] : []),
    ...(Object.keys(faults).length > 0 ? [`Faults: ${kindsOf(faults, "kinds")}.`] : []),
    ...(planted.length > 0 ? [`Mistakes planted for this tier: ${caughtText(planted)}.`] : []),
  ]);
}

function kindsOf(counts: Readonly<Record<string, number>>, kinds: string): string {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return `${number(total)} in ${Object.keys(counts).length} ${kinds}`;
}

type Planted = TierEntry["planted"][number];

function isCaught({ found }: Planted): boolean {
  return Object.values(found).some((count) => count !== null);
}

function caughtText(planted: readonly Planted[]): string {
  return `${planted.filter(isCaught).length} of ${planted.length} caught`;
}

/** The newest result for each. */
function plantedRows(entries: readonly TierEntry[]): readonly Planted[] {
  return [...new Map(entries.flatMap(({ planted }) => planted).map((one) => [one.name, one])).values()];
}

function renderPlanted(entries: readonly TierEntry[]): string {
  const planted = plantedRows(entries);
  if (planted.length === 0) return "## Planted bugs\n\nNot run yet.";
  const tiers = tierIds.filter((id) => planted.some(({ found }) => found[id] !== undefined));
  const rows = planted.map(({ name, recreates, found, commit }) => [
    name,
    recreates ?? "",
    ...tiers.map((id) => foundBy(found[id])),
    short(commit),
  ]);
  const about = `${caughtText(planted)}. A number is how many schedules, sequences or cycles it took. A dash means that the tier ran and did not find it, which may be a blind spot of that tier. An empty cell means that the tier was not run on it.`;
  return ["## Planted bugs", about, table(["The mistake", "Known as", ...tiers, "At"], rows)].join("\n\n");
}

function foundBy(count: number | null | undefined): string {
  if (count === undefined) return "";
  return count === null ? "–" : number(count);
}

function renderFindings(findings: readonly Finding[]): string {
  const rows = findings.map(({ tier, what, test }) => [tier, what, `\`${test}\``]);
  return ["## Found by this", table(["By", "What was wrong", "Now tested by"], rows)].join("\n\n");
}

function renderNotShown(descriptions: ReportParts["descriptions"]): string {
  const all = tierIds.flatMap((id) => descriptions[id].notShown.map((what) => `${id}: ${what}`));
  return ["## Not tested", bullets([...always, ...all])].join("\n\n");
}

function renderInvariants(): string {
  const lines = (letter: string, all: readonly string[]) =>
    bullets(all.map((one, index) => `**${letter}${index + 1}** ${one}`));
  return ["## Invariants", lines("I", safety), "Once faults stop:", lines("L", liveness)].join("\n\n");
}

function bullets(lines: readonly string[]): string {
  return lines.map((line) => `- ${line}`).join("\n");
}
