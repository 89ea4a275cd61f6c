/** The embedded database among real processes: who may open it, and what a killed one leaves. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { createLatchkey } from "latchkey";
import { openPglite } from "latchkey/pglite";
import { afterAll, describe, expect, test, vi } from "vitest";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { until } from "../support/until.ts";
import { paidKeys, payments } from "./payments.ts";

/** PGlite's first opening of a folder takes up to 10 s on a busy machine. */
const openTimeoutMs = 40_000;
const script = new URL("./store-process.ts", import.meta.url);

const folder = scratchDirectory("us");
const dataDir = join(folder, "not", "there", "yet");
const lockFile = join(dataDir, "latchkey.lock");

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function start(directory = dataDir): WorkerProcess {
  return spawnWorker(script, { args: [directory] });
}

function verdict(worker: WorkerProcess) {
  return worker.line((line) => line.ready === true || "refused" in line, openTimeoutMs);
}

async function paid(worker: WorkerProcess, key: string): Promise<unknown> {
  const before = worker.lines.length;
  worker.send({ pay: key });
  const line = await worker.line((line) => "paid" in line && worker.lines.indexOf(line) >= before);
  return line.paid;
}

describe("a folder and its processes", () => {
  let first: WorkerProcess;

  test("a first opening that was killed half way is started over", async () => {
    const killed = start();
    await until(() => existsSync(join(dataDir, "base")), { timeoutMs: openTimeoutMs, intervalMs: 1 });
    await killed.kill("SIGKILL");
    expect(killed.lines).toEqual([]);
    first = start();
    expect(await verdict(first)).toEqual({ ready: true });
  });

  test("while a process has it open, no other process opens it, this one included", async () => {
    expect(await verdict(start())).toEqual({ refused: "data-directory-locked" });
    await expect(openPglite(PGlite, { dataDir })).rejects.toMatchObject({ code: "data-directory-locked" });
    await first.freeze();
    expect(await verdict(start())).toEqual({ refused: "data-directory-locked" });
    first.thaw();
    expect(await paid(first, "before")).toMatchObject({ kind: "executed", value: 1 });
  });

  test("what a killed process had committed stays and is replayed; what it was doing is gone", async () => {
    expect(await paid(first, "committed")).toMatchObject({ kind: "executed", value: 2 });
    first.send({ hang: "in-flight" });
    await first.line((line) => line.inside === true);
    await first.kill("SIGKILL");
    expect(existsSync(lockFile), "the dead holder's lock").toBe(true);

    const { store, database, close } = await openPglite(PGlite, { dataDir });
    const { pay } = await payments(createLatchkey({ store }), database);
    expect(await paidKeys(database)).toEqual(["before", "committed"]);
    expect(await pay("committed")).toMatchObject({ kind: "replay", value: 2 });
    expect(await pay("in-flight")).toMatchObject({ kind: "executed" });
    expect(await pay("in-flight")).toMatchObject({ kind: "replay" });
    expect(await paidKeys(database)).toEqual(["before", "committed", "in-flight"]);
    await Promise.all([close(), close()]);
    expect(readdirSync(dataDir).filter((name) => name.startsWith("latchkey"))).toEqual([]);
  });

  test("of several that open it at the same moment, over a dead holder's lock, one wins", async () => {
    const dead = start();
    await dead.ready(openTimeoutMs);
    await dead.kill("SIGKILL");
    const racers = Array.from({ length: 4 }, () => start());
    const verdicts = await Promise.all(racers.map(verdict));
    expect(verdicts.filter((line) => line.ready === true)).toHaveLength(1);
    expect(verdicts.filter((line) => line.refused === "data-directory-locked")).toHaveLength(3);
    const winner = racers.find((worker) => worker.lines.some((line) => line.ready === true));
    expect(await paid(winner ?? dead, "committed")).toMatchObject({ kind: "replay", value: 2 });
    winner?.send({ close: true });
    expect(await winner?.exited).toEqual({ code: 0, signal: null });
    expect(existsSync(lockFile)).toBe(false);
  });

  test("a process that exits without closing gives the lock back", async () => {
    const leavingProcess = start();
    await leavingProcess.ready(openTimeoutMs);
    leavingProcess.send({ exit: true });
    await leavingProcess.exited;
    expect(existsSync(lockFile)).toBe(false);
  });
});

describe("openPglite", () => {
  test("refuses production, unless it is allowed", async () => {
    vi.stubEnv("NODE_ENV", "production");
    const refused = join(folder, "production");
    try {
      const error = await openPglite(PGlite, { dataDir: refused }).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "embedded-in-production" });
      expect(existsSync(refused)).toBe(false);
      const options = { dataDir: "memory://", allowProduction: true, schema: "elsewhere" };
      const { store, database, close } = await openPglite(PGlite, options);
      await store.verify();
      const { rows } = await database.query("select to_regnamespace('elsewhere')::text as schema");
      expect(rows).toEqual([{ schema: "elsewhere" }]);
      await close();
      await close();
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test.each(["", "file://", "idb://name", "opfs-ahp://name"])("dataDir %j is a mistake", async (name) => {
    await expect(openPglite(PGlite, { dataDir: name })).rejects.toThrow(TypeError);
  });

  test("a database that does not open leaves the folder free", async () => {
    const dataDir = join(folder, "broken");
    class Broken extends PGlite {
      constructor() {
        super({ dataDir: "memory://", loadDataDir: new Blob(["no tarball"]) });
      }
    }
    await expect(openPglite(Broken, { dataDir })).rejects.toThrow();
    expect(readdirSync(dataDir)).toEqual([]);
  });

  test("file:// names a folder, which may have something in it", async () => {
    const dataDir = join(folder, "with-a-note");
    class InMemory extends PGlite {
      constructor() {
        super("memory://");
      }
    }
    mkdirSync(dataDir);
    writeFileSync(join(dataDir, "note.txt"), "mine");
    const { close } = await openPglite(InMemory, { dataDir: `file://${dataDir}` });
    expect(readdirSync(dataDir).sort()).toEqual(["latchkey.lock", "note.txt"]);
    await close();
    expect(readdirSync(dataDir)).toEqual(["note.txt"]);
  });
});
