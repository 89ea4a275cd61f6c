/** Documents of `@nestjs/swagger`. */
import type { LatchkeyRoutes } from "./nest-routes.ts";

/** Provided by `LatchkeyModule`: `app.get(LatchkeyOpenApi).describe(SwaggerModule.createDocument(app, config))`. */
export class LatchkeyOpenApi {
  readonly #routes: LatchkeyRoutes;

  constructor(routes: LatchkeyRoutes) {
    this.#routes = routes;
  }

  /**
   * Describes every method with `@Idempotent`, as `describeIdempotency` of `latchkey/openapi` does. What `@ApiResponse`,
   * `@ApiHeader` and the plugin of `@nestjs/swagger` say stays. Returns a copy.
   *
   * @throws {TypeError} when it is no document of OpenAPI 3.
   */
  describe<D extends object>(document: D): D {
    return this.#routes.describe(document);
  }
}
