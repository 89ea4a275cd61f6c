import { readdirSync, readFileSync } from "node:fs";

/** Linux counts in hundredths of a second. */
const tickMicros = 10_000;

/**
 * CPU time in µs that the processes of a Postgres server have used so far, including ended ones; null if Linux' /proc is
 * missing.
 */
export function databaseCpuMicros(postmaster: number): number | null {
  try {
    const children = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => readTimes(name))
      .filter(({ parent, pid }) => parent === postmaster || pid === postmaster);
    return (
      children.reduce((sum, { own, ended, pid }) => sum + own + (pid === postmaster ? ended : 0), 0) *
      tickMicros
    );
  } catch {
    return null;
  }
}

function readTimes(name: string): { pid: number; parent: number; own: number; ended: number }[] {
  try {
    const text = readFileSync(`/proc/${name}/stat`, "utf8");
    // The second field, the program's name in parentheses, may contain spaces.
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    const [, parent = 0] = fields;
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15);
    return [{ pid: Number(name), parent, own: user + system, ended: endedUser + endedSystem }];
  } catch {
    return [];
  }
}
