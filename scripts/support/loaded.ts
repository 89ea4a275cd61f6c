/** What a module of a built package loads: files, by its static imports, and what they import from elsewhere. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface Loaded {
  /** Paths from the package's folder, the module's own first. */
  readonly files: readonly string[];
  /** Modules outside the package, as they are named. */
  readonly outside: readonly string[];
}

const staticImport = /(?:^|[;}\n])(?:import|export)(?:[\s\w$*{},]*?from)?\s*"([^"]+)"/gu;

/** Follows static imports: what `import()` loads is loaded when it is needed. */
export function loadedBy(file: string, read: (path: string) => string): Loaded {
  const files = [file];
  const outside = new Set<string>();
  for (const path of files) {
    for (const [, specifier = ""] of read(path).matchAll(staticImport)) {
      if (!specifier.startsWith(".")) outside.add(specifier);
      else {
        const next = join(dirname(path), specifier);
        if (!files.includes(next)) files.push(next);
      }
    }
  }
  return { files, outside: [...outside] };
}

/** Adapters, which are chosen one by one: a folder of `dist` for each family. */
const families = ["sql", "http", "messages", "tools", "webhooks"];

interface Entry extends Loaded {
  readonly name: string;
  readonly family: string;
  readonly text: string;
  /** Functions and classes of the entry's own. */
  readonly defines: readonly string[];
}

/**
 * Checks that no module loads anything but itself and Node's, and that no adapter loads the code of another one of its family.
 *
 * @param exports of package.json
 * @param folder where the package is unpacked
 */
export function findLoadProblems(
  exports: Readonly<Record<string, Readonly<Record<string, string>>>>,
  folder: string,
  read: (path: string) => string = (path) => readFileSync(join(folder, path), "utf8"),
): readonly string[] {
  const entries = Object.entries(exports).map(([name, { default: built = "" }]) =>
    entryOf(name, join(built), read),
  );
  return entries.flatMap((entry) => [
    ...entry.outside
      .filter((specifier) => !specifier.startsWith("node:"))
      .map((specifier) => `${entry.name} loads ${specifier}`),
    ...entries
      .filter(
        ({ family, name }) => name !== entry.name && family === entry.family && families.includes(family),
      )
      .flatMap((other) =>
        other.defines
          .filter((name) => !entry.defines.includes(name) && defines(entry.text, name))
          .map((name) => `${entry.name} loads ${name} of ${other.name}`),
      ),
  ]);
}

function entryOf(name: string, file: string, read: (path: string) => string): Entry {
  const loaded = loadedBy(file, read);
  const text = loaded.files.map(read).join("\n");
  const [, family = ""] = file.split("/");
  return {
    ...loaded,
    name,
    family,
    text,
    defines: exportedBy(read(file)).filter((own) => defines(text, own)),
  };
}

function exportedBy(text: string): readonly string[] {
  const lists = [...text.matchAll(/export\s*\{([^}]*)\}/gu)].map(([, list = ""]) => list);
  return lists
    .flatMap((list) => list.split(",").map((one) => one.replace(/^.*\bas\b/u, "").trim()))
    .filter(Boolean);
}

function defines(text: string, name: string): boolean {
  return new RegExp(`\\b(?:function|class)\\s+${name.replaceAll("$", "\\$")}\\b`, "u").test(text);
}
