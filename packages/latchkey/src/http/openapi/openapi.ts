/** Describes protected operations in OpenAPI 3 documents, whichever framework made them. */

import type { Execution } from "../../engine/classify.ts";
import { checkOptions, type OptionNames } from "../../known-options.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { Operation } from "../../operations/operation.ts";
import type { HttpOptions, RouteOptions } from "../protocol/http-options.ts";
import { type RouteContext, resolveRoute } from "../protocol/route.ts";
import { describeDocument } from "./document.ts";
import { describeRoute } from "./route-description.ts";

/** A protected route with its overrides of the adapter's options. */
export interface DocumentedRoute {
  readonly operation: Operation;
  readonly overrides?: RouteOptions<never>;
}

export interface IdempotencyDescription<Tx> {
  readonly latchkey: Latchkey<Tx>;
  /** The options that were passed to the adapter. */
  readonly http: HttpOptions<never>;
  /** The operation of each protected route, by method and path as in the document: `"POST /orders/{id}/items"`. */
  readonly routes: Readonly<Record<string, Operation | DocumentedRoute>>;
}

const descriptionNames = {
  latchkey: true,
  http: true,
  routes: true,
} as const satisfies OptionNames<IdempotencyDescription<never>>;
const routeNames = { operation: true, overrides: true } as const satisfies OptionNames<DocumentedRoute>;

/**
 * Describes protected operations in an OpenAPI document of version 3.0, 3.1 or 3.2: the header with the key, how long answers
 * are kept, the problems with their statuses under this policy, the headers of replays, and the extension `x-idempotency`
 * with the operation's settings. Keeps what the document already describes. Returns a copy.
 *
 * @throws {TypeError} for any other document, and for a route that the document does not have.
 */
export function describeIdempotency<D extends object, Tx>(
  document: D,
  description: IdempotencyDescription<Tx>,
): D {
  checkOptions("describeIdempotency", description, descriptionNames);
  const { latchkey, http, routes } = description;
  const contexts = new Map(
    Object.entries(routes).map(([place, route]) => [place, contextOf(latchkey, http, place, route)]),
  );
  const places = new Set<string>();
  const described = describeDocument(document, ({ method, path }) => {
    const place = `${method} ${path}`;
    places.add(place);
    const context = contexts.get(place);
    return context === undefined ? null : describeRoute(context, latchkey.runtime.limits);
  });
  const missing = [...contexts.keys()].find((place) => !places.has(place));
  if (missing === undefined) return described;
  const has = [...places].slice(0, 20).join(", ");
  throw new TypeError(
    `describeIdempotency: the document has no ${missing}. It has ${has || "no operation"}.`,
  );
}

function contextOf<Tx>(
  latchkey: Latchkey<Tx>,
  http: HttpOptions<never>,
  place: string,
  given: Operation | DocumentedRoute,
): RouteContext {
  if ("settings" in given) return resolveRoute(latchkey, http, given).route;
  checkOptions(`describeIdempotency: ${place}`, given, routeNames);
  return resolveRoute<never, Tx, Execution>(latchkey, http, given.operation, given.overrides).route;
}
