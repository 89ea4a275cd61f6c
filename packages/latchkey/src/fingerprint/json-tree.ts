import { compareCodeUnits } from "./code-units.ts";
import { canonicalNumber } from "./json-number.ts";
import { type JsonSink, scanJson } from "./json-scanner.ts";
import { unescapeJson } from "./json-string.ts";

/** A parsed JSON value; scalars are kept as their canonical text, members sorted by name. */
export type JsonNode = string | JsonArray | JsonObject;

export interface JsonArray {
  readonly kind: "array";
  readonly items: JsonNode[];
}

export interface JsonObject {
  readonly kind: "object";
  readonly members: JsonMember[];
}

export interface JsonMember {
  /** Unescaped. */
  readonly name: string;
  /** With quotes, canonically escaped. */
  readonly nameText: string;
  readonly value: JsonNode;
}

/** Why a JSON text has no canonical form. */
export type TreeFault = "not-json" | "too-deep" | "duplicate-name" | "lone-surrogate" | "inexact-number";

export type TreeResult =
  | { readonly ok: true; readonly root: JsonNode }
  | { readonly ok: false; readonly reason: TreeFault };

/**
 * Parses a JSON text into canonical parts, without recursion.
 *
 * `too-deep` ends the reading, so the rest of the text is not read. `not-json` outranks the other faults; of those, the
 * first one in the text is returned.
 */
export function parseJsonTree(text: string, maxDepth: number): TreeResult {
  const builder = new TreeBuilder(text);
  const result = scanJson(text, builder, maxDepth);
  if (result !== "json") return { ok: false, reason: result };
  if (builder.fault !== null) return { ok: false, reason: builder.fault };
  return { ok: true, root: builder.root };
}

/** Writes a value in its canonical form (RFC 8785), without recursion. */
export function writeCanonical(root: JsonNode): string {
  const parts: string[] = [];
  const pending: JsonNode[] = [root];
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (typeof node === "string") parts.push(node);
    else if (node.kind === "array") pushArray(node, pending);
    else pushObject(node, pending);
  }
  return parts.join("");
}

/** Last part first: the parts are taken from the end. Punctuation is pushed as text. */
function pushArray(node: JsonArray, pending: JsonNode[]): void {
  pending.push("]");
  for (let index = node.items.length - 1; index >= 0; index--) {
    pending.push(node.items[index] ?? "");
    if (index > 0) pending.push(",");
  }
  pending.push("[");
}

function pushObject(node: JsonObject, pending: JsonNode[]): void {
  pending.push("}");
  for (let index = node.members.length - 1; index >= 0; index--) {
    const member = node.members[index];
    if (member === undefined) continue;
    pending.push(member.value, ":", member.nameText);
    if (index > 0) pending.push(",");
  }
  pending.push("{");
}

class TreeBuilder implements JsonSink {
  root: JsonNode = "";
  fault: "duplicate-name" | "lone-surrogate" | "inexact-number" | null = null;
  readonly #text: string;
  readonly #open: (JsonArray | JsonObject)[] = [];
  /** The names that wait for their values: one for each open member. */
  readonly #names: { name: string; nameText: string }[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  open(kind: "object" | "array"): void {
    this.#open.push(kind === "array" ? { kind, items: [] } : { kind, members: [] });
  }

  close(): void {
    const node = this.#open.pop();
    if (node === undefined) return;
    if (node.kind === "object") this.#sortMembers(node.members);
    this.#add(node);
  }

  name(start: number, end: number, escaped: boolean): void {
    if (!escaped) {
      this.#names.push({
        name: this.#text.slice(start + 1, end - 1),
        nameText: this.#text.slice(start, end),
      });
      return;
    }
    const name = this.#unescape(start, end);
    this.#names.push({ name, nameText: JSON.stringify(name) });
  }

  string(start: number, end: number, escaped: boolean): void {
    // Without escapes the source is the canonical form; with them JSON.stringify escapes as RFC 8785 requires.
    this.#add(escaped ? JSON.stringify(this.#unescape(start, end)) : this.#text.slice(start, end));
  }

  number(start: number, end: number): void {
    const canonical = canonicalNumber(this.#text.slice(start, end));
    if (canonical === null) this.fault ??= "inexact-number";
    this.#add(canonical ?? "");
  }

  literal(start: number, end: number): void {
    this.#add(this.#text.slice(start, end));
  }

  #unescape(start: number, end: number): string {
    const content = unescapeJson(this.#text.slice(start + 1, end - 1));
    if (!content.isWellFormed()) this.fault ??= "lone-surrogate";
    return content;
  }

  #add(value: JsonNode): void {
    const parent = this.#open.at(-1);
    if (parent === undefined) {
      this.root = value;
    } else if (parent.kind === "array") {
      parent.items.push(value);
    } else {
      const waiting = this.#names.pop();
      if (waiting !== undefined) parent.members.push({ ...waiting, value });
    }
  }

  /** After sorting, equal names are neighbours. A hash table could be made slow by names that a client chose. */
  #sortMembers(members: JsonMember[]): void {
    members.sort((left, right) => compareCodeUnits(left.name, right.name));
    for (let index = 1; index < members.length; index++) {
      if (members[index]?.name === members[index - 1]?.name) this.fault ??= "duplicate-name";
    }
  }
}
