import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const main = join(import.meta.dirname, "trace.ts");

/** Resolves when the process has ended by itself. */
async function trace(...args: readonly string[]): Promise<string> {
  const node = ["--conditions=latchkey-source", main, ...args];
  return (await promisify(execFile)(process.execPath, node)).stdout;
}

interface Counted {
  readonly files: number;
  readonly functions: number;
  readonly calls: number;
  readonly limit: { readonly files: number; readonly functions: number };
}

interface Entered {
  readonly path: string;
  readonly functions: readonly { readonly name: string; readonly calls: number }[];
}

test("no job enters more files or functions than its limit, and a replay enters fewer than the first request", async () => {
  const jobs = ["first", "replay", "lease", "delivery"];
  const isWithin = ({ files, functions, limit }: Counted) =>
    files <= limit.files && functions <= limit.functions;
  let counted: Readonly<Record<string, Counted>> = {};
  // On a busy machine a timer or a heartbeat can fall into a job, and enters functions of its own.
  for (let tries = 0; tries < 5; tries += 1) {
    counted = JSON.parse(await trace("--json"));
    if (jobs.every((job) => isWithin(counted[job] as Counted))) break;
  }
  for (const job of jobs) {
    expect(counted[job]?.files).toBeGreaterThan(10);
    expect(counted[job]?.functions).toBeGreaterThan(counted[job]?.files ?? 0);
    expect(counted[job]?.calls).toBeGreaterThan(counted[job]?.functions ?? 0);
    expect(counted[job]?.files).toBeLessThanOrEqual(counted[job]?.limit.files ?? 0);
    expect(counted[job]?.functions).toBeLessThanOrEqual(counted[job]?.limit.functions ?? 0);
  }
  expect(counted.replay?.functions).toBeLessThan(counted.first?.functions ?? 0);
});

test("the files of a first request are listed from the adapter down, each once", async () => {
  const files: readonly Entered[] = JSON.parse(await trace("--json", "--list", "first"));
  const paths = files.map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  const way = ["http/express/express.ts", "execution/submit.ts", "sql/pg/bridge.ts", "engine/decide.ts"];
  expect(paths.filter((path) => way.includes(path))).toEqual(way);
  const decide = files.find(({ path }) => path === "engine/decide.ts");
  expect(decide?.functions).toContainEqual(expect.objectContaining({ name: "decide", calls: 1 }));
});

test("a delivery enters the outbox and no file of HTTP; the list is readable without --json", async () => {
  const list = await trace("--list", "delivery");
  expect(list).toMatch(/^1\. workers\/service\.ts\n {3}runOnce:\d+\n2\. workers\/effect-dispatcher\.ts\n/);
  expect(list).toContain(". outbox/deliver.ts\n");
  expect(list).not.toContain("http/");
});

test("an unknown job is rejected with the usage", async () => {
  await expect(trace("--list", "forth")).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("There is no job forth\n\nnpm run trace -- "),
  });
});
