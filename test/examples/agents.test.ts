/** The examples of agents, each as a user runs it. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

test("an MCP server refunds once, and tells the model what to do about everything else", async () => {
  const script = new URL("../../examples/agents/mcp.ts", import.meta.url);
  const { url } = await freshDatabase();
  const example = spawnWorker(fileURLToPath(script), { env: { DATABASE_URL: url } });
  const { code } = await example.exited;
  expect(code, example.stderr()).toBe(0);
  const lines = example.lines.map(({ text }) => text);
  expect(lines.slice(0, 2)).toEqual([
    "first: done, replay false: Refunded 500 cents of order-7.",
    "retry: done, replay true: Refunded 500 cents of order-7.",
  ]);
  expect(lines[2]).toMatch(
    /^other: error, replay false: This idempotency key was first used with other arguments/u,
  );
  expect(lines[3]).toMatch(/^without: error, replay false: Send it in _meta/u);
  expect(lines[4]).toBe("refunds: 1");
});
