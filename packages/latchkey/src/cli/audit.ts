/** `latchkey audit`: lists unprotected state-changing routes, from an app's route table and an OpenAPI document. */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { type Audit, type AuditedRoute, auditOf, isApp, routesOf } from "../http/coverage/audit.ts";
import { watchFastify } from "../http/coverage/fastify-table.ts";
import { openApiTable } from "../http/coverage/openapi-table.ts";
import { type FoundRoute, samplePath } from "../http/coverage/route-table.ts";
import { type Command, type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { imported, unwrapped } from "./load-config.ts";
import { parse } from "./options.ts";
import { shown, shownJson, table } from "./text.ts";

const help = `Usage: latchkey audit --app <file> [options]
       latchkey audit --openapi <file> [options]

Lists the state-changing routes (all methods but GET, HEAD, OPTIONS, TRACE and other safe ones) and whether Latchkey protects
them. Two sources, alone or together:

  --app <file>          a module whose default export, or export \`app\`, is an app of Express 4 or 5, Fastify, Hono, Koa with
                        @koa/router, or Nest, or a function that creates one. Its route table shows which handlers run
  --openapi <file>      an OpenAPI 3 document in JSON. Operations that \`describeIdempotency\` describes are protected; with
                        --app those that the app protects, and those that the app does not have are not
  --except <route>      a route that needs no protection, such as "POST /login", "/webhooks/*" (every method) or "DELETE *"; may be
                        given several times
  --json                print it as JSON

Exit codes: 0 every route is protected or excepted, 1 one is not, there are none, or an exception matches none, 2 called wrongly.`;

export const audit: Command = {
  summary: "list state-changing routes that Latchkey does not protect",
  help,
  async run(context) {
    const { values } = parse({
      args: [...context.args],
      options: {
        app: { type: "string" },
        openapi: { type: "string" },
        except: { type: "string", multiple: true },
        json: { type: "boolean" },
      },
    });
    if (values.app === undefined && values.openapi === undefined) {
      throw new UsageError("Name what to audit: --app, --openapi, or both.");
    }
    const documented =
      values.openapi === undefined ? null : readDocument(resolve(context.cwd, values.openapi));
    const served = values.app === undefined ? null : await readApp(resolve(context.cwd, values.app));
    const audited = audits(together(served, documented), values.except ?? []);
    return report(context, audited, values.json ?? false);
  },
};

/** @throws {UsageError} for an exception in another form. */
function audits(found: readonly FoundRoute[], except: readonly string[]): Audit {
  try {
    return auditOf(found, except);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function readDocument(path: string): readonly FoundRoute[] {
  try {
    return openApiTable(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(`${path} cannot be read: ${why}`, { cause });
  }
}

async function readApp(path: string): Promise<readonly FoundRoute[]> {
  if (!existsSync(path)) throw new UsageError(`There is no file ${path}.`);
  // Before the app is created: Fastify has no table of its routes.
  watchFastify();
  const module = await imported(path);
  const exported = unwrapped(module.default) ?? module.app;
  const app: unknown = typeof exported === "function" && !isApp(exported) ? await exported() : exported;
  await becomeReady(app);
  try {
    return routesOf(app);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(`The app of ${path} cannot be inspected: ${why}.`, { cause });
  }
}

/** Fastify registers its plugins only when `ready` is called. */
async function becomeReady(app: unknown): Promise<void> {
  if (typeof app !== "object" || app === null || !("printRoutes" in app) || !("ready" in app)) return;
  if (typeof app.ready === "function") await app.ready();
}

/** With both sources, a documented operation is protected if the app's route with the same method and path is. */
function together(
  served: readonly FoundRoute[] | null,
  documented: readonly FoundRoute[] | null,
): readonly FoundRoute[] {
  if (served === null || documented === null) return served ?? documented ?? [];
  const serves = ({ method, path }: FoundRoute) =>
    served.some((one) => (one.method === method || one.method === "ALL") && samePath(one.path, path));
  const missing = documented
    .filter((route) => !serves(route))
    .map((route) => ({ ...route, protection: null, opaque: "documented, but not a route of the app" }));
  return [...served, ...missing];
}

/** `/orders/:id` and `/orders/{orderId}`. */
function samePath(one: string, other: string): boolean {
  const [first, second] = [one, other.replaceAll(/\{[^{}]*\}/gu, ":x")].map(samplePath);
  return first != null && first === second;
}

const marks: Readonly<Record<AuditedRoute["status"], string>> = {
  protected: "protected",
  excepted: "excepted",
  unprotected: "UNPROTECTED",
};

function report(context: CommandContext, { routes, unused }: Audit, json: boolean): ExitCode {
  const counts = { protected: 0, excepted: 0, unprotected: 0 };
  for (const { status } of routes) counts[status] += 1;
  const complete = routes.length > 0 && counts.unprotected === 0 && unused.length === 0;
  if (json) context.print(shownJson({ complete, ...counts, routes, unused }));
  else for (const line of linesOf(routes, counts)) context.print(line);
  if (routes.length === 0) context.complain("There are no state-changing routes. Is this the whole app?");
  for (const text of unused)
    context.complain(`The exception ${shown(JSON.stringify(text))} matches no unprotected route.`);
  return complete ? 0 : 1;
}

function linesOf(
  routes: readonly AuditedRoute[],
  counts: Readonly<Record<AuditedRoute["status"], number>>,
): readonly string[] {
  if (routes.length === 0) return [];
  const rows = routes.map(({ status, method, path, operation, opaque }) =>
    [marks[status], method, path, operation ?? (opaque === null ? "" : `(${opaque})`)].map(shown),
  );
  const countLine = `${routes.length} state-changing routes: ${counts.protected} protected, ${counts.excepted} excepted, ${counts.unprotected} unprotected.`;
  return [...table(rows), "", countLine];
}
