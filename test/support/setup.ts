import { appendFileSync, readFileSync } from "node:fs";
import { afterAll, expect } from "vitest";
import { releaseAll } from "./resources.ts";

afterAll(releaseAll);

const cpuLog = process.env.LATCHKEY_TEST_CPU;
if (cpuLog) logCpu(cpuLog);

/** Appends a line for this test file: seconds of CPU, seconds of wall time, name. */
function logCpu(log: string): void {
  const [cpuBefore, wallBefore] = [cpuSeconds(), performance.now() / 1_000];
  afterAll(() => {
    const [cpu, wall] = [cpuSeconds() - cpuBefore, performance.now() / 1_000 - wallBefore];
    appendFileSync(log, `${cpu.toFixed(2)}\t${wall.toFixed(2)}\t${expect.getState().testPath}\n`);
  });
}

/** Of this process and the children that it has waited for: fields 14 to 17 of proc_pid_stat(5), in hundredths. */
function cpuSeconds(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field) / 100, 0);
}
