/**
 * Checks which file of the library may import which, and which may touch the process's clock and randomness.
 * The rules are in support/boundary-rules.ts; import cycles, barrels and `node:` prefixes are Biome's part.
 */
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";

import { type BoundaryRules, rules } from "./support/boundary-rules.ts";
import { type Problem, readFiles, report, repositoryRoot } from "./support/repository.ts";
import { type ModuleImport, type ModuleSyntax, readSyntax } from "./support/syntax.ts";

/**
 * Finds what breaks `rules`.
 *
 * @param sources texts of the library's modules by path below `src`, without tests
 * @param publicFiles those of them that `package.json` exports
 */
export function findBoundaryProblems(
  sources: ReadonlyMap<string, string>,
  publicFiles: ReadonlySet<string>,
  boundaries: BoundaryRules = rules,
): readonly Problem[] {
  return [...sources].flatMap(([from, text]) => {
    const syntax = readSyntax(text);
    const imports = syntax.imports.flatMap((item) =>
      importProblems(from, item, publicFiles, boundaries).map((message) => ({
        where: `${from}:${item.line}`,
        message,
      })),
    );
    return [...placeProblems(from, boundaries), ...imports, ...portProblems(from, syntax, boundaries)];
  });
}

function importProblems(
  from: string,
  item: ModuleImport,
  publicFiles: ReadonlySet<string>,
  boundaries: BoundaryRules,
): readonly string[] {
  const to = item.specifier.startsWith(".")
    ? posix.join(posix.dirname(from), item.specifier)
    : item.specifier;
  if (boundaries.exceptions.some((exception) => exception.from === from && exception.to === to)) return [];
  if (to.startsWith("..")) return [`imports ${to}, which is outside src`];
  if (!item.specifier.startsWith(".")) return packageProblems(from, to, boundaries);
  const upwards = floorProblems(from, to, boundaries);
  if (upwards.length > 0) return upwards;
  return [
    ...closedProblems(from, to, item.typeOnly, boundaries),
    ...adapterProblems(from, to, publicFiles, boundaries),
    ...innerProblems(from, to, boundaries),
  ];
}

function floorProblems(from: string, to: string, { floors }: BoundaryRules): readonly string[] {
  const [own, other] = [floorOf(from, floors), floorOf(to, floors)];
  if (other === -1) return [`imports ${to}, which belongs to no floor`];
  return other < own ? [`imports ${to}, which is on a floor above it`] : [];
}

function placeProblems(path: string, { floors }: BoundaryRules): readonly Problem[] {
  if (floorOf(path, floors) !== -1) return [];
  return [{ where: `${path}:1`, message: "belongs to no floor; add its folder to `floors`" }];
}

function floorOf(path: string, floors: BoundaryRules["floors"]): number {
  return floors.findIndex((floor) => isOneOf(path, floor));
}

function packageProblems(from: string, specifier: string, boundaries: BoundaryRules): readonly string[] {
  if (!specifier.startsWith("node:")) {
    return [
      `imports the package ${specifier}; type what is needed of it structurally (users may not have it)`,
    ];
  }
  const closed = boundaries.closed.find(({ folder }) => isWithin(from, folder));
  if (closed && !closed.builtins.includes(specifier))
    return [`imports ${specifier}; ${closed.folder} may not`];
  if (boundaries.ports.builtins.includes(specifier) && !isOneOf(from, boundaries.ports.files)) {
    return [`imports ${specifier}; use the ports (Clock, Random) instead`];
  }
  return [];
}

function closedProblems(
  from: string,
  to: string,
  typeOnly: boolean,
  boundaries: BoundaryRules,
): readonly string[] {
  const closed = boundaries.closed.find(({ folder }) => isWithin(from, folder));
  if (!closed || isWithin(to, closed.folder) || isOneOf(to, closed.values ?? [])) return [];
  if (!isOneOf(to, closed.types)) return [`imports ${to}; ${closed.folder} may not`];
  return typeOnly ? [] : [`imports values of ${to}; ${closed.folder} may import only its types`];
}

function adapterProblems(
  from: string,
  to: string,
  publicFiles: ReadonlySet<string>,
  boundaries: BoundaryRules,
): readonly string[] {
  const family = boundaries.families.find(({ folder }) => isWithin(to, folder));
  if (!family || family.core.includes(to) || !publicFiles.has(to)) return [];
  if (isOneOf(from, boundaries.assemblers)) return [];
  const shared = `move what both need into a file of ${family.folder} that is not exported`;
  if (!isWithin(from, family.folder))
    return [`imports the adapter ${to}; import the contract ${family.core[0]}`];
  return [`imports the sibling adapter ${to}; ${shared}`];
}

