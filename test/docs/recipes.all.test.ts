/** Recipes with a provider, followed from an empty folder to their first answers, and through the kill that they show. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { freshDatabase } from "../support/shared-postgres.ts";
import { follow } from "./walkthrough.ts";

function partOf(page: string, end: string): string {
  const text = readFileSync(new URL(`../../docs/recipes/${page}.md`, import.meta.url), "utf8");
  expect(text).toContain(end);
  return text.slice(text.indexOf("## Set up"), text.indexOf(end));
}

test.each([
  ["golden-path", "## What each line is for", 1],
  ["uncertain-outcome", "Start the service again", 1],
  ["recovery-points", "Start the service again", 1],
] as const)("%s: set up, started and used as the text says", async (page, end, answers) => {
  const database = await freshDatabase();
  const steps = await follow(partOf(page, end), database.url);
  expect(steps.filter(({ did }) => did === "http")).toHaveLength(answers);
  await database.drop();
});

test.each([
  ["a secret that the service needs", "export WEBHOOK_SECRET=secret\n", "", /WEBHOOK_SECRET/u],
  ["a terminal for the service", "Open a second terminal", "Go on", /the terminal is busy/u],
])("%s is part of the text", async (_what, from, to, message) => {
  const database = await freshDatabase();
  const part = partOf("uncertain-outcome", "Now let the provider").replace(from, to);
  await expect(follow(part, database.url)).rejects.toThrow(message);
  await database.drop();
});
