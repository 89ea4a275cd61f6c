/** docs/commonjs.md, line by line, in projects that have the library as it is packed. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pack, packingFolder } from "../../scripts/check-package.ts";
import { repositoryRoot } from "../../scripts/support/repository.ts";

const here = import.meta.dirname;
const { resolve } = createRequire(import.meta.url);
const binary = (name: string, path: string) => join(dirname(resolve(`${name}/package.json`)), path);
const jest = binary("jest", "bin/jest.js");
const compilers = {
  "TypeScript 6": binary("typescript", "bin/tsc"),
  "TypeScript 7": join(repositoryRoot, "node_modules/typescript/bin/tsc"),
};

let scratch = "";
let library = "";
/** The package.json of `npm init -y`, which looks for one in the folders above first. */
let initial = "";
const projects: string[] = [];

beforeAll(() => {
  scratch = packingFolder();
  const packed = pack(scratch);
  if (typeof packed === "string") throw new Error(packed);
  library = join(scratch, "package");
  run("tar", ["-xzf", packed.tarball, "-C", scratch], scratch);
  const elsewhere = mkdtempSync(join(tmpdir(), "latchkey-init-"));
  projects.push(elsewhere);
  run("npm", ["init", "-y"], elsewhere);
  initial = readFileSync(join(elsewhere, "package.json"), "utf8");
});
afterAll(() => {
  for (const folder of [scratch, ...projects]) rmSync(folder, { recursive: true, force: true });
});

/** Code blocks of the page, in order. */
function blocks(language: string): readonly string[] {
  const page = readFileSync(join(repositoryRoot, "docs/commonjs.md"), "utf8");
  const found = [...page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gmsu"))];
  return found.map(([, text = ""]) => text);
}
const [esm = "", commonjs = "", flagged = ""] = blocks("json");
const [withSwc = "", withTsJest = ""] = blocks("js");

function run(program: string, args: readonly string[], cwd: string, env: Record<string, string> = {}) {
  const { NODE_OPTIONS: _, ...inherited } = process.env;
  const result = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    env: { ...inherited, NO_COLOR: "1", ...env },
  });
  return { status: result.status, output: `${result.stdout}${result.stderr}` };
}
const node = (args: readonly string[], cwd: string, env?: Record<string, string>) =>
  run(process.execPath, args, cwd, env);

/** A folder as `npm init -y` and `npm install latchkey` leave it. Tools are found above it. */
function project(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(here, "project-"));
  projects.push(folder);
  writeFileSync(join(folder, "package.json"), initial);
  cpSync(library, join(folder, "node_modules/latchkey"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

function amend(path: string, more: string): void {
  const { compilerOptions = {}, ...given } = JSON.parse(more);
  // tsc --init writes comments and trailing commas.
  const bare = readFileSync(path, "utf8")
    .replaceAll(/\/\/.*$|\/\*.*?\*\//gmu, "")
    .replaceAll(/,(?=\s*[}\]])/gu, "");
  const before = JSON.parse(bare);
  const all = { ...before, ...given };
  if ("compilerOptions" in before) all.compilerOptions = { ...before.compilerOptions, ...compilerOptions };
  writeFileSync(path, JSON.stringify(all));
}

const body = `
async function runTwice() {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("orders.create", { writes: "none" });
  const request = { tenant: "t", key: "k", input: {} };
  const answers = [];
  for (let i = 0; i < 2; i++) answers.push((await latchkey.run(operation, request, async () => ({ made: true }))).kind);
  return [answers.join(), migratePostgresSql.name, typeof expressProtect, new NotExecuted() instanceof Error].join();
}
`;
const expected = "executed,replay,migratePostgresSql,function,true";
const required = `
const { createLatchkey, NotExecuted } = require("latchkey");
const { expressProtect } = require("latchkey/express");
const { memoryStore } = require("latchkey/memory");
const { migratePostgresSql } = require("latchkey/postgres");
${body}`;
const imported = `
import { createLatchkey, NotExecuted } from "latchkey";
import { expressProtect } from "latchkey/express";
import { memoryStore } from "latchkey/memory";
import { migratePostgresSql } from "latchkey/postgres";
${body.replace("const answers = []", "const answers: string[] = []")}`;
const printed = "void runTwice().then(console.log);";
const tested = `test("runs once", async () => expect(await runTwice()).toBe("${expected}"));`;

test("Node: require gives what import does", () => {
  const same = `import("latchkey").then((imported) => console.log(imported.NotExecuted === NotExecuted));`;
  const folder = project({ "index.js": `${required}${printed}${same}` });
  const { status, output } = node(["index.js"], folder);
  expect([status, output.trim().split("\n").sort()]).toEqual([0, [expected, "true"]]);
});

describe.each(Object.entries(compilers))("%s, as tsc --init has it,", (_, compiler) => {
  const start = () => {
    const folder = project({ "index.ts": `${imported}${printed}` });
    expect(node([compiler, "--init"], folder).status).toBe(0);
    amend(join(folder, "tsconfig.json"), '{ "compilerOptions": { "types": ["node"] } }');
    return folder;
  };
  const build = (folder: string) => node([compiler, "-p", ".", "--outDir", "dist"], folder);

  test("and npm init's package.json do not fit each other, whatever is imported", () => {
    expect(build(start()).output).toContain("TS1295");
  });

  test.each([
    ["package.json", esm],
    ["tsconfig.json", commonjs],
  ])("with the line in %s", (file, line) => {
    const folder = start();
    amend(join(folder, file), line);
    expect(build(folder)).toEqual({ status: 0, output: "" });
    expect(node(["dist/index.js"], folder)).toEqual({ status: 0, output: `${expected}\n` });
  });
});

describe("Jest", () => {
  const files = { "orders.spec.js": `${required}${tested}` };
  const runJest = (folder: string, env = {}) => node([jest, "--rootDir", "."], folder, env);

  test("by default refuses ES modules", () => {
    expect(runJest(project(files)).output).toContain("Must use import to load ES Module");
  });

  test("under the flag of the page", () => {
    const [, flag = ""] = /NODE_OPTIONS=(\S+) jest/u.exec(JSON.parse(flagged).scripts.test) ?? [];
    const { status, output } = runJest(project(files), { NODE_OPTIONS: flag });
    expect([status, output]).toEqual([0, expect.stringContaining("1 passed, 1 total")]);
  });

  test("with the two lines of the page, in JavaScript and TypeScript", () => {
    const typescript = { "more.spec.ts": `${imported}${tested}` };
    const { status, output } = runJest(project({ ...files, ...typescript, "jest.config.js": withSwc }));
    expect([status, output]).toEqual([0, expect.stringContaining("2 passed, 2 total")]);
  });

  test("with ts-jest for the project's own files", () => {
    const folder = project({ "more.spec.ts": `${imported}${tested}`, "jest.config.js": withTsJest });
    const compilerOptions = { module: "nodenext", target: "es2024", strict: true, types: ["node", "jest"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
    const { status, output } = runJest(folder);
    expect([status, output]).toEqual([0, expect.stringContaining("1 passed, 1 total")]);
  });
});
