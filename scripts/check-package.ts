/**
 * Checks the library as its users get it: builds and packs a copy, checks the tarball with publint and attw, then type-checks
 * and runs a consumer that has only Node's types installed. Needs no network.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { findLoadProblems } from "./support/loaded.ts";
import { readMarkdown } from "./support/markdown.ts";
import { conformanceUse, consoleUse, probeUse } from "./support/package-uses.ts";
import { type Problem, report, repositoryRoot } from "./support/repository.ts";

/** The relevant part of a published package.json. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly bundleDependencies?: readonly string[];
}

interface Packed {
  readonly tarball: string;
  readonly size: number;
  readonly files: readonly string[];
}

const packageFolder = "packages/latchkey";
const consoleFolder = "packages/latchkey-console";
const conformanceFolder = "packages/latchkey-conformance";
const probeFolder = "packages/latchkey-probe";
/** Of the library's tarball, in bytes. */
const sizeMax = 415_000;
const clientFolder = "packages/latchkey-client";
/** What every tarball must contain in addition to what `exports` and `bin` name. */
const neededFiles = ["LICENSE", "README.md", "package.json"];
/** What no tarball may contain: sources (they would be a second copy of the library), tests, leftovers of the build. */
const strayFile = /^src\/|\.test\.|(?<!\.d)\.ts$|\.tsbuildinfo$|(^|\/)\./;

/** Checks the packed package.json: no dependency of any kind. */
export function findManifestProblems(manifest: Manifest): readonly string[] {
  const kinds = ["dependencies", "peerDependencies", "optionalDependencies", "bundleDependencies"] as const;
  return kinds
    .map((kind) => ({ kind, names: Object.keys(manifest[kind] ?? {}) }))
    .filter(({ names }) => names.length > 0)
    .map(({ kind, names }) => `package.json has ${kind} (${names.join(", ")}); the library has none`);
}

