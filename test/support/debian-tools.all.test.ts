import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { notRun } from "./not-run.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory } from "./scratch.ts";

const run = promisify(execFile);
const module = new URL("./debian-tools.ts", import.meta.url).href;
const hasDpkg = existsSync("/usr/bin/dpkg-deb");
if (!hasDpkg) notRun("unpacking Debian's packages", "no dpkg-deb");

function folder(): string {
  const path = scratchDirectory("us");
  onRelease(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A package with one file. */
async function build(name: string, path: string, text: string, to: string): Promise<void> {
  const root = join(folder(), name);
  mkdirSync(join(root, "DEBIAN"), { recursive: true });
  const head = `Package: ${name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@o>\n`;
  writeFileSync(join(root, "DEBIAN/control"), `${head}Description: nothing\n`);
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text, { mode: 0o755 });
  await run("dpkg-deb", ["--build", "--root-owner-group", root, join(to, `${name}_1_all.deb`)]);
}

/** An apt that has two packages, and records its calls. */
function aptWith(debs: string, script: string): string {
  const bin = folder();
  writeFileSync(join(bin, "apt-get"), `#!/bin/sh\necho "$*" >> ${bin}/asked\n${script}`, { mode: 0o755 });
  expect(debs).not.toContain(" ");
  return bin;
}

describe.runIf(hasDpkg)("a program that is not installed on this machine", () => {
  let working = "";
  let failing = "";

  beforeAll(async () => {
    const debs = folder();
    await build(
      "pgbouncer",
      "usr/sbin/pgbouncer",
      '#!/bin/sh\necho "with $LD_LIBRARY_PATH, $PYTHONPATH"\n',
      debs,
    );
    await build("libneeded", "usr/lib/some/libneeded.so.2", "", debs);
    await build("python3-needed", "usr/lib/python3/dist-packages/needed.py", "", debs);
    const simulate =
      "echo 'Inst libneeded (1)'; echo 'Inst python3-needed (1)'; echo 'Inst libc6 [1] (2)'; echo 'Inst pgbouncer (1)'";
    working = aptWith(debs, `case "$*" in *--simulate*) ${simulate};; *download*) cp ${debs}/*.deb .;; esac`);
    failing = aptWith(debs, "exit 100");
  });

  /** Runs in a separate process, which finds apt in `bin` and unpacks into `cache`. */
  async function ask(bin: string, cache: string): Promise<string | null> {
    const code = `import { unpackedTool } from ${JSON.stringify(module)};
      console.log(JSON.stringify(await unpackedTool("pgbouncer")));`;
    const env = { PATH: `${bin}:/usr/bin:/bin`, TMPDIR: cache };
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", code], { env });
    return JSON.parse(stdout) as string | null;
  }

  const cached = (cache: string) => join(cache, readdirSync(cache)[0] ?? "", "debian");

  it("is unpacked with its dependencies, by several processes at once", async () => {
    const cache = folder();
    const [first, ...others] = await Promise.all([1, 2, 3].map(() => ask(working, cache)));
    expect(others).toEqual([first, first]);
    const { stdout } = await run(first ?? "", []);
    const place = `${cached(cache)}/pgbouncer-${process.arch}`;
    expect(stdout).toBe(`with ${place}/usr/lib/some, ${place}/usr/lib/python3/dist-packages\n`);
    expect(readdirSync(cached(cache)), "no drafts stay").toEqual([`pgbouncer-${process.arch}`]);
    const asked = readFileSync(join(working, "asked"), "utf8");
    expect(asked).toMatch(/download pgbouncer libneeded python3-needed$/m);
    expect(asked, "the C library stays the machine's").not.toMatch(/download.*libc6/);
  });

  it("is available without apt from then on, and unpacked again if some of its files were deleted", async () => {
    const cache = folder();
    const path = await ask(working, cache);
    expect(await ask(failing, cache)).toBe(path);
    rmSync(join(cached(cache), `pgbouncer-${process.arch}/usr/sbin/pgbouncer`));
    expect(await ask(working, cache)).toBe(path);
    expect((await run(path ?? "", [])).stdout).toMatch(/^with /);
  });

  it("cannot be fetched without a network: returns null and leaves no files", async () => {
    const cache = folder();
    expect(await ask(failing, cache)).toBeNull();
    expect(readdirSync(cached(cache))).toEqual([]);
    expect(readFileSync(join(failing, "asked"), "utf8"), "it tried lists of its own").toMatch(/^update/m);
  });
});
