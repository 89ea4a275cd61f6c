import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { lifeOf, ownIdentity } from "./process-identity.ts";

const linux = process.platform === "linux";
const children: ReturnType<typeof spawn>[] = [];

afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
});

function otherProcess(): number {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  children.push(child);
  return child.pid ?? 0;
}

describe("lifeOf", () => {
  test("this process is alive, in its own place, with a start time", () => {
    const own = ownIdentity();
    expect(own.pid).toBe(process.pid);
    expect(own.started).toEqual(expect.any(String));
    expect(ownIdentity()).toEqual(own);
    expect(lifeOf(own)).toBe("alive");
  });

  test("a process that has ended is dead", () => {
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    expect(lifeOf({ ...ownIdentity(), pid })).toBe("dead");
  });

  test("another process under the same id is not the one that had it before", () => {
    const own = ownIdentity();
    expect(lifeOf({ ...own, started: `${own.started}1` })).toBe("dead");
    expect(lifeOf({ ...own, pid: otherProcess() })).toBe("dead");
  });

  test("without a known start time a living id is believed", () => {
    expect(lifeOf({ ...ownIdentity(), started: null })).toBe("alive");
    expect(lifeOf({ ...ownIdentity(), pid: otherProcess(), started: null })).toBe("alive");
  });

  test("what ran elsewhere cannot be judged, whether its id is free here or not", () => {
    const place = "another-host pid:[1]";
    expect(lifeOf({ ...ownIdentity(), place })).toBe("out_of_sight");
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    expect(lifeOf({ ...ownIdentity(), place, pid })).toBe("out_of_sight");
  });

  test.runIf(linux)("a process that was killed but not waited for is dead", async () => {
    // The shell's child dies; the shell itself, replaced by sleep, never waits for it.
    const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 60"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    children.push(parent);
    const [line] = await once(parent.stdout ?? process.stdin, "data");
    const zombie = Number(String(line));
    await expect.poll(() => lifeOf({ ...ownIdentity(), pid: zombie, started: null })).toBe("dead");
  });
});
