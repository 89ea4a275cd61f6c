/** The command as an operator types it, against a server of the test's. */
import { setImmediate as turn } from "node:timers/promises";
import type { ExitCode } from "../../packages/latchkey-probe/src/exit-code.ts";
import { processTiming, type Timing } from "../../packages/latchkey-probe/src/ports.ts";
import type { CheckReport, Report } from "../../packages/latchkey-probe/src/report/report.ts";
import { run } from "../../packages/latchkey-probe/src/run.ts";

export interface Ran {
  readonly code: ExitCode;
  readonly out: string;
  readonly err: string;
}

/** Pauses take some turns of the event loop: more than a handler of the test's server. Limits of requests stay real. */
function quickTiming(): Timing {
  let skippedMs = 0;
  return {
    ...processTiming,
    now: () => processTiming.now() + skippedMs,
    async wait(milliseconds) {
      skippedMs += milliseconds;
      for (let turns = 0; turns < 400; turns++) await turn();
    },
  };
}

export async function runCommand(args: readonly string[], cwd = process.cwd()): Promise<Ran> {
  const out: string[] = [];
  const err: string[] = [];
  const print = (text: string) => out.push(text);
  const complain = (text: string) => err.push(text);
  const code = await run({ args, cwd, timing: quickTiming(), print, complain });
  return { code, out: out.join("\n"), err: err.join("\n") };
}

const body = ["--body", '{"amount":1}'];
/** By `Authorization`, or by the header that the server goes by. */
const callers = ["--header", "Authorization: Bearer one", "--other-header", "Authorization: Bearer two"];
const asJson = ["--format", "json"];

/** Everything that the probe checks: two callers, two routes. `{url}` in `args` is the server's. */
function wholeArguments(url: string, args: readonly string[]): readonly string[] {
  return [
    `${url}/orders`,
    `${url}/refunds`,
    ...body,
    ...callers,
    ...asJson,
    "--max-requests",
    "2000",
    ...args.map((arg) => arg.replace("{url}", url)),
  ];
}

export async function probeWhole(url: string, args: readonly string[]): Promise<Report & { code: ExitCode }> {
  const ran = await runCommand(wholeArguments(url, args));
  if (ran.out === "") throw new Error(ran.err);
  return { ...(JSON.parse(ran.out) as Report), code: ran.code };
}

/** One route, two callers. */
export async function probeOne(url: string, args: readonly string[]): Promise<Report & { code: ExitCode }> {
  const ran = await runCommand([url, ...body, ...callers, ...asJson, ...args]);
  if (ran.out === "") throw new Error(ran.err);
  return { ...(JSON.parse(ran.out) as Report), code: ran.code };
}

/** The faults of all targets, each once, sorted. */
export function faultsOf({ targets }: Report): readonly string[] {
  const found = targets.flatMap(({ checks }) =>
    checks.flatMap(({ faults }) => faults.map(({ code }) => code)),
  );
  return [...new Set(found)].sort();
}

export function checksWith(report: Report, verdict: CheckReport["verdict"]): readonly string[] {
  return report.targets.flatMap(({ checks }) =>
    checks.filter((check) => check.verdict === verdict).map(({ name, reason }) => `${name}: ${reason ?? ""}`),
  );
}
