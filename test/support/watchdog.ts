import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { identify, type ProcessIdentity } from "./process-tree.ts";

/**
 * A second process that reads a pipe from this one. When this process dies, in whatever way, the pipe closes and
 * the watchdog kills what was registered and removes the registered directories. (Linux' parent-death signal would
 * not remove directories, does not exist elsewhere, and follows the thread instead of the process.)
 */
export type WatchdogLine =
  | { add: ProcessIdentity; polite: NodeJS.Signals | undefined }
  | { remove: ProcessIdentity }
  | { addDirectory: string }
  | { removeDirectory: string };

let pipe: Writable | undefined;

function watchdogPipe(): Writable {
  if (pipe) return pipe;
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = spawn(process.execPath, [join(import.meta.dirname, "watchdog-process.ts")], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
    env,
  });
  child.stdin.on("error", () => {});
  child.unref();
  (child.stdin as Writable & { unref?: () => void }).unref?.();
  pipe = child.stdin;
  return pipe;
}

function tell(line: WatchdogLine): void {
  watchdogPipe().write(`${JSON.stringify(line)}\n`);
}

/**
 * The process dies with this one: by the signal `polite` if that works, else by SIGKILL, its children too. Returns
 * the function that ends this (to be called after the process has ended).
 */
export function watchProcess(pid: number, polite?: NodeJS.Signals): () => void {
  const identity = identify(pid);
  tell({ add: identity, polite });
  return () => tell({ remove: identity });
}

/** The directory is removed when this process dies. Returns the function that ends this. */
export function watchDirectory(path: string): () => void {
  tell({ addDirectory: path });
  return () => tell({ removeDirectory: path });
}
