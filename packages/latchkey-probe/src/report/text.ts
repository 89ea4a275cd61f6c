import type { CheckReport, Exchange, Report, TargetReport } from "./report.ts";

const words = { passed: "ok", faulty: "FAULT", inconclusive: "unclear", skipped: "skipped" } as const;

/** For a terminal. Contains text from the server unchanged: the caller must make it printable. */
export function textReport(report: Report): string {
  const { summary, requests, profile } = report;
  return [
    ...report.targets.flatMap((target) => [...targetLines(target), ""]),
    ...report.leftOut.map(({ name, reason }) => `left out: ${name}: ${reason}`),
    ...(report.leftOut.length === 0 ? [] : [""]),
    `${count(summary.faults, "fault")} in ${count(summary.faulty, "check")}, ${summary.passed} passed, ${summary.inconclusive} unclear, ${summary.skipped} skipped; ${count(requests, "request")}, profile ${profile}`,
    ...(summary.unjudgedTargets === 0 ? [] : [`${count(summary.unjudgedTargets, "target")} not judged`]),
  ].join("\n");
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function targetLines({
  name,
  url,
  unjudged,
  toldApartBy,
  checks,
  exchanges,
}: TargetReport): readonly string[] {
  const distinction =
    toldApartBy.length === 0
      ? "  executions cannot be distinguished by their answers"
      : `  executions are distinguished by ${toldApartBy.join(", ")}`;
  return [
    `${name}  ${url}`,
    ...(unjudged === null ? [distinction] : []),
    ...checks.flatMap(checkLines),
    ...(unjudged === null ? [] : [`  not judged: ${unjudged}`, ...exchanges.map(exchangeLine)]),
  ];
}

function checkLines({
  name,
  verdict,
  reason,
  faults,
  ignored,
  notes,
  exchanges,
}: CheckReport): readonly string[] {
  const head = `  ${words[verdict].padEnd(8)} ${name}${reason === null ? "" : `: ${reason}`}`;
  return [
    head,
    ...faults.map(({ code, kind, title, message }) => `           ${code} (${kind}): ${title}: ${message}`),
    ...ignored.map(({ code, message }) => `           ignored ${code}: ${message}`),
    ...notes.map((note) => `           note: ${note}`),
    ...(faults.length === 0 ? [] : exchanges.slice(0, shownExchanges).map(exchangeLine)),
    ...(faults.length > 0 && exchanges.length > shownExchanges
      ? [`           … ${exchanges.length - shownExchanges} more in the JSON report`]
      : []),
  ];
}

const shownExchanges = 6;
const shownCharacters = 100;

function exchangeLine({ method, caller, key, cut, status, body, problem, headers }: Exchange): string {
  const who = caller === 2 ? " by the second caller" : "";
  const under =
    key.length === 0 ? "no key" : `key ${key.map((each) => (each === "" ? "(empty)" : each)).join(" and ")}`;
  const ended = cut === null ? (problem ?? "no answer") : "cut";
  const marked = headers.some(([name, value]) => name === "idempotent-replayed" && value === "true");
  const answer = status === null ? ended : `${status}${marked ? " (marked)" : ""} ${short(body)}`;
  return `           ${method}${who}, ${under} -> ${answer}`.trimEnd();
}

function short(text: string): string {
  const line = text.replace(/\s+/gu, " ");
  return line.length > shownCharacters ? `${line.slice(0, shownCharacters)}…` : line;
}
