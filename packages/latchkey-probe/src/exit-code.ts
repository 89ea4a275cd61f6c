import type { Report } from "./report/report.ts";

/** 0: no fault. 1: faults. 2: the command line is wrong. 3: a target could not be reached, or refuses the plain request. */
export type ExitCode = 0 | 1 | 2 | 3;

export function exitCodeOf({ summary }: Report): ExitCode {
  if (summary.faults > 0) return 1;
  return summary.unjudgedTargets > 0 ? 3 : 0;
}
