import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { identify, isAlive, processState } from "./process-tree.ts";
import { spawnWorker } from "./processes.ts";
import { releaseAll } from "./resources.ts";
import { until } from "./until.ts";

const echo = join(import.meta.dirname, "workers/echo.ts");
const ownPostgres = join(import.meta.dirname, "workers/own-postgres.ts");

describe("a worker process", () => {
  it("exchanges JSON lines in both directions and can be killed", async () => {
    const worker = spawnWorker(echo);
    expect(await worker.ready()).toEqual({ ready: true, pid: worker.pid });
    worker.send({ a: 1 });
    const echoed = await worker.line((line) => "echo" in line);
    expect(echoed).toEqual({ echo: { a: 1 } });
    expect(await worker.kill()).toEqual({ code: null, signal: "SIGKILL" });
  });

  it("does nothing while it is frozen, and continues afterwards", async () => {
    await using worker = spawnWorker(echo);
    await worker.ready();
    await worker.freeze();
    expect(processState(worker.pid)).toBe("T");
    worker.send("while frozen");
    const answered = worker.line((line) => line.echo === "while frozen", 100);
    await expect(answered).rejects.toThrow(/^not settled within \d+ ms/);
    worker.thaw();
    await worker.line((line) => line.echo === "while frozen");
  });

  it("reports its output if it ends too early", async () => {
    const worker = spawnWorker(echo);
    worker.send("fail");
    const missing = worker.line((line) => line.echo === "never");
    await expect(missing).rejects.toThrow(/ended \(code 1\)[\s\S]*asked to fail/);
    expect((await worker.exited).code).toBe(1);
  });

  it("is killed with the other resources, even while it is frozen", async () => {
    const worker = spawnWorker(echo);
    await worker.ready();
    await worker.freeze();
    await releaseAll();
    expect((await worker.exited).signal).toBe("SIGKILL");
  });
});

describe("the death of a process that started servers", () => {
  it("ends its Postgres and removes the files, whatever killed it", async () => {
    const owner = spawnWorker(ownPostgres);
    const { pid, dataDir, rows } = await owner.ready(60_000);
    expect(rows).toEqual([{ a: 1 }]);
    const postmaster = identify(Number(pid));
    expect(isAlive(postmaster)).toBe(true);
    await owner.kill("SIGKILL");
    await until(() => !isAlive(postmaster), { what: "the postmaster is gone" });
    await until(() => !existsSync(String(dataDir)), { what: "the data directory is gone" });
  });

  it("also ends its workers, frozen or not", async () => {
    const owner = spawnWorker(join(import.meta.dirname, "workers/own-worker.ts"));
    const frozen = identify(Number((await owner.ready()).worker));
    await owner.kill("SIGKILL");
    await until(() => !isAlive(frozen), { what: "the frozen worker is gone" });
  });
});
