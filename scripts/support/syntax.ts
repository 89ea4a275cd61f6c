import { parseAst } from "vitest/node";

/** One import, re-export, `import()` or `import("…").Type` of another module. */
export interface ModuleImport {
  readonly specifier: string;
  /** True when nothing of it is left at run time. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** One place where a module names something by a dotted name, such as `setTimeout` or `Date.now`. */
export interface NameUse {
  readonly name: string;
  readonly line: number;
}

/** What the checks need to know of one TypeScript module. */
export interface ModuleSyntax {
  readonly imports: readonly ModuleImport[];
  /** Names it imports or reads, with `globalThis.` removed. */
  readonly reads: readonly NameUse[];
  /** Names it calls or constructs without an argument, such as `Date` in `new Date()`. */
  readonly emptyCalls: readonly NameUse[];
}

interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly [field: string]: unknown;
}

/** Reads the imports and names of one TypeScript module. Throws when the text does not parse. */
export function readSyntax(text: string): ModuleSyntax {
  const imports: ModuleImport[] = [];
  const reads: NameUse[] = [];
  const emptyCalls: NameUse[] = [];

  walk(parseAst(text, { lang: "ts" }), "", (node, field) => {
    const line = text.slice(0, node.start).split("\n").length;
    const specifier = specifierOf(node);
    if (specifier !== undefined) imports.push({ specifier, typeOnly: isTypeOnly(node), line });
    const name = dottedName(node);
    if (name !== undefined && !labelFields.has(field)) reads.push({ name, line });
    const called = emptyCallOf(node);
    if (called !== undefined) emptyCalls.push({ name: called, line });
  });
  return { imports, reads, emptyCalls };
}

/** Fields whose identifier names a member or a label and refers to nothing in scope. */
const labelFields = new Set(["property", "key", "exported", "label"]);

type Visit = (node: SyntaxNode, field: string) => void;

function walk(value: unknown, field: string, visit: Visit): void {
  if (Array.isArray(value)) {
    for (const item of value) walk(item, field, visit);
  } else if (isNode(value)) {
    visit(value, field);
    for (const [name, child] of Object.entries(value)) {
      walk(child, value.computed === true && labelFields.has(name) ? "" : name, visit);
    }
  }
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

function specifierOf(node: SyntaxNode): string | undefined {
  if (!/^(Import|ExportAll|ExportNamed)Declaration$|^ImportExpression$|^TSImportType$/.test(node.type))
    return;
  return isNode(node.source) && typeof node.source.value === "string" ? node.source.value : undefined;
}

function isTypeOnly(node: SyntaxNode): boolean {
  return node.type === "TSImportType" || node.importKind === "type" || node.exportKind === "type";
}

function dottedName(node: unknown): string | undefined {
  if (!isNode(node)) return;
  if (node.type === "Identifier" && typeof node.name === "string") return node.name;
  if (node.type !== "MemberExpression" || node.computed === true) return;
  const object = dottedName(node.object);
  const property = dottedName(node.property);
  if (object === undefined || property === undefined) return;
  return object === "globalThis" ? property : `${object}.${property}`;
}

function emptyCallOf(node: SyntaxNode): string | undefined {
  const calls = node.type === "NewExpression" || node.type === "CallExpression";
  if (!calls || !Array.isArray(node.arguments) || node.arguments.length > 0) return;
  return dottedName(node.callee);
}
