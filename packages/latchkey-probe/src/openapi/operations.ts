/** The operations of a document that change something. */
import { type Document, isObject, type JsonObject, listOf, resolved } from "./document.ts";

export interface Operation {
  readonly method: string;
  /** As written in the document, with `{names}`. */
  readonly path: string;
  readonly parameters: readonly Parameter[];
  /** Whether the key's header is required; null: the document does not mention it. */
  readonly key: "required" | "optional" | null;
  readonly requestBody: JsonObject | null;
}

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly definition: JsonObject;
}

const changing = ["post", "patch", "put", "delete"];

export function operationsOf(document: Document, keyHeader: string): readonly Operation[] {
  const paths = resolved(document, document.root.paths);
  return Object.entries(paths).flatMap(([path, given]) => {
    const item = resolved(document, given);
    return changing.flatMap((method) => {
      const operation = item[method];
      if (!isObject(operation)) return [];
      const parameters = parametersOf(document, [
        ...listOf(item.parameters),
        ...listOf(operation.parameters),
      ]);
      const key = parameters.find((each) => each.in === "header" && isNamed(each, keyHeader));
      return [
        {
          method: method.toUpperCase(),
          path,
          parameters: parameters.filter((each) => each !== key),
          key: key === undefined ? null : key.required ? "required" : "optional",
          requestBody: operation.requestBody === undefined ? null : resolved(document, operation.requestBody),
        } satisfies Operation,
      ];
    });
  });
}

function isNamed({ name }: Parameter, other: string): boolean {
  return name.toLowerCase() === other.toLowerCase();
}

/** A parameter of an operation replaces the path's parameter of the same name. */
function parametersOf(document: Document, given: readonly unknown[]): readonly Parameter[] {
  const byName = new Map<string, Parameter>();
  for (const each of given) {
    const definition = resolved(document, each);
    const { name, in: place } = definition;
    if (typeof name !== "string" || typeof place !== "string") continue;
    const required = definition.required === true || place === "path";
    byName.set(`${place} ${name.toLowerCase()}`, { name, in: place, required, definition });
  }
  return [...byName.values()];
}
