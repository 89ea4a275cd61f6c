/** Replies of stores in one form, so that two can be compared and read. */
import { IllegalTransition } from "../../../packages/latchkey/src/engine/transition.ts";
import { StoreError } from "../../../packages/latchkey/src/errors.ts";

/** What a call came to. */
export interface CallResult {
  /** For the counters. */
  readonly kind: string;
  /** The same for the same reply of another store. */
  readonly text: string;
  /** Undefined where it threw. */
  readonly value: unknown;
}

/** @param beginMs times are shown from here on */
export async function observed(make: () => Promise<unknown>, texts: Texts): Promise<CallResult> {
  try {
    const value = await make();
    if (isRefusal(value)) return { kind: "refused", text: "refused", value };
    return { kind: kindOf(value), text: texts.of(value), value };
  } catch (error) {
    // What the edge table does not have is a guard that does not hold in SQL, and in code an error.
    if (error instanceof IllegalTransition) return { kind: "refused", text: "refused", value: null };
    if (error instanceof StoreError && error.certainty === "in_doubt") {
      return { kind: "in doubt", text: `threw ${error.message}`, value: undefined };
    }
    return { kind: "threw", text: "threw", value: undefined };
  }
}

function isRefusal(value: unknown): boolean {
  return value === null || value === false || (isObject(value) && value.kind === "lost");
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "nothing" : "some";
  if (!isObject(value)) return "done";
  if (typeof value.kind === "string") return value.kind;
  if ("record" in value && "now" in value) return value.record === null ? "nothing" : "some";
  const counts = Object.values(value);
  const isReport = counts.length > 1 && counts.every((count) => typeof count === "number");
  return isReport && counts.every((count) => count === 0) ? "nothing" : "done";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const named = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b/g;

/** Ids and tokens are named in the order in which they come up, times are given from the beginning. */
export class Texts {
  readonly #beginMs: number;
  readonly #names = new Map<string, string>();

  constructor(beginMs: number) {
    this.#beginMs = beginMs;
  }

  of(value: unknown): string {
    const text = JSON.stringify(value, (name, part: unknown) => this.#plain(name, part)) ?? "nothing";
    return text.replaceAll(named, (one) => this.#nameOf(one)).replaceAll('"', "");
  }

  #plain(name: string, part: unknown): unknown {
    if (name === "error") return undefined;
    if (typeof part === "number" && part >= this.#beginMs) return `+${part - this.#beginMs}`;
    if (part instanceof Uint8Array) return shownBytes(part);
    if (isBufferJson(part)) return shownBytes(Uint8Array.from(part.data));
    if (!isObject(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  #nameOf(one: string): string {
    const known = this.#names.get(one);
    if (known !== undefined) return known;
    const name = `${one.includes("-") ? "id" : "token"}${this.#names.size}`;
    this.#names.set(one, name);
    return name;
  }
}

function shownBytes(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString("latin1");
  return /^[\x20-\x7e]*$/.test(text) ? `'${text}'` : Buffer.from(bytes).toString("hex");
}

/** `JSON.stringify` has called `toJSON` by then. */
function isBufferJson(part: unknown): part is { readonly data: readonly number[] } {
  return isObject(part) && part.type === "Buffer" && Array.isArray(part.data);
}
