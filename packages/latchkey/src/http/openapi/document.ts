/** Adds descriptions of routes to an OpenAPI document, and keeps what the document already describes. */
import { type Fields, problemSchema, problemSchemaName, type RouteDescription } from "./route-description.ts";

/** An operation of a document, with its method and path. */
export interface DocumentedOperation {
  /** In upper case. */
  readonly method: string;
  /** As written in the document: `/orders/{id}`. */
  readonly path: string;
  readonly operation: Fields;
}

const methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/**
 * Returns a copy of the document with the descriptions added.
 *
 * @throws {TypeError} when it is not an OpenAPI 3 document.
 */
export function describeDocument<D extends object>(
  document: D,
  describe: (at: DocumentedOperation) => RouteDescription | null,
): D {
  const root = document as Fields;
  checkVersion(root);
  let isUsed = false;
  const paths = mapFields(fieldsOf(root.paths), (item, path) =>
    mapFields(fieldsOf(item), (value, name) => {
      if (!methods.includes(name)) return value;
      const operation = fieldsOf(value);
      const described = describe({ method: name.toUpperCase(), path, operation });
      isUsed ||= described !== null;
      return described === null ? value : describeOperation(root, fieldsOf(item), operation, described);
    }),
  );
  const components = isUsed ? { components: withSchema(fieldsOf(root.components)) } : {};
  return { ...document, ...(root.paths === undefined ? {} : { paths }), ...components };
}

function checkVersion({ openapi }: Fields): void {
  if (typeof openapi === "string" && /^3\.[0-2]\./u.test(openapi)) return;
  throw new TypeError(
    `The document must be OpenAPI 3.0, 3.1 or 3.2 (its openapi is ${JSON.stringify(openapi)})`,
  );
}

function withSchema(components: Fields): Fields {
  return { ...components, schemas: { ...fieldsOf(components.schemas), [problemSchemaName]: problemSchema } };
}

function describeOperation(
  root: Fields,
  item: Fields,
  operation: Fields,
  { parameters, responses, replayHeaders, settings }: RouteDescription,
): Fields {
  const own = listOf(operation.parameters);
  const known = [...own, ...listOf(item.parameters)].map((one) => parameterName(resolve(root, one)));
  const added = parameters.filter(({ name }) => !known.includes(name.toLowerCase()));
  const replayed = mapFields(fieldsOf(operation.responses), (response, status) =>
    isReplayed(status) ? withHeaders(resolve(root, response), replayHeaders) : response,
  );
  const problems = mapFields(responses, (response, status) =>
    status in replayed ? merged(resolve(root, replayed[status]), fieldsOf(response)) : response,
  );
  return {
    ...operation,
    parameters: [...own, ...added],
    responses: { ...replayed, ...problems },
    "x-idempotency": settings,
  };
}

/** The header's name in lower case; null for other parameters, and for references out of the document. */
function parameterName(parameter: Fields): string | null {
  return parameter.in === "header" ? String(parameter.name).toLowerCase() : null;
}

/** Whether answers with this status are stored: not those that leave the key free, nor `default`, which means errors. */
function isReplayed(status: string): boolean {
  return /^[234]/u.test(status) && !["408", "425", "429"].includes(status);
}

function withHeaders(response: Fields, headers: Fields): Fields {
  if ("$ref" in response) return response;
  return { ...response, headers: { ...headers, ...fieldsOf(response.headers) } };
}

/** The document's own description of a status comes first, and takes precedence. */
function merged(own: Fields, added: Fields): Fields {
  if ("$ref" in own) return own;
  const description = [own.description, added.description].filter(
    (text) => text !== "" && text !== undefined,
  );
  const headers = { ...fieldsOf(added.headers), ...fieldsOf(own.headers) };
  return {
    ...own,
    description: description.join("\n\n"),
    ...(Object.keys(headers).length > 0 ? { headers } : {}),
    content: { ...fieldsOf(added.content), ...fieldsOf(own.content) },
  };
}

/** Replaces a reference into the document with a copy, so that other references to it do not change. */
function resolve(root: Fields, value: unknown): Fields {
  const fields = fieldsOf(value);
  const { $ref } = fields;
  if (typeof $ref !== "string" || !$ref.startsWith("#/")) return fields;
  const names = $ref.slice(2).split("/").map(unescaped);
  const found = names.reduce<unknown>((at, name) => fieldsOf(at)[name], root);
  return found === undefined ? fields : fieldsOf(found);
}

function unescaped(name: string): string {
  return decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~");
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function mapFields(
  fields: Fields,
  change: (value: unknown, name: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, change(value, name)]));
}
