import { expect, test } from "vitest";
import { findLinkProblems, findTypeProblems, readNamed } from "./check-docs.ts";
import { readMarkdown } from "./support/markdown.ts";
import { findNameProblems } from "./support/named-files.ts";

const document = (...lines: readonly string[]) => readMarkdown("docs/page.md", lines.join("\n"));

test("a block that does not compile is reported at its line in the document; one that compiles is not", () => {
  const sound = document(
    "# Sound",
    "",
    "```ts",
    "const seconds: number = 1;",
    "await Promise.resolve(seconds);",
    "```",
  );
  const broken = document(
    "# Broken",
    "",
    "```ts",
    "const seconds: number = 1;",
    "const text: string = seconds;",
    "```",
  );
  expect(findTypeProblems([...sound.snippets, ...broken.snippets])).toEqual([
    { where: "docs/page.md:5:7", message: expect.stringContaining("TS2322") },
  ]);
});

test("a hidden setup and an earlier block are part of the module, other blocks are not", () => {
  const { snippets } = document(
    "<!-- setup",
    "declare const pool: { end(): Promise<void> };",
    "-->",
    "```ts",
    "await pool.end();",
    "```",
    "and then",
    "```ts continue",
    "await pool.end();",
    "```",
    "```ts",
    "await pool.end();",
    "```",
  );
  expect(snippets).toHaveLength(2);
  expect(findTypeProblems(snippets)).toEqual([
    { where: "docs/page.md:12:7", message: expect.stringContaining("TS2304") },
  ]);
});

test("a block is skipped only with a written reason", () => {
  const unchecked = ["```ts no-check", "nonsense(", "```"];
  expect(document(...unchecked).problems).toEqual([
    { line: 1, message: expect.stringContaining("needs a comment") },
  ]);
  const reasoned = document("<!-- no-check: shows a syntax error on purpose -->", ...unchecked);
  expect(reasoned.problems).toEqual([]);
  expect(reasoned.snippets).toEqual([]);
});

test("unknown flags and a `continue` without an earlier block are rejected", () => {
  expect(document("```ts skip", "```").problems).toHaveLength(1);
  expect(document("```ts continue", "```").problems).toHaveLength(1);
});

test("other languages are not checked", () => {
  expect(document("```sh", "npm test", "```", "```json", "{}", "```").snippets).toEqual([]);
});

test("links must lead to a file and a heading; code and web addresses are not links", () => {
  const other = readMarkdown("docs/other.md", "# The `key` and its life\n\n## Twice\n\n## Twice\n");
  const page = document(
    "[a](other.md), [b](other.md#the-key-and-its-life), [c](other.md#twice-1), [d](#top), [e](https://example.com/x)",
    "# Top",
    "[f](missing.md)",
    "[g](other.md#nothing)",
    "`[h](missing.md)` and",
    "```ts",
    "// [i](missing.md)",
    "```",
    "[j](../README.md#anything)",
  );
  const exists = (path: string) =>
    path === "docs/other.md" || path === "docs/page.md" || path === "README.md";
  expect(findLinkProblems([page, other], exists)).toEqual([
    { where: "docs/page.md:3", message: "links to missing.md, which does not exist" },
    { where: "docs/page.md:4", message: "links to other.md#nothing, but docs/other.md has no such heading" },
  ]);
});

test("a block with a file name can be imported by that name, until a later block replaces it", () => {
  const page = document(
    "<!-- file: price.ts -->",
    "```ts",
    "export const price: number = 1;",
    "```",
    "<!-- file: shop.ts -->",
    "```ts",
    'import { price } from "./price.ts";',
    "const cents: number = price;",
    "```",
    "and now",
    "<!-- file: price.ts -->",
    "```ts",
    'export const price: string = "1";',
    "```",
    "<!-- file: till.ts -->",
    "```ts",
    'import { price } from "./price.ts";',
    "const text: string = price;",
    "```",
  );
  expect(page.problems).toEqual([]);
  expect(findTypeProblems(page.snippets)).toEqual([
    { where: "docs/page.md:8:7", message: expect.stringContaining("TS2322") },
  ]);
});

test("a file name may have folders, by which other blocks import it", () => {
  const page = document(
    "<!-- file: lib/price.ts -->",
    "```ts",
    "export const price: number = 1;",
    "```",
    "<!-- file: app/shop.ts -->",
    "```ts",
    'import { price } from "../lib/price.ts";',
    "const text: string = price;",
    "```",
  );
  expect(page.snippets.map(({ file }) => file)).toEqual(["lib/price.ts", "app/shop.ts"]);
  expect(findTypeProblems(page.snippets)).toEqual([
    { where: "docs/page.md:8:7", message: expect.stringContaining("TS2322") },
  ]);
});

test("pages about the code name files, folders and functions that exist", () => {
  const page = [
    "`decide()` in `engine/decide.ts`, `engine/`, `ports.ts`, `docs/README.md` and `<name>.test.ts`",
    "`engine/decides.ts`, `engines/` and `engine`",
    "`decides()` in `engine/decide.ts`; `npm run check`; `{ a: 1 }`",
    "`decide()`, which has no file on its line",
  ].join("\n");
  expect(findNameProblems("docs/page.md", page, readNamed)).toEqual([
    { where: "docs/page.md:2", message: "names engine/decides.ts, which does not exist" },
    { where: "docs/page.md:2", message: "names engines/, which does not exist" },
    { where: "docs/page.md:3", message: "names decides(), which no file named on its line has" },
    { where: "docs/page.md:4", message: "names decide(), which no file named on its line has" },
  ]);
});
