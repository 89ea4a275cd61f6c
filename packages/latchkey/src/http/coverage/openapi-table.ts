/** The operations of an OpenAPI document. Those that `describeIdempotency` has described count as protected. */
import { type FoundRoute, isFields, isStateChanging } from "./route-table.ts";

const methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/** @throws {TypeError} when it is not an OpenAPI 3 document. */
export function openApiTable(document: unknown): readonly FoundRoute[] {
  if (!isFields(document) || typeof document.openapi !== "string" || !/^3\./u.test(document.openapi)) {
    throw new TypeError("Not an OpenAPI 3 document in JSON");
  }
  const paths = isFields(document.paths) ? document.paths : {};
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(isFields(item) ? item : {}).flatMap(([name, operation]) => {
      const method = name.toUpperCase();
      if (!methods.includes(name) || !isStateChanging(method) || !isFields(operation)) return [];
      const settings = operation["x-idempotency"];
      const protection = isFields(settings)
        ? { operation: typeof settings.operation === "string" ? settings.operation : "", methods: null }
        : null;
      return [{ method, path, protection, opaque: null }];
    }),
  );
}
