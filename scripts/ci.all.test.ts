import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

/**
 * In place of npm: writes down what it was called with. `test:all` fails as often as the file `failing` has lines, and reports
 * the files on that line; after `unreported`, it reports none.
 */
const npm = `#!/usr/bin/env bash
echo "$*" >>calls
case "$*" in
  "run test:all"*)
    files=$(head -1 failing)
    sed -i 1d failing
    mkdir -p "$(dirname "$LATCHKEY_FAILED_FILES")"
    [ "$files" = unreported ] || printf '%s\\n' $files >"$LATCHKEY_FAILED_FILES"
    [ -z "$files" ] ;;
  *) true ;;
esac
`;

const root = join(import.meta.dirname, "..");
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "lk-ci-"));
  for (const part of [".ci", "bin"]) await mkdir(join(folder, part));
  await copyFile(join(root, ".ci/run"), join(folder, ".ci/run"));
  await writeFile(join(folder, "README.md"), "npm install && npm test\n");
  await writeFile(join(folder, "bin/npm"), npm);
  await chmod(join(folder, "bin/npm"), 0o755);
  const git = (...args: readonly string[]) => promisify(execFile)("git", args, { cwd: folder });
  await git("init", "--quiet");
  await git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--allow-empty", "-m", "first");
});

afterEach(() => rm(folder, { recursive: true }));

/** Runs `.ci/run`; each text in `failing` is the files that fail in one run of `test:all`. */
async function ci(failing: readonly string[], env: Readonly<Record<string, string>> = {}) {
  await writeFile(join(folder, "failing"), failing.map((files) => `${files}\n`).join(""));
  const PATH = `${join(folder, "bin")}${delimiter}${process.env.PATH}`;
  const { promise, resolve } = Promise.withResolvers<{ status: unknown; output: string }>();
  execFile(join(folder, ".ci/run"), { env: { ...process.env, ...env, PATH } }, (error, stdout) =>
    resolve({ status: error?.code ?? 0, output: stdout }),
  );
  const { status, output } = await promise;
  const calls = (await readFile(join(folder, "calls"), "utf8")).split("\n");
  return { status, output, all: calls.filter((call) => call.startsWith("run test:all")) };
}

describe(".ci/run", () => {
  it("runs every combination once if none fails", async () => {
    const { status, all } = await ci([]);
    expect(status).toBe(0);
    expect(all).toHaveLength(1);
  });

  it("runs a file that failed again, and reports it as flaky if it passes", async () => {
    const { status, output, all } = await ci(["test/a.test.ts"]);
    expect(output).toContain("ci: FLAKY, passed when run again: test/a.test.ts");
    expect([status, all[1]]).toEqual([0, "run test:all -- test/a.test.ts"]);
  });

  it("fails if a file fails twice", async () => {
    const { status, output } = await ci(["test/a.test.ts test/b.test.ts", "test/b.test.ts"]);
    expect(output).toContain("ci: FAILED with 1: npm run test:all -- test/a.test.ts test/b.test.ts");
    expect(status).toBe(1);
  });

  it("fails at once if running files again would show nothing", async () => {
    const { status, output, all } = await ci(["unreported"]);
    expect(output).toContain("ci: FAILED with 1: npm run test:all");
    expect([status, all.length]).toEqual([1, 1]);
  });

  it("runs a part where all of it does not fit into the time left", async () => {
    const { all } = await ci([], { SECONDS: "1000" });
    expect(all).toEqual([expect.stringMatching(/ --shard=[1-6]\/6$/u)]);
  });

  it("says so where no time is left", async () => {
    const { status, output, all } = await ci([], { SECONDS: "2500" });
    expect(output).toContain("ci: npm run test:all was not run: no time left");
    expect([status, all]).toEqual([0, []]);
  });
});

describe("the files that failed", () => {
  const fails = 'test("fails", () => { throw new Error("failed"); });';
  const passes = 'test("passes", () => {});';
  const rejects = 'test("leaves a rejection", () => void Promise.reject(new Error("unhandled")));';

  it.each([
    ["are written", { "a.test.js": fails, "b.test.js": passes }, "a.test.js\n"],
    ["are not written beside an unhandled error", { "a.test.js": fails, "b.test.js": rejects }, null],
    [
      "are not written if there are many",
      Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [`${name}.test.js`, fails])),
      null,
    ],
  ])("%s", async (_what, files, expected) => {
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, "vitest.config.js"), "export default {};\n");
    for (const [name, body] of Object.entries(files)) {
      await writeFile(join(folder, name), `import { test } from "vitest";\n${body}\n`);
    }
    const path = join(folder, "failed");
    const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--root", folder];
    const reporter = `--reporter=${join(root, "scripts/failed-files.ts")}`;
    const env = { ...process.env, LATCHKEY_FAILED_FILES: path };
    const run = promisify(execFile)(process.execPath, [...args, reporter], { cwd: folder, env });
    await expect(run).rejects.toMatchObject({ code: 1 });
    expect(await readFile(path, "utf8").catch(() => null)).toBe(expected);
  });
});
