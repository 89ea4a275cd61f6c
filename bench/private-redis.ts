import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { freePort } from "../test/support/postgres-cluster.ts";
import { onRelease } from "../test/support/resources.ts";
import { scratchDirectory } from "../test/support/scratch.ts";
import { until } from "../test/support/until.ts";
import { watchDirectory, watchProcess } from "../test/support/watchdog.ts";

/** Starts a Redis of our own, in memory alone, on a free port; null where the machine has none. It ends with `releaseAll`. */
export async function startRedis(): Promise<string | null> {
  if (spawnSync("redis-server", ["--version"]).error) return null;
  const port = await freePort();
  const folder = scratchDirectory(undefined);
  watchDirectory(folder);
  const settings = { port, bind: "127.0.0.1", dir: folder, save: "", appendonly: "no" };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn("redis-server", args, { stdio: "ignore" });
  if (!child.pid) throw new Error("redis-server could not be started");
  watchProcess(child.pid);
  onRelease(async () => {
    const exited = once(child, "exit");
    child.kill();
    await exited;
  });
  await until(() => accepts(port), { what: "Redis takes connections" });
  return `redis://127.0.0.1:${port}`;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const end = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once("connect", () => end(true)).once("error", () => end(false));
  });
}
