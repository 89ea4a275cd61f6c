import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

/**
 * In place of npm: writes down what it was called with. `test:all` fails as often as the file `failing` has lines, and reports
 * the files on that line; `npm exec` runs the command that it was given.
 */
const npm = `#!/usr/bin/env bash
echo "$*" >>calls
case "$*" in
  "exec "*) shift 3; exec "$@" ;;
  "run test:all"*)
    files=$(head -1 failing)
    sed -i 1d failing
    for argument in "$@"; do
      case $argument in --outputFile.json=*)
        mkdir -p "$(dirname "\${argument#*=}")"
        { printf '{"testResults":[{"name":"%s/fine.test.ts","status":"passed"}' "$PWD"
          for file in $files; do printf ',{"name":"%s/%s","status":"failed"}' "$PWD" "$file"; done
          printf ']}'; } >"\${argument#*=}" ;;
      esac
    done
    [ -z "$files" ] ;;
  *) true ;;
esac
`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "lk-ci-"));
  for (const part of [".ci", "scripts", "bin"]) await mkdir(join(folder, part));
  const root = join(import.meta.dirname, "..");
  for (const file of [".ci/run", "scripts/failed-files.ts"]) {
    await copyFile(join(root, file), join(folder, file));
  }
  await writeFile(join(folder, "README.md"), "npm install && npm test\n");
  await writeFile(join(folder, "bin/npm"), npm);
  await chmod(join(folder, "bin/npm"), 0o755);
});

afterEach(() => rm(folder, { recursive: true }));

/** Runs `.ci/run`; each text in `failing` is the files that fail in one run of `test:all`. */
async function ci(failing: readonly string[]) {
  await writeFile(join(folder, "failing"), failing.map((files) => `${files}\n`).join(""));
  const PATH = `${join(folder, "bin")}${delimiter}${process.env.PATH}`;
  const { promise, resolve } = Promise.withResolvers<{ status: unknown; output: string }>();
  execFile(join(folder, ".ci/run"), { env: { ...process.env, PATH } }, (error, stdout) =>
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

  it("fails at once if more files fail than chance explains", async () => {
    const files = ["a", "b", "c", "d", "e", "f"].map((name) => `test/${name}.test.ts`);
    const { status, all } = await ci([files.join(" ")]);
    expect([status, all.length]).toEqual([1, 1]);
  });
});
