/** The HTTP suite's app without a framework. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { nodeProtect, nodeServe, nodeStatus } from "../../packages/latchkey/src/http/node.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
  HeaderLookup,
} from "../../packages/latchkey-conformance/src/http-conformance/case.ts";

export function nodeListener<Tx>(under: AppUnderTest<Tx>): RequestListener {
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

/** Whether a path is one of the status resource. */
export function isStatus({ statusPath }: AppUnderTest<never>["settings"], path: string): boolean {
  return statusPath !== undefined && path.startsWith(`${statusPath}/`);
}

/** As frameworks read it from errors that are the client's fault. */
export function statusOf(error: unknown): number {
  return error instanceof Error && "status" in error ? Number(error.status) : 500;
}

/** A header by its name, from Node's headers. */
export function lookup(headers: Readonly<Record<string, string | string[] | undefined>>): HeaderLookup {
  return (name) => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
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
