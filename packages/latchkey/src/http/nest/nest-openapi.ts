/** Descriptions in documents of `@nestjs/swagger`. */
import type { LatchkeyRoutes } from "./nest-routes.ts";

/** Provided by `LatchkeyModule`: `app.get(LatchkeyOpenApi).describe(SwaggerModule.createDocument(app, config))`. */
export class LatchkeyOpenApi {
  readonly #routes: LatchkeyRoutes;

  constructor(routes: LatchkeyRoutes) {
    this.#routes = routes;
  }

  /**
   * Describes every method with `@Idempotent`, as `describeIdempotency` of `latchkey/openapi` does. Keeps the descriptions of
   * `@ApiResponse`, `@ApiHeader` and the plugin of `@nestjs/swagger`. Returns a copy.
   *
   * @throws {TypeError} when it is not an OpenAPI 3 document.
   */
  describe<D extends object>(document: D): D {
    return this.#routes.describe(document);
  }
}
