import { expect, test } from "vitest";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

test("a process with nothing else to do stays until what it awaits of Latchkey is over, and then ends", async () => {
  const database = await freshDatabase();
  await using child = spawnWorker(new URL("awaited-process.ts", import.meta.url), { args: [database.url] });
  const exit = await child.exited;
  const what = Object.fromEntries(child.lines.map(({ done, what }) => [done, what]));
  await database.drop();
  expect(what, child.stderr()).toEqual({
    "waits-transaction": ["executed", "replay"],
    "waits-lease": ["executed", "replay"],
    "transaction-limit": "attempt-limit",
    "attempt-limit": "unknown",
    calls: "executed",
    begun: null,
    worker: true,
    services: null,
    postgres: ["executed", "replay"],
    end: null,
  });
  expect(exit).toEqual({ code: 0, signal: null });
});
