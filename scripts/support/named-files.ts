/** Files, folders and functions that a document about the code names. */
import type { Problem } from "./repository.ts";

/** The folders to which such a path may be relative, from the repository's root. */
const beginnings = ["", "packages/latchkey/src/"];

/**
 * Finds code spans that name a file or folder which does not exist, or a function, `decide()`, that no file of its line
 * has. Placeholders such as `<name>.test.ts` are left alone.
 *
 * @param read the text of a file, "" for a folder, undefined where there is neither
 */
export function findNameProblems(
  path: string,
  text: string,
  read: (path: string) => string | undefined,
): readonly Problem[] {
  const find = (name: string) =>
    beginnings.map((beginning) => read(beginning + name)).find((found) => found !== undefined);
  return text.split("\n").flatMap((line, index) => {
    const spans = [...line.matchAll(/`([^`]+)`/g)].map(([, span = ""]) => span);
    const files = spans.filter(isPath).map((name) => ({ name, text: find(name) }));
    const functions = spans.flatMap((span) => /^([\w.]+)\(\)$/.exec(span)?.[1] ?? []);
    const where = `${path}:${index + 1}`;
    return [
      ...files
        .filter((file) => file.text === undefined)
        .map(({ name }) => ({ where, message: `names ${name}, which does not exist` })),
      ...functions
        .filter((name) => !files.some((file) => file.text !== undefined && defines(file.text, name)))
        .map((name) => ({ where, message: `names ${name}(), which no file named on its line has` })),
    ];
  });
}

function isPath(span: string): boolean {
  return /^[\w@.-]+(\/[\w@.-]+)*(\/|\.(ts|mjs|json|sql|lua|md))$/.test(span);
}

/** The last part of `latchkey.execute` is the name. */
function defines(text: string, dotted: string): boolean {
  const name = dotted.slice(dotted.lastIndexOf(".") + 1);
  return new RegExp(`(?<![\\w.])#?${name}\\b`).test(text);
}
