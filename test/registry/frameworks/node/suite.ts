import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { nodeProtect, nodeServe, nodeStatus } from "../../../../packages/latchkey/src/http/node.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
} from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { isStatus, lookup, type SuiteApp, statusOf } from "../../../http/suite-app.ts";
import { listen } from "../../../support/listen.ts";

export const apps: readonly SuiteApp[] = [
  {
    name: "node:http",
    seesFieldLines: true,
    oneOfItsKind: true,
    serve: async (app) => listen(nodeListener(app)),
  },
];

function nodeListener<Tx>(under: AppUnderTest<Tx>): RequestListener {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options = {
    ...settings,
    tenant: ({ headers }: IncomingMessage) => tenant(lookup(headers)),
    principal: ({ headers }: IncomingMessage) => principal(lookup(headers)),
  };
  const protect = nodeProtect(latchkey, options);
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (_req, res, { body, ...context }) =>
          write(res, await route.handle(async () => body, context)),
        )
      : protect(route.operation, async (_req, res, { body, ...context }) =>
          write(res, await route.handle(async () => body, context)),
        );
  const handleServed =
    served === undefined
      ? handler
      : nodeServe(latchkey, options)(served.operation, (_req, { body }) => served.toInput(async () => body));
  const status = nodeStatus(latchkey, options);
  const chosen = (url: string) => {
    if (isStatus(settings, url)) return status;
    return url === served?.path ? handleServed : handler;
  };
  return (req, res) => {
    chosen(req.url ?? "")(req, res).catch((error: unknown) => res.writeHead(statusOf(error)).end("failed"));
  };
}

function write(res: ServerResponse, { status, headers = [], body, error }: HandlerAnswer): void {
  res.statusCode = status;
  for (const [name, value] of headers) res.appendHeader(name, value);
  if (error !== undefined) throw error;
  if (body === undefined) res.end();
  else if (typeof body === "string" || body instanceof Uint8Array) res.end(body);
  else Readable.from(body).pipe(res);
}
