/** docs/getting-started.md, followed from top to bottom. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { freshDatabase } from "../support/shared-postgres.ts";
import { follow } from "./walkthrough.ts";

const page = readFileSync(new URL("../../docs/getting-started.md", import.meta.url), "utf8");

test("every file, command and answer of the page is as it says", async () => {
  const database = await freshDatabase();
  const steps = await follow(page, database.url);
  const counted = (language: string) => steps.filter(({ did }) => did === language).length;
  expect(counted("http")).toBeGreaterThanOrEqual(11);
  expect(counted("sh")).toBeGreaterThanOrEqual(20);
  await database.drop();
});

test.each([
  ["an answer that is another one", '"id":2,"item":"teapot"', '"id":3,"item":"teapot"', /line \d+: body/u],
  [
    "a marker that is not there",
    "HTTP/1.1 201 Created\n\n",
    "HTTP/1.1 201 Created\nIdempotent-Replayed: true\n\n",
    /Idempotent-Replayed/u,
  ],
  [
    "a server that is never stopped",
    "Stop the old service with Ctrl+C in the first terminal, and start",
    "Start",
    /the port is taken/u,
  ],
  ["one terminal", "Open a second terminal", "Go on", /the terminal is busy/u],
  [
    "a terminal without the variable",
    /```sh\nexport [^\n]+\n```\n\n```sh\ncurl -i/u,
    "```sh\ncurl -i",
    /DATABASE_URL is not set/u,
  ],
  ["a parser that keeps no bytes", "{ verify: keepRawBody }", "", /status line: .* 500 /u],
])("a page with %s is found out", async (_what, from, to, message) => {
  const database = await freshDatabase();
  const end = page.indexOf("## Pull the plug");
  await expect(follow(page.slice(0, end).replace(from, to), database.url)).rejects.toThrow(message);
  await database.drop();
});