/** Compares the tarball's files with what package.json promises. */
export function findContentProblems(manifest: Manifest, files: readonly string[]): readonly string[] {
  const exported = Object.values(manifest.exports).flatMap(({ types, default: built }) => [types, built]);
  const named = [...exported, ...Object.values(manifest.bin ?? {})].map(
    (path) => path?.replace(/^\.\//, "") ?? "",
  );
  const missing = [...neededFiles, ...named].filter((path) => !files.includes(path));
  return [
    ...missing.map((path) => `the tarball lacks ${path}`),
    ...files.filter((path) => strayFile.test(path)).map((path) => `the tarball holds ${path}`),
  ];
}

/** Relative links of a README to files that the tarball does not have: readers on the registry could not follow them. */
export function findReadmeProblems(readme: string, files: readonly string[]): readonly string[] {
  return readMarkdown("README.md", readme)
    .links.map(({ target }) => target.split("#")[0] ?? "")
    .filter((target) => target !== "" && !/^[a-z][a-z+.-]*:/iu.test(target) && !files.includes(target))
    .map((target) => `README.md links to ${target}, which is not in the tarball`);
}

/** A module that imports every public module, as types and as values. */
export function consumerText(manifest: Manifest): string {
  const specifiers = Object.keys(manifest.exports).map((subpath) => `${manifest.name}${subpath.slice(1)}`);
  return [
    ...specifiers.map((specifier, index) => `import * as module${index} from "${specifier}";`),
    `export const modules: readonly object[] = [${specifiers.map((_, index) => `module${index}`).join(", ")}];`,
    "",
  ].join("\n");
}

/**
 * Runs a program without the repository's own settings. Returns its output if it fails, or if no output matches `expected`;
 * otherwise undefined.
 */
function failureOf(
  program: string,
  args: readonly string[],
  cwd: string,
  expected: RegExp = /^/u,
): string | undefined {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const result = spawnSync(program, args, { cwd, encoding: "utf8", env: { ...env, NO_COLOR: "1" } });
  if (result.status === 0 && expected.test(result.stdout)) return undefined;
  const printed = `${result.error?.message ?? ""}${result.stdout ?? ""}${result.stderr ?? ""}`.trim();
  return `\`${[basename(program), ...args].join(" ")}\` ended with ${result.status}:\n${printed}`;
}

function nodeTool(path: string): string {
  return join(repositoryRoot, "node_modules", path);
}

/**
 * The working folder of `pack`: below the repository, so that the build finds the compiler, and outside node_modules, whose
 * files it would not bundle.
 */
export function packingFolder(): string {
  return mkdtempSync(join(repositoryRoot, ".packing-"));
}

/** Packs a copy, so that the build starts from nothing and leaves nothing in the working tree. */
export function pack(scratch: string, folder: string = packageFolder): Packed | string {
  const copy = join(scratch, folder);
  const skip = new Set(["dist", "node_modules"]);
  cpSync(join(repositoryRoot, folder), copy, {
    recursive: true,
    filter: (path) => !skip.has(basename(path)),
  });
  for (const shared of ["tsconfig.base.json", "tsdown.base.js"]) {
    cpSync(join(repositoryRoot, shared), join(scratch, shared));
  }
  const { NODE_OPTIONS: _, ...env } = process.env;
  const result = spawnSync("npm", ["pack", "--json", "--silent", "--pack-destination", scratch], {
    cwd: copy,
    encoding: "utf8",
    env,
  });
  if (result.status !== 0) return `npm pack failed:\n${result.stdout}${result.stderr}`;
  const json = result.stdout.slice(result.stdout.search(/^[[{]/m));
  const [first]: readonly { filename: string; size: number; files: readonly { path: string }[] }[] =
    Object.values(JSON.parse(json));
  if (!first) return `npm pack reported no tarball:\n${result.stdout}`;
  const { filename, size } = first;
  return { tarball: join(scratch, filename), size, files: first.files.map(({ path }) => path) };
}

/** As npm installs it. Returns the folder. */
function unpackInto(folder: string, name: string, tarball: string): string {
  const installed = join(folder, "node_modules", name);
  mkdirSync(installed, { recursive: true });
  const failure = failureOf("tar", ["-xzf", tarball, "--strip-components=1", "-C", installed], folder);
  if (failure) throw new Error(failure);
  return installed;
}

/** Unpacks the tarball beside Node's types and nothing else, outside the repository. Returns the folder. */
function installConsumer(tarball: string, consumer: string): Manifest {
  const installed = unpackInto(consumer, "latchkey", tarball);
  for (const types of ["@types/node", "undici-types"]) {
    cpSync(nodeTool(types), join(consumer, "node_modules", types), { recursive: true });
  }
  const manifest: Manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  linkCommands(manifest, installed, join(consumer, "node_modules/.bin"));
  writeFileSync(join(consumer, "package.json"), JSON.stringify({ type: "module", private: true }));
  writeFileSync(join(consumer, "consumer.ts"), consumerText(manifest));
  const compilerOptions = {
    target: "es2023",
    module: "nodenext",
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
  };
  writeFileSync(join(consumer, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["consumer.ts"] }));
  return manifest;
}

/** As npm does when it installs a package. */
function linkCommands({ bin = {} }: Manifest, installed: string, commands: string): void {
  mkdirSync(commands, { recursive: true });
  for (const [name, path] of Object.entries(bin)) {
    chmodSync(join(installed, path), 0o755);
    symlinkSync(join(installed, path), join(commands, name));
  }
}

function consumerProblems(manifest: Manifest, consumer: string): readonly (string | undefined)[] {
  const { node } = process.versions;
  const bins = Object.values(manifest.bin ?? {}).map((path) => join("node_modules/latchkey", path));
  return [
    failureOf(process.execPath, [nodeTool("typescript/bin/tsc"), "-p", "."], consumer),
    failureOf(process.execPath, ["consumer.ts"], consumer)?.replace(/^/, `on Node ${node}, `),
    failureOf(nodeTool(".bin/bun"), ["consumer.ts"], consumer)?.replace(/^/, "on Bun, "),
    failureOf(
      nodeTool(".bin/deno"),
      ["run", "--allow-all", "--no-check", "--node-modules-dir=manual", "consumer.ts"],
      consumer,
    )?.replace(/^/, "on Deno, "),
    ...bins.map((path) => failureOf(process.execPath, [path, "--help"], consumer)),
    ...bins.map((path) =>
      failureOf(process.execPath, [path, "--version"], consumer, new RegExp(`^${manifest.version}$`, "mu")),
    ),
    // The package's own name is its command: what `npx` runs, with the migrations that came with it.
    failureOf("npx", ["--no", manifest.name, "migrate", "--sql"], consumer, /create table .*records/iu),
  ];
}

function checkPackage(scratch: string, consumer: string): readonly string[] {
  const packed = pack(scratch);
  if (typeof packed === "string") return [packed];
  const manifest = installConsumer(packed.tarball, consumer);
  return [
    ...findManifestProblems(manifest),
    packed.size > sizeMax ? `the tarball has ${packed.size} bytes, more than ${sizeMax}` : undefined,
    ...tarballProblems(scratch, manifest, packed),
    ...findLoadProblems(manifest.exports, join(consumer, "node_modules", manifest.name)),
    ...consumerProblems(manifest, consumer),
    ...consoleProblems(scratch, consumer, packed.tarball),
    ...conformanceProblems(scratch, consumer),
    ...clientProblems(scratch, consumer),
    ...probeProblems(scratch, consumer),
  ].filter((problem) => problem !== undefined);
}

function tarballProblems(
  scratch: string,
  manifest: Manifest,
  packed: Packed,
): readonly (string | undefined)[] {
  const tarball = relative(scratch, packed.tarball);
  return [
    ...findContentProblems(manifest, packed.files),
    ...findReadmeProblems(readmeOf(manifest), packed.files),
    failureOf(process.execPath, [nodeTool("publint/src/cli.js"), "run", tarball, "--strict"], scratch),
    failureOf(
      process.execPath,
      [nodeTool("@arethetypeswrong/cli/dist/index.js"), tarball, "--profile", "esm-only", "--no-emoji"],
      scratch,
    ),
  ];
}

function readmeOf({ name }: Manifest): string {
  return readFileSync(join(repositoryRoot, "packages", name, "README.md"), "utf8");
}

/** Built against the packed library, which its users have beside it. */
function consoleProblems(
  scratch: string,
  consumer: string,
  library: string,
): readonly (string | undefined)[] {
  const missing = failureOf(
    "npx",
    ["--no", "latchkey", "console", "--database-url", "postgres://x@localhost/x"],
    consumer,
  );
  const says = missing?.includes('"latchkey-console" is not installed') === true;
  unpackInto(scratch, "latchkey", library);
  const packed = pack(scratch, consoleFolder);
  if (typeof packed === "string") return [packed];
  const installed = unpackInto(consumer, "latchkey-console", packed.tarball);
  const manifest: Manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  writeFileSync(join(consumer, "consumer.ts"), consoleUse);
  return [
    says ? undefined : `latchkey console does not say that its package is missing:\n${missing}`,
    manifest.dependencies === undefined ? undefined : "latchkey-console has dependencies",
    ...tarballProblems(scratch, manifest, packed),
    failureOf(process.execPath, [nodeTool("typescript/bin/tsc"), "-p", "."], consumer),
    failureOf(process.execPath, ["consumer.ts"], consumer, /index-.*\.js[\s\S]*counted 200/u),
  ];
}

/** Built against the packed library, and run on it: its suite is the widest use of what was packed. */
function conformanceProblems(scratch: string, consumer: string): readonly (string | undefined)[] {
  const packed = pack(scratch, conformanceFolder);
  if (typeof packed === "string") return [packed];
  const installed = unpackInto(consumer, "latchkey-conformance", packed.tarball);
  const manifest: Manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  writeFileSync(join(consumer, "consumer.ts"), conformanceUse);
  return [
    manifest.dependencies === undefined ? undefined : "latchkey-conformance has dependencies",
    ...tarballProblems(scratch, manifest, packed),
    failureOf(process.execPath, [nodeTool("typescript/bin/tsc"), "-p", "."], consumer),
    failureOf(process.execPath, ["consumer.ts"], consumer, /cases passed [1-9]\d\d/u),
  ];
}

/** Beside nothing that its sub-entries work with: their types must not need it. */
function clientProblems(scratch: string, consumer: string): readonly (string | undefined)[] {
  const packed = pack(scratch, clientFolder);
  if (typeof packed === "string") return [packed];
  const installed = unpackInto(consumer, "latchkey-client", packed.tarball);
  const manifest: Manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  writeFileSync(join(consumer, "consumer.ts"), consumerText(manifest));
  return [
    ...findManifestProblems(manifest),
    ...tarballProblems(scratch, manifest, packed),
    failureOf(process.execPath, [nodeTool("typescript/bin/tsc"), "-p", "."], consumer),
    failureOf(process.execPath, ["consumer.ts"], consumer),
  ];
}

/** Copies what a package depends on, as npm would install it. */
function installDependencies({ dependencies = {} }: Manifest, consumer: string): void {
  for (const name of Object.keys(dependencies)) {
    const target = join(consumer, "node_modules", name);
    cpSync(nodeTool(name), target, { recursive: true });
    installDependencies(JSON.parse(readFileSync(join(target, "package.json"), "utf8")), consumer);
  }
}

/** Runs the command as npx does, with only its dependencies installed. */
function probeProblems(scratch: string, consumer: string): readonly (string | undefined)[] {
  const packed = pack(scratch, probeFolder);
  if (typeof packed === "string") return [packed];
  const installed = unpackInto(consumer, "latchkey-probe", packed.tarball);
  const manifest: Manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  linkCommands(manifest, installed, join(consumer, "node_modules/.bin"));
  installDependencies(manifest, consumer);
  writeFileSync(join(consumer, "consumer.ts"), probeUse);
  return [
    ...tarballProblems(scratch, manifest, packed),
    failureOf(
      process.execPath,
      ["node_modules/.bin/latchkey-probe", "--version"],
      consumer,
      /^\d+\.\d+\.\d+/u,
    ),
    failureOf(
      "npx",
      ["--no", manifest.name, "http://127.0.0.1:9/", "--dry-run"],
      consumer,
      /Nothing was sent/u,
    ),
    failureOf(process.execPath, [nodeTool("typescript/bin/tsc"), "-p", "."], consumer),
    failureOf(process.execPath, ["consumer.ts"], consumer, /^0 faults in 0 checks, [1-9]/mu),
  ];
}

if (import.meta.main) {
  const scratch = packingFolder();
  const consumer = mkdtempSync(join(tmpdir(), "latchkey-consumer-"));
  try {
    const problems: readonly Problem[] = checkPackage(scratch, consumer).map((message) => ({
      where: packageFolder,
      message,
    }));
    report("package", problems, "packed, publint, attw, type-checked and run as a consumer");
  } finally {
    rmSync(scratch, { recursive: true });
    rmSync(consumer, { recursive: true });
  }
}
