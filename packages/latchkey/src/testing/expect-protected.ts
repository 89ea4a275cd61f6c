/** For a service's own tests: checks that every state-changing route is protected. */
import { type Audit, auditOf, routesOf } from "../http/coverage/audit.ts";
import { watchFastify } from "../http/coverage/fastify-table.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";

export interface ProtectedRoutesOptions {
  /** Routes that need no protection: `POST /login`, `/webhooks/*` for every method, `DELETE *`. Default: none. */
  readonly except?: readonly string[];
}

const optionNames = { except: true } as const satisfies OptionNames<ProtectedRoutesOptions>;

// Fastify keeps no table of its routes.
watchFastify();

/**
 * Expects that each state-changing route of an app is protected by Latchkey, or excepted. A router-level or app-level
 * `expressRecord` counts for the routes after it that it covers.
 *
 * @param app of Express 4 or 5, Fastify (after `ready()`), Hono, Koa with `@koa/router`, or Nest; or a router of Express or Koa
 * @throws {TypeError} when `app` is not such an app, or cannot be read yet
 * @throws {Error} with a list of the routes that are not protected, and of exceptions that fit none; also when the app has no
 * state-changing route at all.
 */
export function expectEveryRouteProtected(app: unknown, options: ProtectedRoutesOptions = {}): void {
  checkOptions("expectEveryRouteProtected", options, optionNames);
  const problems = problemsOf(auditOf(routesOf(app), options.except ?? []));
  if (problems.length > 0) throw new Error(problems.join("\n"));
}

function problemsOf({ routes, unused }: Audit): readonly string[] {
  if (routes.length === 0) return ["The app has no state-changing route, so there is nothing to check."];
  const open = routes.filter(({ status }) => status === "unprotected");
  return [
    ...(open.length === 0
      ? []
      : [
          `${open.length} of ${routes.length} state-changing routes are not protected:`,
          ...open.map(
            ({ method, path, opaque }) => `  ${method} ${path}${opaque === null ? "" : ` (${opaque})`}`,
          ),
        ]),
    ...unused.map((text) => `The exception ${JSON.stringify(text)} matches no unprotected route.`),
  ];
}
