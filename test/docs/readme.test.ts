/** The first screen of README.md, followed from top to bottom in an empty folder. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { freshDatabase } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { follow } from "./walkthrough.ts";

const page = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const firstScreen = page.slice(0, page.indexOf("\n## "));

test("the service is whole: it is installed, started and asked as the text says", async () => {
  const database = await freshDatabase();
  const steps = await follow(firstScreen, database.url);
  expect(steps.map(({ did }) => did)).toEqual(["sh", "ts", "sh", "sh", "sh", "sh", "http", "mermaid"]);
  await database.drop();
});

test.runIf(isThorough).each([
  ["how to pack the library", /\(cd [^\n]+\n/u, "", /has not installed \.\.\/latchkey\//u],
  ["what the service imports", " express pg", "", /does not install express, pg/u],
  ["its table", /```sh\npsql [^`]+```/u, "", /500/u],
  ["how to start it", " && node server.ts", "", /ECONNREFUSED/u],
])("%s is part of the text", async (_what, from, to, message) => {
  const database = await freshDatabase();
  await expect(follow(firstScreen.replace(from, to), database.url)).rejects.toThrow(message);
  await database.drop();
});
