/**
 * docs/proof-code.json: short prints of the lines that evidence was reached on. With them the page can count what has
 * changed since, also in a clone without history.
 */
import { createHash } from "node:crypto";
import { digestOf } from "./closure.ts";
import type { Module } from "./module.ts";

export interface CodeBook {
  /** The modules of each closure, by the digest of the closure. */
  readonly closures: Readonly<Record<string, readonly string[]>>;
  /** Three characters for each line of a module. */
  readonly modules: Readonly<Record<string, string>>;
}

export interface Changes {
  readonly added: number;
  readonly removed: number;
}

export const noCode: CodeBook = { closures: {}, modules: {} };

/**
 * 18 bits: lines are compared only with those that other changed modules have lost, so a thousand changed lines are
 * miscounted by four. Eight bytes for each would make the book three times as large.
 */
const printLength = 3;

export function withClosure(book: CodeBook, modules: readonly Module[]): CodeBook {
  const printed = modules.map((module) => ({ key: keyOf(module), prints: printsOf(module) }));
  return {
    closures: { ...book.closures, [digestOf(modules)]: printed.map(({ key }) => key).sort() },
    modules: { ...book.modules, ...Object.fromEntries(printed.map(({ key, prints }) => [key, prints])) },
  };
}

/** What is not needed for these closures is left out. */
export function onlyFor(book: CodeBook, digests: ReadonlySet<string>): CodeBook {
  const closures = sorted(Object.entries(book.closures).filter(([digest]) => digests.has(digest)));
  const used = new Set(Object.values(closures).flat());
  return { closures, modules: sorted(Object.entries(book.modules).filter(([key]) => used.has(key))) };
}

/** Lines of the closure that were not there under `digest`, and the reverse; null: that code is not in the book. */
export function changesSince(book: CodeBook, digest: string, today: readonly Module[]): Changes | null {
  const before = book.closures[digest];
  if (before === undefined) return null;
  const old = [...before];
  const changed = today.filter((module) => !taken(old, keyOf(module)));
  const lost = old.flatMap((key) => split(book.modules[key] ?? ""));
  const added = changed.flatMap((module) => split(printsOf(module)));
  const gone = Map.groupBy(lost, (print) => print);
  const isNew = added.filter((print) => gone.get(print)?.pop() === undefined);
  return { added: isNew.length, removed: lost.length - (added.length - isNew.length) };
}

function taken(from: string[], key: string): boolean {
  const at = from.indexOf(key);
  if (at >= 0) from.splice(at, 1);
  return at >= 0;
}

function sorted<T>(entries: readonly (readonly [string, T])[]): Record<string, T> {
  return Object.fromEntries([...entries].sort(([one], [other]) => (one < other ? -1 : 1)));
}

function keyOf({ lines }: Module): string {
  return createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 12);
}

function printsOf({ lines }: Module): string {
  return lines
    .map((line) => createHash("sha256").update(line).digest("base64").slice(0, printLength))
    .join("");
}

function split(prints: string): readonly string[] {
  return prints.match(new RegExp(`.{${printLength}}`, "g")) ?? [];
}