function innerProblems(from: string, to: string, { families }: BoundaryRules): readonly string[] {
  const family = families.find(({ folder }) => isWithin(to, folder));
  if (family === undefined) return [];
  const { folder, shared, uses, outsideUses = [] } = family;
  const [owner, ...below] = to.slice(folder.length).split("/");
  if (owner === undefined || below.length === 0 || shared.includes(owner)) return [];
  if (!isWithin(from, folder)) {
    if (outsideUses.some((use) => isOneOf(from, use.from) && isOneOf(to, use.of))) return [];
    return [`imports ${to}, which belongs to the adapter ${owner}; name the use in \`outsideUses\``];
  }
  const user = from.slice(folder.length).split("/")[0]?.replace(/\.ts$/, "") ?? "";
  const isNamed = uses.some(({ adapters, of }) => adapters.includes(user) && isOneOf(to, of));
  if (user === owner || isNamed) return [];
  return [
    `imports ${to}, which belongs to the adapter ${owner}; move what both need into a folder that is \`shared\``,
  ];
}

/** Uses of the process's clock, timers and randomness in modules of another package, by path below its `src`. */
export function findPortProblems(
  sources: ReadonlyMap<string, string>,
  boundaries: BoundaryRules = { ...rules, ports: { ...rules.ports, files: [] } },
): readonly Problem[] {
  return [...sources].flatMap(([from, text]) => portProblems(from, readSyntax(text), boundaries));
}

function portProblems(from: string, syntax: ModuleSyntax, boundaries: BoundaryRules): readonly Problem[] {
  if (isOneOf(from, boundaries.ports.files)) return [];
  const uses = [
    ...syntax.reads.filter(({ name }) => boundaries.ports.names.includes(name)),
    ...syntax.emptyCalls.filter(({ name }) => boundaries.ports.emptyCalls.includes(name)),
  ];
  const byPlace = new Map(uses.map((use) => [`${use.line} ${use.name}`, use]));
  return [...byPlace.values()].map(({ name, line }) => ({
    where: `${from}:${line}`,
    message: `uses ${name}; only ports.ts touches the clock, timers and randomness: use Clock or Random`,
  }));
}

function isWithin(path: string, target: string): boolean {
  return target.endsWith("/") ? path.startsWith(target) : path === target;
}

function isOneOf(path: string, targets: readonly string[]): boolean {
  return targets.some((target) => isWithin(path, target));
}

/** Reads the files that `package.json` of the library exports, by path below `src`. */
export function readPublicFiles(packageFolder: string): ReadonlySet<string> {
  const manifest: { exports?: Record<string, { "latchkey-source"?: string }> } = JSON.parse(
    readFileSync(join(packageFolder, "package.json"), "utf8"),
  );
  const sources = Object.values(manifest.exports ?? {}).map((row) => row["latchkey-source"] ?? "");
  return new Set(sources.map((source) => source.replace(/^\.\/src\//, "")));
}

function sourcesOf(packagePath: string): ReadonlyMap<string, string> {
  const all = readFiles(join(repositoryRoot, packagePath, "src"), "**/*.ts");
  return new Map([...all].filter(([path]) => !path.endsWith(".test.ts")));
}

function inFolder(folder: string, problems: readonly Problem[]): readonly Problem[] {
  return problems.map(({ where, message }) => ({ where: `${folder}/${where}`, message }));
}

if (import.meta.main) {
  const packageFolder = join(repositoryRoot, "packages/latchkey");
  const sources = sourcesOf("packages/latchkey");
  const problems = findBoundaryProblems(sources, readPublicFiles(packageFolder));
  const located = [
    ...inFolder("packages/latchkey/src", problems),
    ...inFolder("packages/latchkey-console/src", findPortProblems(sourcesOf("packages/latchkey-console"))),
    ...inFolder(
      "packages/latchkey-client/src",
      findPortProblems(sourcesOf("packages/latchkey-client"), rules),
    ),
    ...inFolder("packages/latchkey-probe/src", findPortProblems(sourcesOf("packages/latchkey-probe"), rules)),
  ];
  report("boundaries", located, `${sources.size} modules of packages/latchkey/src`);
}
