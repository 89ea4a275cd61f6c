/** Checks that what is registered in `test/registry/` is in every place that no loop reaches, and that nothing is left out there. */
import type { Problem } from "./repository.ts";

export interface Entry {
  readonly name: string;
  /** Files that it must have, from the repository's root. */
  readonly files: readonly string[];
}

export interface Family {
  /** `test/registry/<name>.ts` is the list, and `test/registry/<name>/` has a folder for each entry. */
  readonly name: string;
  readonly entries: readonly Entry[];
  /** Which sources of exported modules belong to it. */
  readonly sources: RegExp;
  /** Texts by path, in which each entry must be named as `latchkey/<name>`. */
  readonly documents: ReadonlyMap<string, string>;
}

export interface RegistryFacts {
  readonly families: readonly Family[];
  /** Paths of files, from the repository's root. */
  readonly files: ReadonlySet<string>;
  /** The source of each exported module, by its name without `./`. */
  readonly sources: ReadonlyMap<string, string>;
}

export function findRegistryProblems(facts: RegistryFacts): readonly Problem[] {
  return facts.families.flatMap((family) => [
    ...unregisteredProblems(family, facts),
    ...family.entries.flatMap((entry) => entryProblems(entry, family, facts)),
  ]);
}

/** Modules and folders that are in no row of the list. */
function unregisteredProblems(
  { name: family, entries, sources: own }: Family,
  { files, sources }: RegistryFacts,
): readonly Problem[] {
  const where = `test/registry/${family}.ts`;
  const names = entries.map(({ name }) => name);
  const modules = [...sources].filter(([, source]) => own.test(source)).map(([module]) => module);
  const folder = `test/registry/${family}/`;
  const folders = [...files]
    .filter((path) => path.startsWith(folder))
    .map((path) => path.slice(folder.length).split("/"))
    .flatMap(([first = "", ...rest]) => (rest.length > 0 ? [first] : []));
  return [...new Set([...modules, ...folders])]
    .filter((name) => !names.includes(name))
    .map((name) => ({ where, message: `leaves out "${name}"` }));
}

function entryProblems(
  { name, files: needed }: Entry,
  { documents }: Family,
  { files, sources }: RegistryFacts,
): readonly Problem[] {
  const missing = needed.filter((path) => !files.has(path)).map((path) => `has no file ${path}`);
  const unexported = sources.has(name) ? [] : ["has no row in exports of packages/latchkey/package.json"];
  const unnamed = [...documents]
    .filter(([, text]) => !text.includes(`latchkey/${name}`))
    .map(([path]) => `is not named in ${path}`);
  return [...missing, ...unexported, ...unnamed].map((message) => ({ where: name, message }));
}
