/** The examples of clients, each as a user runs it: the second request is a replay, and there is one order. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { clients } from "../registry/clients.ts";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const examples = clients.flatMap(({ name, moreExamples = [] }) => [name, ...moreExamples]);

test.each(examples)("%s", async (client) => {
  const script = new URL(`../../examples/transactions/${client}.ts`, import.meta.url);
  const { url } = await freshDatabase();
  const example = spawnWorker(fileURLToPath(script), { env: { DATABASE_URL: url } });
  const { code } = await example.exited;
  expect(code, example.stderr()).toBe(0);
  expect(example.lines.map((line) => line.text)).toEqual([
    'first: executed {"id":1,"left":9}',
    'retry: replay {"id":1,"left":9}',
    "orders: 1",
  ]);
});
