import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { until } from "./until.ts";

/** A process id with the time it started, because ids are used again (32 768 of them on a default Linux). */
export interface ProcessIdentity {
  readonly pid: number;
  /** Start time in the kernel's clock ticks; empty where the system does not tell. */
  readonly started: string;
}

interface ProcessStat {
  readonly state: string;
  readonly parent: number;
  readonly started: string;
}

/** An immediate shutdown of Postgres takes 10 ms here; a machine under load may need a hundred times that. */
const POLITE_TIMEOUT_MS = 3_000;

const linux = process.platform === "linux";

/** One line of /proc/<pid>/stat. The name in parentheses may itself hold spaces and parentheses. */
function linuxStat(pid: number): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", parent: Number(fields[1]), started: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}

function processTable(): Array<{ pid: number; parent: number }> {
  if (linux) {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map((name) => ({ pid: Number(name), parent: linuxStat(Number(name))?.parent ?? 0 }));
  }
  const rows = execFileSync("ps", ["-axo", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  return rows.map((row) => {
    const [pid, parent] = row.trim().split(/\s+/).map(Number);
    return { pid: pid ?? 0, parent: parent ?? 0 };
  });
}

export function identify(pid: number): ProcessIdentity {
  return { pid, started: linuxStat(pid)?.started ?? "" };
}

/** The state letter of a process ("R", "S", "T", …); a dead but not yet reaped one counts as gone. */
export function processState(pid: number): string | undefined {
  if (linux) {
    const state = linuxStat(pid)?.state;
    return state === "Z" || state === "X" ? undefined : state;
  }
  try {
    const state = execFileSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" }).trim()[0];
    return state === "Z" ? undefined : state;
  } catch {
    return undefined;
  }
}

export function isAlive({ pid, started }: ProcessIdentity): boolean {
  return processState(pid) !== undefined && (started === "" || linuxStat(pid)?.started === started);
}

/** All living descendants of a process, parents before children. */
function descendants(pid: number): number[] {
  const table = processTable();
  const found: number[] = [];
  for (let layer = [pid]; layer.length > 0; ) {
    layer = table.filter((row) => layer.includes(row.parent)).map((row) => row.pid);
    found.push(...layer);
  }
  return found;
}

/** Sends a signal; a process that is already gone is no error. */
function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * SIGKILLs a process and all its descendants and waits until they are gone. The process is stopped first, so
 * that it can neither start another child nor react to the death of one.
 */
export async function killTree(root: ProcessIdentity): Promise<void> {
  if (!isAlive(root)) return;
  sendSignal(root.pid, "SIGSTOP");
  const all = [root, ...descendants(root.pid).map(identify)];
  for (const { pid } of all) sendSignal(pid, "SIGKILL");
  await until(() => !all.some(isAlive), { what: `process ${root.pid} and its children are gone` });
}

/**
 * Sends `polite` to a process, after thawing it and its descendants, and gives it time to end; then kills what is
 * left. Without `polite` it kills at once.
 */
export async function endTree(root: ProcessIdentity, polite?: NodeJS.Signals): Promise<void> {
  if (polite && isAlive(root)) {
    for (const pid of [root.pid, ...descendants(root.pid)]) thawProcess(pid);
    sendSignal(root.pid, polite);
    await until(() => !isAlive(root), { timeoutMs: POLITE_TIMEOUT_MS }).catch(() => {});
  }
  await killTree(root);
}

/** SIGSTOP, returning only when the process has really stopped. */
export async function freezeProcess(pid: number): Promise<void> {
  sendSignal(pid, "SIGSTOP");
  await until(() => processState(pid) === "T", { what: `process ${pid} is stopped` });
}

/** SIGCONT. */
export function thawProcess(pid: number): void {
  sendSignal(pid, "SIGCONT");
}
