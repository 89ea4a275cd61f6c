/** The command: reads the command line, prints what will be sent, probes, reports. */
import { writeFileSync } from "node:fs";
import { type Invocation, parseInvocation, UsageError } from "./arguments.ts";
import { type ExitCode, exitCodeOf } from "./exit-code.ts";
import { helpText } from "./help.ts";
import { planLine, planOf, planText } from "./plan.ts";
import { processTiming, type Timing } from "./ports.ts";
import { printable } from "./printable.ts";
import { runProbe } from "./probe.ts";
import { htmlReport } from "./report/html.ts";
import { junitReport } from "./report/junit.ts";
import type { Report } from "./report/report.ts";
import { textReport } from "./report/text.ts";
import { ownVersion } from "./version.ts";

export interface CommandContext {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
  /** Default: the process's own. */
  readonly timing?: Timing;
}

/** Never throws because of input, files or servers. */
export async function run({
  args,
  cwd,
  timing = processTiming,
  ...output
}: CommandContext): Promise<ExitCode> {
  const print = (text: string) => output.print(printable(text));
  const complain = (text: string) => output.complain(printable(text));
  if (args.includes("--version")) {
    print(ownVersion());
    return 0;
  }
  if (args.length === 0 || args.includes("--help") || args.includes("-h")) {
    print(helpText());
    return args.length === 0 ? 2 : 0;
  }
  try {
    return await carryOut(await parseInvocation(args, cwd, timing), print, complain);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    complain(`${error.message}\nlatchkey-probe --help lists the options.`);
    return 2;
  }
}

async function carryOut(
  invocation: Invocation,
  print: (text: string) => void,
  complain: (text: string) => void,
): Promise<ExitCode> {
  const { settings, dryRun, format } = invocation;
  const plan = planOf(settings);
  if (dryRun) {
    print(planText(plan, settings));
    return 0;
  }
  if (plan.requestsMax > settings.requestsMax) {
    throw new UsageError(
      `This may send ${plan.requestsMax} requests, and --max-requests is ${settings.requestsMax}: raise it, or select checks with --check.`,
    );
  }
  complain(`${planLine(plan, settings)}.`);
  const report = await runProbe(settings);
  print(format === "json" ? jsonReport(report) : textReport(report));
  writeReports(invocation, report);
  return exitCodeOf(report);
}

function jsonReport(report: Report): string {
  return printable(JSON.stringify(report, null, 2));
}

const renderers = { json: jsonReport, junit: junitReport, html: htmlReport } as const;

function writeReports({ files }: Invocation, report: Report): void {
  for (const format of ["json", "junit", "html"] as const) {
    const path = files[format];
    if (path !== null) writeFileSync(path, `${renderers[format](report)}\n`);
  }
}
