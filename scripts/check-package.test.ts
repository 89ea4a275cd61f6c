import { expect, test } from "vitest";
import {
  consumerText,
  findContentProblems,
  findManifestProblems,
  findReadmeProblems,
  type Manifest,
} from "./check-package.ts";
import { readFiles, repositoryRoot } from "./support/repository.ts";

const manifest: Manifest = {
  name: "latchkey",
  version: "0.1.0",
  exports: {
    ".": { types: "./dist/index.d.ts", default: "./dist/index.js" },
    "./stores/memory": { types: "./dist/stores/memory.d.ts", default: "./dist/stores/memory.js" },
  },
  bin: { latchkey: "./dist/cli/main.js" },
};
const files = [
  "LICENSE",
  "README.md",
  "package.json",
  "dist/index.d.ts",
  "dist/index.js",
  "dist/stores/memory.d.ts",
  "dist/stores/memory.js",
  "dist/cli/main.js",
  "sql/postgres/0001_records.sql",
  "sql/postgres/0002_messages.sql",
  "sql/postgres/0003_names.sql",
  "sql/postgres/0004_audit_age.sql",
  "sql/postgres/0005_summaries.sql",
];

test("a package without dependencies and with all its files has no problem", () => {
  expect(findManifestProblems(manifest)).toEqual([]);
  expect(findContentProblems(manifest, files)).toEqual([]);
});

test.each(["dependencies", "peerDependencies", "optionalDependencies"])("%s are refused", (kind) => {
  expect(findManifestProblems({ ...manifest, [kind]: { pg: "^8.23.1" } })).toEqual([
    expect.stringContaining(`${kind} (pg)`),
  ]);
  expect(findManifestProblems({ ...manifest, [kind]: {} })).toEqual([]);
});

test.each(["LICENSE", "README.md", "dist/index.js", "dist/stores/memory.d.ts", "dist/cli/main.js"])(
  "a tarball without %s is refused",
  (path) => {
    const rest = files.filter((file) => file !== path);
    expect(findContentProblems(manifest, rest)).toEqual([`the tarball lacks ${path}`]);
  },
);

test.each([
  "src/index.ts",
  "dist/index.test.js",
  "dist/index.test.d.ts",
  "dist/index.ts",
  ".env",
  "dist/.keep",
])("a tarball with %s is refused", (path) => {
  expect(findContentProblems(manifest, [...files, path])).toEqual([`the tarball holds ${path}`]);
});

test("a README links only to files that its package contains", () => {
  const text = "[a](../../docs/a.md) [b](#use) [c](https://example.com) [d](LICENSE) [e](docs/e.md#part)";
  expect(findReadmeProblems(text, files)).toEqual([
    "README.md links to ../../docs/a.md, which is not in the tarball",
    "README.md links to docs/e.md, which is not in the tarball",
  ]);
  const readmes = readFiles(repositoryRoot, "packages/*/README.md");
  expect(readmes.size).toBe(5);
  for (const [path, readme] of readmes) expect(findReadmeProblems(readme, []), path).toEqual([]);
});

test("the consumer imports every public module", () => {
  expect(consumerText(manifest)).toContain('import * as module1 from "latchkey/stores/memory";');
});
