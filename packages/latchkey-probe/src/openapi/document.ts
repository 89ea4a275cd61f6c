/** Reads an OpenAPI document: one file of OpenAPI 3, as JSON or YAML. Other files that it refers to are not loaded. */
import { parse } from "yaml";

/** The document cannot be used; the message says what to do. */
export class DocumentError extends Error {
  override readonly name = "DocumentError";
}

export interface Document {
  readonly root: Readonly<Record<string, unknown>>;
}

/** @throws {DocumentError} */
export function readDocument(text: string): Document {
  const root = parsed(text);
  const version = root.openapi;
  if (typeof version === "string" && version.startsWith("3.")) return { root };
  if (root.swagger !== undefined) throw new DocumentError("it is Swagger 2; convert it to OpenAPI 3.");
  throw new DocumentError('it has no "openapi: 3…".');
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = parse(text);
    if (isObject(value)) return value;
  } catch (error) {
    throw new DocumentError(error instanceof Error ? error.message : String(error), { cause: error });
  }
  throw new DocumentError("it is neither a JSON nor a YAML object.");
}

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A longer chain of references is treated as a circle. */
const referencesMax = 50;

/** Returns the value, or the target of its `$ref`. An empty object if there is none. */
export function resolved({ root }: Document, value: unknown): JsonObject {
  let current = value;
  for (let steps = 0; steps < referencesMax; steps++) {
    if (!isObject(current)) return {};
    const reference = current.$ref;
    if (typeof reference !== "string") return current;
    if (!reference.startsWith("#/")) {
      throw new DocumentError(`it refers to another file (${reference}); bundle it into one first.`);
    }
    current = at(root, reference.slice(2));
  }
  throw new DocumentError("its references form a circle.");
}

function at(root: unknown, pointer: string): unknown {
  return pointer.split("/").reduce<unknown>((value, part) => {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    return isObject(value) ? value[name] : undefined;
  }, root);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
