import { expect, test } from "vitest";
import { notRun } from "../support/not-run.ts";
import { startRedis } from "../support/private-redis.ts";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

test("a process with nothing else to do stays until what it awaits of Latchkey is over, and then ends", async () => {
  const [database, redis] = [await freshDatabase(), await startRedis()];
  if (redis === undefined) notRun("what is awaited of the Redis store", "redis-server is not installed");
  await using child = spawnWorker(new URL("awaited-process.ts", import.meta.url), {
    args: [database.url, ...(redis === undefined ? [] : [redis.url])],
  });
  const exit = await child.exited;
  const what = Object.fromEntries(child.lines.map(({ done, what }) => [done, what]));
  await Promise.all([database.drop(), redis?.stop()]);
  expect(what, child.stderr()).toEqual({
    "waits-transaction": ["executed", "replay"],
    "waits-lease": ["executed", "replay"],
    "transaction-limit": "attempt-limit",
    "attempt-limit": "unknown",
    calls: "executed",
    begun: null,
    worker: true,
    services: null,
    work: "nothing_due",
    closed: true,
    closing: "executed",
    ...(redis !== undefined && {
      redis: ["executed", "replay"],
      "redis-work": "nothing_due",
      "redis-closed": true,
    }),
    postgres: ["executed", "replay"],
    end: null,
  });
  expect(exit).toEqual({ code: 0, signal: null });
});
