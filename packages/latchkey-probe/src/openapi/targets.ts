/** The targets that an OpenAPI document describes, at the address given by the operator. */
import { otherBodyOf } from "../bodies/other-body.ts";
import type { Profile } from "../profiles.ts";
import type { HeaderLine, Target } from "../target.ts";
import { type Document, DocumentError, readDocument } from "./document.ts";
import { type Operation, operationsOf, type Parameter } from "./operations.ts";
import { bodiesOf, exampleOf, sampledValue } from "./values.ts";

export interface DescribedTargets {
  readonly targets: readonly Target[];
  readonly leftOut: readonly LeftOut[];
}

export interface LeftOut {
  readonly name: string;
  readonly reason: string;
}

export interface DescribedOptions {
  readonly base: URL;
  readonly keyHeader: string;
  readonly profile: Profile;
  /** Given by the operator; null: as the document and the profile define it. */
  readonly key: Target["key"] | null;
  /** `POST /orders`; empty: all routes that have the key's header in the document, otherwise every POST and PATCH. */
  readonly routes: readonly string[];
  /** Values of parameters by name. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** @throws {DocumentError} */
export function describedTargets(text: string, options: DescribedOptions): DescribedTargets {
  const document = readDocument(text);
  const operations = operationsOf(document, options.keyHeader);
  checkRoutes(operations, options.routes);
  const targets: Target[] = [];
  const leftOut: LeftOut[] = [];
  for (const operation of operations) {
    const reason = notChosen(operation, operations, options);
    const made = reason ?? targetOrReason(document, operation, options);
    if (typeof made === "string") leftOut.push({ name: nameOf(operation), reason: made });
    else targets.push(made);
  }
  return { targets, leftOut };
}

function nameOf({ method, path }: Operation): string {
  return `${method} ${path}`;
}

function checkRoutes(operations: readonly Operation[], routes: readonly string[]): void {
  const names = operations.map(nameOf);
  const unknown = routes.find((route) => !names.includes(route));
  if (unknown === undefined) return;
  throw new DocumentError(
    `it has no ${unknown} that changes something; it has ${names.join(", ") || "none"}.`,
  );
}

function notChosen(
  operation: Operation,
  operations: readonly Operation[],
  { routes, keyHeader }: DescribedOptions,
): string | null {
  if (routes.length > 0)
    return routes.includes(nameOf(operation)) ? null : "it is not among the given routes";
  if (operations.some(({ key }) => key !== null)) {
    return operation.key === null ? `the document gives it no ${keyHeader}` : null;
  }
  return /^(POST|PATCH)$/u.test(operation.method) ? null : "its method is idempotent; name it with --route";
}

/** A route that cannot be read does not affect the others. */
function targetOrReason(
  document: Document,
  operation: Operation,
  options: DescribedOptions,
): Target | string {
  try {
    return targetOf(document, operation, options);
  } catch (error) {
    if (error instanceof DocumentError) return error.message;
    throw error;
  }
}

/** Returns a text with the reason if it cannot be probed. */
function targetOf(document: Document, operation: Operation, options: DescribedOptions): Target | string {
  const { method, path, parameters, requestBody } = operation;
  const bodies = requestBody === null ? null : bodiesOf(document, requestBody);
  if (typeof bodies === "string") return bodies;
  const values = new Map<Parameter, string>();
  for (const parameter of parameters) {
    const value = options.parameters.get(parameter.name) ?? exampleOf(document, parameter.definition);
    if (value !== null) values.set(parameter, value);
    else if (parameter.in === "path")
      return `its ${parameter.name} is not known; pass --param ${parameter.name}=…`;
    else if (parameter.required) values.set(parameter, sampledValue(document, parameter.definition));
  }
  const url = addressOf(options.base, path, values, options.parameters);
  if (!url.pathname.startsWith(options.base.pathname)) return "its path leads above the given address";
  const body = bodies?.body ?? "";
  const contentType: readonly HeaderLine[] = bodies === null ? [] : [["Content-Type", bodies.contentType]];
  return {
    name: `${method} ${path}`,
    method,
    url,
    headers: [...contentType, ...headersOf(values)],
    body,
    otherBody: bodies?.other ?? otherBodyOf(body),
    failing: null,
    key: options.key ?? operation.key ?? options.profile.key,
  };
}

function headersOf(values: ReadonlyMap<Parameter, string>): readonly HeaderLine[] {
  return [...values]
    .filter(([parameter]) => parameter.in === "header" && parameter.required)
    .map(([{ name }, value]) => [name, value]);
}

/** Always on the given origin: the document's `servers` are not used. */
function addressOf(
  base: URL,
  path: string,
  values: ReadonlyMap<Parameter, string>,
  given: ReadonlyMap<string, string>,
): URL {
  const url = new URL(base);
  const filled = [...values].reduce(
    (text, [parameter, value]) =>
      parameter.in === "path" ? text.replaceAll(`{${parameter.name}}`, encodeURIComponent(value)) : text,
    path,
  );
  url.pathname = `${base.pathname.replace(/\/$/u, "")}${filled}`;
  for (const [{ name, in: place, required }, value] of values) {
    if (place === "query" && (required || given.has(name))) url.searchParams.set(name, value);
  }
  return url;
}
