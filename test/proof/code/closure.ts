/** What a tier really loads, and two digests of it: of the library's part, and of its own harness and judge. */
import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { TierId } from "../harness/tier.ts";
import type { Files } from "./files.ts";
import { type Module, type Resolve, readModule } from "./module.ts";

/** Both digests; evidence is about today's code when both are today's. */
export interface Code {
  readonly library: string;
  readonly harness: string;
}

export interface Closure {
  readonly library: readonly Module[];
  readonly harness: readonly Module[];
}

const library = "packages/latchkey";
/** P7 runs the other tiers through it; how it keeps the ledger is no evidence's matter. */
const command = "test/proof/main.ts";
const tiersTable = "test/proof/tiers.ts";

/** Reads closures of one working tree; each file once. */
export function closuresOf(files: Files): (tier: TierId) => Closure {
  const known = new Map<string, Module>();
  const resolve = resolver(files);
  const read = (path: string): Module => {
    const module = known.get(path) ?? readModule(files, path, resolve);
    known.set(path, module);
    return module;
  };
  return (tier) => split(reach(entriesOf(files, tier), read));
}

function reach(entries: readonly string[], read: (path: string) => Module): readonly Module[] {
  const reached = new Map<string, Module>();
  const left = [...entries];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const path = next === command ? tiersTable : next;
    if (reached.has(path)) continue;
    const module = read(path);
    reached.set(path, module);
    left.push(...module.imports.map(({ target }) => target), ...module.loads);
  }
  return [...reached.values()];
}

function split(modules: readonly Module[]): Closure {
  const isLibrary = ({ path }: Module) => path.startsWith(`${library}/`) && !path.endsWith(".test.ts");
  return {
    library: modules.filter(isLibrary),
    harness: modules.filter((module) => !isLibrary(module)),
  };
}

export function codeOf(closure: Closure): Code {
  return { library: digestOf(closure.library), harness: digestOf(closure.harness) };
}

/**
 * The same for the same modules under other paths: each is known by its code and by what is behind its imports.
 * Imports go in circles, so identities are refined, round for round, until no more modules can be told apart.
 */
export function digestOf(modules: readonly Module[]): string {
  const own = new Map(modules.map((module) => [module.path, hash(module.lines)]));
  let identities = own;
  for (let kinds = 0, next = kindsOf(own); next > kinds; ) {
    kinds = next;
    identities = refined(modules, own, identities);
    next = kindsOf(identities);
  }
  return hash([...identities.values()].sort()).slice(0, 16);
}

function refined(
  modules: readonly Module[],
  own: ReadonlyMap<string, string>,
  identities: ReadonlyMap<string, string>,
): Map<string, string> {
  const behind = (path: string) => identities.get(path) ?? "elsewhere";
  return new Map(
    modules.map(({ path, imports, loads }) => {
      const clauses = imports.map(({ clause, target }) => `${clause} ${behind(target)}`).sort();
      return [path, hash([own.get(path) ?? "", ...clauses, "", ...loads.map(behind)])];
    }),
  );
}

function kindsOf(identities: ReadonlyMap<string, string>): number {
  return new Set(identities.values()).size;
}

function hash(parts: readonly string[]): string {
  return createHash("sha256").update(parts.join("\0")).digest("hex");
}

/** `./x.ts`, and the package's own names by their source. */
function resolver(files: Files): Resolve {
  const manifest = JSON.parse(files.read(`${library}/package.json`) ?? "{}") as {
    readonly name: string;
    readonly exports: Readonly<Record<string, { readonly "latchkey-source"?: string }>>;
  };
  const byName = new Map(
    Object.entries(manifest.exports).flatMap(([name, { "latchkey-source": source }]) =>
      source === undefined ? [] : [[posix.join(manifest.name, name), posix.join(library, source)]],
    ),
  );
  return (specifier, from) => {
    if (!specifier.startsWith(".")) return byName.get(specifier) ?? null;
    const path = posix.join(posix.dirname(from), specifier);
    return files.read(path) === null ? null : path;
  };
}

const folders: Readonly<Record<TierId, string>> = {
  P0: "p0-model",
  P1: "p1-schedules",
  P2: "p2-random",
  P3: "p3-stores",
  P4: "p4-statements",
  P5: "p5-kills",
  P6: "p6-soak",
  P7: "p7-planted",
};

/** Where a tier begins. Stryker finds the tests that judge its mutants by their names alone. */
function entriesOf(files: Files, tier: TierId): readonly string[] {
  const engine = `${library}/src/engine`;
  const tests = tier === "P7" ? files.names(engine).filter((name) => name.endsWith(".test.ts")) : [];
  return [`test/proof/${folders[tier]}/tier.ts`, ...tests.map((name) => `${engine}/${name}`)];
}
