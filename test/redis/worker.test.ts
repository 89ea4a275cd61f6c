/** Deferred work on Redis among real processes: a worker dies in the middle, another goes on. */
import { createLatchkey } from "latchkey";
import { describe, expect, test } from "vitest";
import { Layout } from "../../packages/latchkey/src/stores/redis/keys.ts";
import { redisProgram } from "../support/private-redis.ts";
import { spawnWorker } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { openClient, privateRedis, storeOn } from "./arrange.ts";
import { defineReport } from "./report.ts";

const script = new URL("./worker-process.ts", import.meta.url);

describe.skipIf(redisProgram() === undefined)("workers", () => {
  test("a worker killed inside a call: another resumes after the finished step, with the same key", async () => {
    const server = await privateRedis({ appendonly: "yes" });
    const client = openClient(server.url);
    const latchkey = createLatchkey({ store: storeOn(server.url) });
    const report = defineReport(latchkey, () => Promise.reject(new Error("only workers send")));
    const submit = () => latchkey.run(report, { tenant: "t", key: "k", input: { name: "r" } });
    expect((await submit()).kind).toBe("accepted");

    const victim = spawnWorker(script, { args: [server.url, "hang"] });
    await victim.line((line) => line.inside === "second");
    await victim.kill();
    const successors = [
      spawnWorker(script, { args: [server.url] }),
      spawnWorker(script, { args: [server.url] }),
    ];
    const done = await until(
      async () => {
        const result = await submit();
        return result.kind === "replay" && result;
      },
      { timeoutMs: 20_000 },
    );
    expect(done).toMatchObject({ status: 201, value: { name: "r", steps: ["first", "second"] } });

    const sent = await client.lrange("other side", 0, -1);
    expect(sent.map((line) => line.split(" ")[0])).toEqual(["first", "second", "second"]);
    expect(new Set(sent).size).toBe(2);

    // Kept for its retention, then removed by the workers' cleaners, index and all.
    const [index = "", lookUp = ""] = new Layout("latchkey", 1).partitionKeys(0);
    const left = () => Promise.all([client.zcard(index), client.hlen(lookUp)]);
    expect((await left())[0]).toBeGreaterThan(0);
    await until(async () => (await left()).every((count) => count === 0), { timeoutMs: 20_000 });
    for (const successor of successors) expect(await successor.kill("SIGTERM")).toMatchObject({ code: 0 });
  });
});
