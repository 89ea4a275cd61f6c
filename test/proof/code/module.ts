/**
 * One file as evidence sees it: JavaScript without comments, types, layout and import paths, and what it loads.
 * A path may change with every move; what is behind it is part of the digest of the closure, not of the file.
 */
import { posix } from "node:path";
import { minifySync } from "oxc-minify";
import { transformSync } from "oxc-transform";
import type { Files } from "./files.ts";
import { type FoundPaths, findPaths, type LoadedPath } from "./paths.ts";

export interface Module {
  /** Relative to the repository. */
  readonly path: string;
  /** The code in lines. Imports come first, sorted: their order follows from paths. */
  readonly lines: readonly string[];
  readonly imports: readonly Import[];
  /** Files that it loads in its course (dynamic imports, workers, processes, SQL), in the order of the code. */
  readonly loads: readonly string[];
}

/** An import or a re-export: the statement without its path, and the file behind it. */
interface Import {
  readonly clause: string;
  readonly target: string;
}

/** Resolves an import as Node does under `--conditions=latchkey-source`; null: it is no file of the repository. */
export type Resolve = (specifier: string, from: string) => string | null;

/** @throws {TypeError} when there is no such file, or it is not TypeScript */
export function readModule(files: Files, path: string, resolve: Resolve): Module {
  const text = files.read(path);
  if (text === null) throw new TypeError(`${path} is loaded by a proof and does not exist`);
  if (!path.endsWith(".ts")) return { path, lines: linesOfAsset(path, text), imports: [], loads: [] };
  const { code, hoisted, inPlace } = parsed(path, text);
  const statements = hoisted.map(({ statement, path: at }) => {
    const target = resolve(at.value, path);
    const name = target === null ? JSON.stringify(at.value) : '""';
    const whole = `${code.slice(statement.start, at.start)}${name}${code.slice(at.end, statement.end)}`;
    return { statement, target, clause: whole.endsWith(";") ? whole : `${whole};` };
  });
  const named = inPlace.map((at) => ({ at, targets: targetsOf(files, path, at, resolve) }));
  const cuts: readonly Cut[] = [
    ...statements.map(({ statement }) => ({ ...statement, text: "" })),
    ...named.filter(({ targets }) => targets.length > 0).map(({ at }) => ({ ...at, text: '""' })),
  ];
  const clauses = statements.map(({ clause }) => clause).sort();
  return {
    path,
    lines: linesOf(path, [...clauses, cutOut(code, cuts)].join("\n")),
    imports: statements.flatMap(({ clause, target }) => (target === null ? [] : [{ clause, target }])),
    loads: named.flatMap(({ targets }) => targets),
  };
}

interface Cut {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

function cutOut(code: string, cuts: readonly Cut[]): string {
  return [...cuts]
    .sort((one, other) => other.start - one.start)
    .reduce((rest, { start, end, text }) => `${rest.slice(0, start)}${text}${rest.slice(end)}`, code);
}

const isAsset = /\.(sql|lua)$/;

/** Of a folder, its statements and migrations are loaded, in the order of their names. */
function targetsOf(files: Files, from: string, at: LoadedPath, resolve: Resolve): readonly string[] {
  if (at.kind === "import") return [resolve(at.value, from)].filter((target) => target !== null);
  const place = posix.join(posix.dirname(from), at.value);
  if (files.read(place) !== null) return [place];
  const names = files.names(place).filter((name) => isAsset.test(name));
  return names.map((name) => posix.join(place, name));
}

interface Parsed extends FoundPaths {
  readonly code: string;
}

/** By their text: most files are the same in many trees, and in most tiers. */
const parsedBefore = new Map<string, Parsed>();
const linesBefore = new Map<string, readonly string[]>();

function parsed(path: string, text: string): Parsed {
  const before = parsedBefore.get(text);
  if (before !== undefined) return before;
  const code = withoutTypes(path, text);
  const result = { code, ...findPaths(code) };
  parsedBefore.set(text, result);
  return result;
}

function withoutTypes(path: string, text: string): string {
  const { code, errors } = transformSync(path, text, { lang: "ts" });
  if (errors.length > 0) throw new TypeError(`${path}: ${errors.map(({ message }) => message).join(", ")}`);
  return print(path, code, true);
}

function linesOf(path: string, code: string): readonly string[] {
  const lines = linesBefore.get(code) ?? trimmed(print(path, code, false));
  linesBefore.set(code, lines);
  return lines;
}

function print(path: string, code: string, removeWhitespace: boolean): string {
  const options = { compress: false, mangle: false, codegen: { removeWhitespace } };
  const result = minifySync(`${path}.js`, code, options);
  if (result.errors.length > 0) throw new TypeError(`${path}: ${result.errors[0]?.message}`);
  return result.code;
}

/** Of SQL and Lua, lines that are only a comment are left out: no literal of ours has such a line. */
function linesOfAsset(path: string, text: string): readonly string[] {
  return trimmed(text).filter((line) => !(isAsset.test(path) && line.startsWith("--")));
}

function trimmed(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
