/** Where a module of JavaScript names files: imports, and what it makes from its own place. */
import { type CallExpression, type NewExpression, parseSync, Visitor } from "oxc-parser";

interface Span {
  readonly start: number;
  readonly end: number;
}

export interface LoadedPath extends Span {
  /** `import`: an import's path; `place`: a path seen from the module's own place. */
  readonly kind: "import" | "place";
  readonly value: string;
}

export interface FoundPaths {
  /** Imports and re-exports, which run before all else whatever their order. */
  readonly hoisted: readonly { readonly statement: Span; readonly path: LoadedPath }[];
  readonly inPlace: readonly LoadedPath[];
}

type Argument = NewExpression["arguments"][number];

/** @throws {TypeError} when it is not JavaScript */
export function findPaths(code: string): FoundPaths {
  const parsed = parseSync("module.js", code, { lang: "js" });
  if (parsed.errors.length > 0) throw new TypeError(parsed.errors[0]?.message);
  const { staticImports, staticExports, dynamicImports, importMetas } = parsed.module;
  const imports = staticImports.map(({ start, end, moduleRequest }) => ({
    statement: { start, end },
    path: { kind: "import" as const, ...moduleRequest },
  }));
  const exports = staticExports.flatMap(({ start, end, entries }) => {
    const request = entries.find(({ moduleRequest }) => moduleRequest !== null)?.moduleRequest;
    if (!request) return [];
    return [{ statement: { start, end }, path: { kind: "import" as const, ...request } }];
  });
  const dynamic = dynamicImports.flatMap(({ moduleRequest: { start, end } }) => {
    const value = literal(code.slice(start, end));
    return value === null ? [] : [{ kind: "import" as const, start, end, value }];
  });
  const places = importMetas.length > 0 ? findPlaces(parsed.program, code) : [];
  return {
    hoisted: [...imports, ...exports],
    inPlace: [...dynamic, ...places].sort((one, other) => one.start - other.start),
  };
}

/** `new URL("…", import.meta.url)`, and `join` or `resolve(import.meta.dirname, "…")`. */
function findPlaces(program: Parameters<Visitor["visit"]>[0], code: string): readonly LoadedPath[] {
  const found: LoadedPath[] = [];
  const add = (paths: readonly Argument[]) => {
    const parts = paths.map(({ start, end }) => literal(code.slice(start, end)));
    const [first, last] = [paths[0], paths.at(-1)];
    if (first === undefined || last === undefined || parts.includes(null)) return;
    found.push({ kind: "place", start: first.start, end: last.end, value: parts.join("/") });
  };
  new Visitor({
    NewExpression({ callee, arguments: [path, base] }: NewExpression) {
      if (code.slice(callee.start, callee.end) !== "URL" || path === undefined) return;
      if (isText(base, code, "import.meta.url")) add([path]);
    },
    CallExpression({ callee, arguments: [base, ...paths] }: CallExpression) {
      if (!["join", "resolve"].includes(code.slice(callee.start, callee.end))) return;
      if (isText(base, code, "import.meta.dirname")) add(paths);
    },
  }).visit(program);
  return found;
}

function isText(node: Argument | undefined, code: string, text: string): boolean {
  return node !== undefined && code.slice(node.start, node.end) === text;
}

/** What a literal stands for; null: it is none, or one that is put together when it runs. */
function literal(text: string): string | null {
  const [, , value = null] = /^(["'`])([^"'`\\$]*)\1$/.exec(text) ?? [];
  return value;
}
