import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { onFetch, onNode } from "../test/registry/captured.ts";
import { findStalePages, generatePages, renderErrors, renderStateMachine } from "./generate-docs.ts";
import { rules } from "./support/boundary-rules.ts";
import { renderEvents } from "./support/events.ts";
import { renderFloors } from "./support/floors.ts";
import {
  renderConsumerOptions,
  renderHttpOptions,
  renderInboxOptions,
  renderLatchkeyOptions,
} from "./support/option-tables.ts";
import { repositoryRoot } from "./support/repository.ts";
import {
  renderCaptured,
  renderOptions,
  renderOptionTable,
  renderPolicies,
  renderProgram,
  replaceSection,
} from "./support/sections.ts";

test("the generated documents in the repository are up to date", async () => {
  const { pages } = await generatePages();
  expect(findStalePages(pages)).toEqual([]);
});

test("a document that differs by one character is found", async () => {
  const { pages } = await generatePages();
  const changed = pages.map((page) => ({ ...page, text: `${page.text} ` }));
  expect(findStalePages(changed).map(({ where }) => where)).toEqual(pages.map(({ path }) => path));
});

test("only the generated part of a document is replaced; a document without that part is an error", () => {
  const written = "# Page\n\n<!-- generated: table -->\nold\n<!-- end: table -->\n\nEnd\n";
  const replaced = replaceSection(written, "table", "new");
  expect(replaced).toBe("# Page\n\n<!-- generated: table -->\n\nnew\n\n<!-- end: table -->\n\nEnd\n");
  expect(replaceSection(replaced, "table", "new")).toBe(replaced);
  const cell = "| Have | <!-- generated: cell -->old<!-- end: cell --> |";
  expect(replaceSection(cell, "cell", "new")).toBe(cell.replace("old", "new"));
  expect(() => replaceSection(written, "other", "new")).toThrow("no part");
});

test("the policies' table has a row for every choice, and for each status that differs", () => {
  const text = renderPolicies();
  expect(text).toContain(
    "| a 5xx answer (`serverErrors`) | `by-outcome` | `store` | `release` | `by-outcome` |",
  );
  expect(text).toContain("| status of [`key-misuse`](errors.md#key-misuse) | 422 | 400 | 422 | 409 |");
});

test("the options' table has every option with its default", () => {
  const text = renderOptions();
  expect(text).toContain("| `forgetAfterMs` | `retentionMs` |");
  for (const name of ["execution", "run", "version"]) expect(text).toContain(`| \`${name}\` | `);
  expect(text).toContain("| `retentionMs` | the policy's |");
  expect(text).toContain("| `answerHoldBytes` | 32 MiB |");
  expect(text).toContain("| `key` | the policy's |");
});

test("the options of createLatchkey, adapters, inboxes and consumers have theirs, too", () => {
  expect(renderLatchkeyOptions()).toContain("| `circuitBreaker` | 5 failures in a row, 1 s |");
  const http = renderHttpOptions();
  expect(http).toContain("| `header` | `Idempotency-Key` |");
  expect(http).toContain("| `bodyLimitBytes` | 1 MiB |");
  expect(http).toContain("| `methods` | the policy's |");
  const inbox = renderInboxOptions();
  expect(inbox).toContain("| `keepMs` | 30 days |");
  expect(inbox).toContain("| `backoffMaxMs` | 1 min |");
  expect(renderConsumerOptions()).toContain("| `kafkaConsumer` | `topics` | required |");
});

test("an option without a default to be seen is an error", () => {
  expect(() => renderOptionTable({ store: "where records are kept" }, {})).toThrow("store");
});

test("every event has a row with its meaning and the members that its type has", () => {
  const text = renderEvents();
  expect(text).toMatch(
    /^\| `settled` \| A look-up, a webhook or a person settled an unknown.*\| `recordId`, `event`, `actor`, `proof` \|$/mu,
  );
  expect(text).toMatch(/^\| `worker_started` \| [^|]+ \| no \| {2}\|$/mu);
  const events = readFileSync(join(repositoryRoot, "packages/latchkey/src/telemetry/events.ts"), "utf8");
  const types = [...events.matchAll(/readonly type: "(\w+)"/gu)].map(([, name]) => name);
  expect([...text.matchAll(/^\| `(\w+)` \|/gmu)].map(([, name]) => name).sort()).toEqual(types.sort());
});

test("a program in a page is a copy of its file, below the file's name", () => {
  const program = readFileSync(join(repositoryRoot, "examples/recipes/golden-path/routes.test.ts"), "utf8");
  expect(renderProgram("examples/recipes/golden-path/routes.test.ts")).toBe(
    `<!-- file: routes.test.ts -->\n\`\`\`ts\n${program}\`\`\``,
  );
});

test("a table of what is captured has the rows that apply to its framework, and no others", () => {
  expect(renderCaptured(onNode)).toContain("| sends trailers | left out | left out |");
  expect(renderCaptured(onFetch)).not.toContain("trailers");
});

test("every edge is an arrow and a row, with the absence of a record drawn as a dot", () => {
  const text = renderStateMachine([
    { from: "none", event: "admit", by: ["request"], to: "in_progress", note: "a | b" },
    { from: "expired", event: "forget", by: ["record-cleaner", "operator"], to: "none" },
  ]);
  expect(text).toContain("  [*] --> in_progress: admit\n  expired --> [*]: forget\n");
  expect(text).toContain("| (none) | `admit` | request | `in_progress` | a \\| b |");
  expect(text).toContain("| `expired` | `forget` | record-cleaner, operator | (none) |  |");
});

test("every problem has a heading that its code links to, and every error a row", () => {
  const text = renderErrors(
    {
      "tx-revoked": { summary: "Used too late.", remedy: "Await it." },
      "store-unsuitable": { summary: "It does not suit.", remedy: "Change it." },
    },
    {
      "key-misuse": {
        status: 422,
        title: "Key misuse",
        retryable: false,
        safeNewKey: true,
        detail: "Another body.",
      },
    },
  );
  expect(text).toContain("### key-misuse\n\nStatus 422. Key misuse.\n\nAnother body.\n");
  expect(text).toContain("(`retryable`): **no**\n- Use a new key (`safe_new_key`): yes");
  expect(text).toContain("| `tx-revoked` | Used too late. | Await it. |");
  expect(text).toContain(
    "| `store-unsuitable` | It does not suit. | Change it. See [Database settings](database-settings.md), for",
  );
});

test("the floors are drawn with one arrow between each two and have a row for each path; a path without a text is an error", () => {
  const { floors } = rules;
  const text = renderFloors();
  for (const [at, floor] of floors.entries())
    expect(text).toContain(`  floor${at + 1}["${floor.join(", ")}"]\n`);
  expect(text).toContain("\n  floor1 --> floor2 --> floor3");
  for (const path of floors.flat()) expect(text).toContain(`| \`${path}\` | `);
  expect(() => renderFloors([...floors, ["cellar/"]])).toThrow("does not say what cellar/ is");
  expect(() => renderFloors(floors.slice(1))).toThrow("No floor has testing/");
});
