import { getRequestListener } from "@hono/node-server";
import { fetchProtect, fetchServe, fetchStatus } from "../../../../packages/latchkey/src/http/fetch/fetch.ts";
import type { AppUnderTest } from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { isStatus, responseOf, type SuiteApp, statusOf } from "../../../http/suite-app.ts";
import { type Listening, listen } from "../../../support/listen.ts";

export const apps: readonly SuiteApp[] = [
  { name: "Fetch", seesFieldLines: false, oneOfItsKind: true, serve: serveFetch },
];

async function serveFetch<Tx>(under: AppUnderTest<Tx>): Promise<Listening> {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: ({ headers }: Request) => tenant((name) => headers.get(name)),
    principal: ({ headers }: Request) => principal((name) => headers.get(name)),
  };
  const protect = fetchProtect(latchkey, options);
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (request, context) =>
          responseOf(await route.handle(() => request.bytes(), context)),
        )
      : protect(route.operation, async (request, context) =>
          responseOf(await route.handle(() => request.bytes(), context)),
        );
  const handleServed =
    served === undefined
      ? handler
      : fetchServe(latchkey, options)(served.operation, (request) =>
          // Requests of the server below have no `bytes()` unless they are real ones.
          served.toInput(async () => new Uint8Array(await request.arrayBuffer())),
        );
  const status = fetchStatus(latchkey, options);
  const chosen = (pathname: string) => {
    if (isStatus(settings, pathname)) return status;
    return pathname === served?.path ? handleServed : handler;
  };
  const guarded = (request: Request) =>
    chosen(new URL(request.url).pathname)(request).catch(
      (error: unknown) => new Response("failed", { status: statusOf(error) }),
    );
  return listen(getRequestListener(guarded));
}
