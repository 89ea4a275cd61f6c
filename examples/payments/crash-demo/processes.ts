/** The demo's processes: started as a user would start them, and killed at the latest when the demo ends. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface Started {
  readonly pid: number;
  /** The first match of a line of its stdout, whether printed already or later. */
  line(pattern: RegExp): Promise<RegExpExecArray>;
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Longer than any step of the demo takes, even on a busy machine. */
const patienceMs = 300_000;
const running = new Set<ChildProcess>();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

export function start(script: URL, cwd: string, env: Readonly<Record<string, string>>): Started {
  const path = fileURLToPath(script);
  const child = spawn(process.execPath, ["--conditions=latchkey-source", path], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const { pid, stdout } = child;
  if (pid === undefined) throw new Error(`could not start ${path}`);
  running.add(child);
  const closed = once(child, "close").then(() => {
    running.delete(child);
  });
  const lines: string[] = [];
  const listeners = new Set<() => void>();
  createInterface({ input: stdout }).on("line", (line) => {
    lines.push(line);
    for (const listener of listeners) listener();
  });
  return {
    pid,
    line: (pattern) => firstMatch(pattern, lines, listeners, closed),
    async end(signal) {
      child.kill(signal);
      await closed;
    },
  };
}

function firstMatch(
  pattern: RegExp,
  lines: readonly string[],
  listeners: Set<() => void>,
  closed: Promise<void>,
): Promise<RegExpExecArray> {
  const found = Promise.withResolvers<RegExpExecArray>();
  const look = () => {
    for (const line of lines) {
      const match = pattern.exec(line);
      if (match !== null) found.resolve(match);
    }
  };
  const fail = (why: string) => found.reject(new Error(`${why} before a line like ${pattern}`));
  const timer = setTimeout(() => fail(`${patienceMs} ms passed`), patienceMs);
  listeners.add(look);
  look();
  void closed.then(() => fail("a process ended"));
  return found.promise.finally(() => {
    clearTimeout(timer);
    listeners.delete(look);
  });
}
