import { printable } from "../printable.ts";
import type { CheckReport, Report, TargetReport } from "./report.ts";

/** For continuous integration: one suite per target, one case per check. */
export function junitReport(report: Report): string {
  const { targets, summary, durationMs } = report;
  const cases = targets.flatMap(({ checks }) => checks);
  const head = attributes({
    name: `latchkey-probe, profile ${report.profile}`,
    tests: cases.length + targets.length,
    failures: summary.faulty,
    errors: summary.unjudgedTargets,
    skipped: summary.skipped + summary.inconclusive,
    time: durationMs / 1_000,
    timestamp: report.startedAt,
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${head}>`,
    ...targets.map(suite),
    "</testsuites>",
  ].join("\n");
}

function suite(target: TargetReport): string {
  const { name, url, checks, unjudged } = target;
  const having = (...verdicts: readonly string[]) =>
    checks.filter(({ verdict }) => verdicts.includes(verdict)).length;
  const head = attributes({
    name: `${name} ${url}`,
    tests: checks.length + 1,
    failures: having("faulty"),
    errors: unjudged === null ? 0 : 1,
    skipped: having("skipped", "inconclusive"),
  });
  return [
    `<testsuite${head}>`,
    baselineCase(target),
    ...checks.map((check) => checkCase(target, check)),
    "</testsuite>",
  ].join("\n");
}

function baselineCase({ name, unjudged }: TargetReport): string {
  const head = attributes({ classname: name, name: "baseline" });
  if (unjudged === null) return `<testcase${head}/>`;
  return `<testcase${head}><error${attributes({ message: unjudged })}/></testcase>`;
}

function checkCase(
  { name: target }: TargetReport,
  { name, verdict, reason, faults, exchanges }: CheckReport,
): string {
  const head = attributes({ classname: target, name });
  if (verdict === "passed") return `<testcase${head}/>`;
  const message = `${verdict === "inconclusive" ? "unclear: " : ""}${reason ?? ""}`;
  if (verdict !== "faulty") return `<testcase${head}><skipped${attributes({ message })}/></testcase>`;
  const [first] = faults;
  const detail = [
    ...faults.map(({ code, kind, title, message: text }) => `${code} (${kind}): ${title}: ${text}`),
    "",
    ...exchanges.map((exchange) => JSON.stringify(exchange)),
  ].join("\n");
  const failure = attributes({
    type: first?.code ?? "",
    message: faults.map(({ title }) => title).join("; "),
  });
  return `<testcase${head}><failure${failure}>${xml(detail)}</failure></testcase>`;
}

function attributes(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${xml(String(value))}"`)
    .join("");
}

/** XML cannot represent most control characters. */
function xml(text: string): string {
  return printable(text)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replace(/[\uFFFE\uFFFF]/gu, "?");
}
