/**
 * Statements and scripts lie in files of their own; the library imports them from one generated module for each folder,
 * so that sources, bundles and the package need no step that reads files.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { repositoryRoot } from "./repository.ts";

const folders = [{ folder: "packages/latchkey/src/stores/redis/scripts", extension: ".lua", name: "lua" }];

/** The generated module of every folder. */
export function inlinedModules(): readonly { readonly path: string; readonly text: string }[] {
  return folders.map(({ folder, extension, name }) => {
    const files = readdirSync(join(repositoryRoot, folder))
      .filter((file) => extname(file) === extension)
      .sort();
    const rows = files.map(
      (file) =>
        `  ${keyOf(basename(file, extension))}: ${literal(readFileSync(join(repositoryRoot, folder, file), "utf8"))},`,
    );
    const origin = `/** Generated from the ${extension} files of this folder by \`npm run docs:generate\`. Do not edit. */`;
    return {
      path: `${folder}/texts.ts`,
      text: `${origin}\nexport const ${name} = {\n${rows.join("\n")}\n};\n`,
    };
  });
}

/** `start-call` is `startCall`. */
function keyOf(file: string): string {
  return file.replaceAll(/-([a-z])/gu, (_, letter: string) => letter.toUpperCase());
}

/** Lines that are comments, and indents, go: they would be sent, and packed. */
function withoutComments(text: string): string {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("--"))
    .join("\n");
}

function literal(text: string): string {
  return `\`${withoutComments(text).replaceAll(/\\|`|\$\{/gu, "\\$&")}\``;
}
