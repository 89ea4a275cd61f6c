/** The operations of an OpenAPI document. Those that `describeIdempotency` has described are protected as far as it says. */
import { type FoundRoute, isFields, isStateChanging } from "./route-table.ts";

const methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/** @throws {TypeError} when it is no document of OpenAPI 3. */
export function openApiTable(document: unknown): readonly FoundRoute[] {
  if (!isFields(document) || typeof document.openapi !== "string" || !/^3\./u.test(document.openapi)) {
    throw new TypeError("It is no document of OpenAPI 3 in JSON");
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
