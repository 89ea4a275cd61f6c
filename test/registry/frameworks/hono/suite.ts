import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { honoProtect, honoServe, honoStatus } from "../../../../packages/latchkey/src/http/hono/hono.ts";
import type { AppUnderTest } from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { responseOf, type SuiteApp, statusOf } from "../../../http/suite-app.ts";
import { type Listening, listen } from "../../../support/listen.ts";

export const apps: readonly SuiteApp[] = [
  { name: "Hono", seesFieldLines: true, oneOfItsKind: true, serve: serveHono },
];

async function serveHono<Tx>(under: AppUnderTest<Tx>): Promise<Listening> {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: (c: Context) => tenant((name) => c.req.header(name)),
    principal: (c: Context) => principal((name) => c.req.header(name)),
  };
  const protect = honoProtect(latchkey, options);
  const app = new Hono().onError((error) => new Response("failed", { status: statusOf(error) }));
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (c, context) =>
          responseOf(await route.handle(() => c.req.bytes(), context), (name, value) =>
            c.header(name, value, { append: true }),
          ),
        )
      : protect(route.operation, async (c, context) =>
          responseOf(await route.handle(() => c.req.bytes(), context), (name, value) =>
            c.header(name, value, { append: true }),
          ),
        );
  app.on(route.method, route.path, handler);
  if (served !== undefined) {
    const serve = honoServe(latchkey, options);
    const handle = serve(served.operation, (c) => served.toInput(() => c.req.bytes()));
    app.on(served.method, served.path, handle);
  }
  if (settings.statusPath !== undefined) {
    app.get(`${settings.statusPath}/:id`, honoStatus(latchkey, options));
  }
  return listen(getRequestListener(app.fetch));
}
