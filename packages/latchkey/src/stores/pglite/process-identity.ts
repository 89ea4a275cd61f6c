/** Distinguishes this process from every other one, also from a later process with the same id. */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

export interface ProcessIdentity {
  /** The place in which process ids are unique. On Linux the host and its PID namespace (a container has its own). */
  readonly place: string;
  readonly pid: number;
  /** When the process started, in the system's own format; null if the system does not report it. */
  readonly started: string | null;
}

export type Life =
  | "alive"
  | "dead"
  /** It lives, or lived, in a place whose process ids cannot be looked up from this process. */
  | "out_of_sight";

export function ownIdentity(): ProcessIdentity {
  return { place: ownPlace(), pid: process.pid, started: startOf(process.pid) };
}

export function lifeOf(other: ProcessIdentity): Life {
  if (other.place !== ownPlace()) return "out_of_sight";
  if (!isRunning(other.pid)) return "dead";
  const started = startOf(other.pid);
  if (other.started === null || started === null) return "alive";
  return started === other.started ? "alive" : "dead";
}

/** Outside Linux without the host name, because a laptop's host name changes with its network. */
function ownPlace(): string {
  if (process.platform !== "linux") return process.platform;
  return `${hostname()} ${orNull(() => readlinkSync("/proc/self/ns/pid")) ?? ""}`.trim();
}

/** Works for processes of other users, too. A zombie process does not count as running. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
  const state = linuxStat(pid)?.[0];
  return state !== "Z" && state !== "X";
}

/** On Linux the boot and the clock tick in it; elsewhere the output of `ps`. */
function startOf(pid: number): string | null {
  if (process.platform !== "linux") return startByPs(pid);
  const boot = orNull(() => readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim());
  const tick = linuxStat(pid)?.[19];
  return boot === null || tick === undefined ? null : `${boot} ${tick}`;
}

/** The fields of /proc/<pid>/stat from the third on; the second, in parentheses, may itself hold spaces and `)`. */
function linuxStat(pid: number): readonly string[] | null {
  if (process.platform !== "linux") return null;
  const text = orNull(() => readFileSync(`/proc/${pid}/stat`, "latin1"));
  return text === null ? null : text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function startByPs(pid: number): string | null {
  return orNull(() => {
    const options = { encoding: "utf8", env: { ...process.env, LC_ALL: "C" }, stdio: "pipe" } as const;
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], options).trim() || null;
  });
}

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}
