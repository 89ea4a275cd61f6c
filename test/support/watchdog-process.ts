import { rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { endTree, type ProcessIdentity } from "./process-tree.ts";
import type { WatchdogLine } from "./watchdog.ts";

const processes = new Map<string, { identity: ProcessIdentity; asked: NodeJS.Signals | undefined }>();
const directories = new Set<string>();

const nameOf = (identity: ProcessIdentity) => `${identity.pid}/${identity.started}`;

function handleLine(line: WatchdogLine): void {
  if ("add" in line) processes.set(nameOf(line.add), { identity: line.add, asked: line.polite });
  else if ("remove" in line) processes.delete(nameOf(line.remove));
  else if ("addDirectory" in line) directories.add(line.addDirectory);
  else directories.delete(line.removeDirectory);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

for await (const text of createInterface({ input: process.stdin })) {
  try {
    handleLine(JSON.parse(text) as WatchdogLine);
  } catch {
    // The last line may be cut short by the death of the writer.
  }
}
await Promise.allSettled([...processes.values()].map(({ identity, asked }) => endTree(identity, asked)));
for (const path of directories) await rm(path, { recursive: true, force: true, maxRetries: 5 });
