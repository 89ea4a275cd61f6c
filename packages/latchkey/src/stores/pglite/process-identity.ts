/** Tells this process from every other one, also from a later process with the same id. */
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

export interface ProcessIdentity {
  /** Where process ids mean something. On Linux the host and its PID namespace (a container has its own). */
  readonly place: string;
  readonly pid: number;
  /** When the process started, in the system's own words; null where the system does not tell. */
  readonly started: string | null;
}

export type Life =
  | "alive"
  | "dead"
  /** It lives, or lived, where its id cannot be looked up from here. */
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

/** A laptop's host name changes with the network it is in, so elsewhere it tells nothing. */
function ownPlace(): string {
  if (process.platform !== "linux") return process.platform;
  return `${hostname()} ${orNull(() => readlinkSync("/proc/self/ns/pid")) ?? ""}`.trim();
}

/** Sees processes of other users too. A process that has died and was not yet waited for does not run. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
  const state = linuxStat(pid)?.[0];
  return state !== "Z" && state !== "X";
}

/** On Linux the boot and the clock tick in it; elsewhere what `ps` says. */
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
