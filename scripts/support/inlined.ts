/**
 * Statements and scripts lie in files of their own; the library imports them from one generated module for each folder,
 * so that sources, bundles and the package need no step that reads files.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { repositoryRoot } from "./repository.ts";

interface Inlined {
  readonly folder: string;
  readonly extension: string;
  /** Of the constant in the generated module. */
  readonly name: string;
  /** Between lines. */
  readonly separator: string;
}

const folders: readonly Inlined[] = [
  { folder: "packages/latchkey/src/caching/scripts", extension: ".lua", name: "lua", separator: "\n" },
  { folder: "packages/latchkey/src/stores/redis/scripts", extension: ".lua", name: "lua", separator: "\n" },
  { folder: "packages/latchkey/src/stores/postgres/sql", extension: ".sql", name: "sql", separator: " " },
];

/** The generated module of every folder. */
export function inlinedModules(): readonly { readonly path: string; readonly text: string }[] {
  return folders.map((of) => ({ path: `${of.folder}/texts.ts`, text: moduleOf(of) }));
}

function moduleOf({ folder, extension, name, separator }: Inlined): string {
  const files = readdirSync(join(repositoryRoot, folder))
    .filter((file) => extname(file) === extension)
    .sort();
  const rows = files.map((file) => {
    const text = readFileSync(join(repositoryRoot, folder, file), "utf8");
    return `  ${keyOf(basename(file, extension))}: ${literal(withoutComments(text).join(separator))},`;
  });
  const origin = `/** Generated from the ${extension} files of this folder by \`npm run docs:generate\`. Do not edit. */`;
  return `${origin}\nexport const ${name} = {\n${rows.join("\n")}\n};\n`;
}

/** `start-call` is `startCall`. */
function keyOf(file: string): string {
  return file.replaceAll(/-([a-z])/gu, (_, letter: string) => letter.toUpperCase());
}

/** Removes comment lines, indentation, and the semicolon at the end of a file: they would be sent, and packed. */
function withoutComments(text: string): readonly string[] {
  return text
    .replace(/;\s*$/u, "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("--"));
}

function literal(text: string): string {
  return `\`${text.replaceAll(/\\|`|\$\{/gu, "\\$&")}\``;
}
