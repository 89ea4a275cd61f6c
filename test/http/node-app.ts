/** The HTTP suite's app without a framework. */
import type { RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { nodeProtect } from "../../packages/latchkey/src/http/node.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
  HeaderLookup,
} from "../../packages/latchkey/src/testing/http-conformance/case.ts";

export function nodeListener<Tx>(under: AppUnderTest<Tx>): RequestListener {
  const { latchkey, route, settings, tenant, principal } = under;
  const protect = nodeProtect(latchkey, {
    ...settings,
    tenant: ({ headers }) => tenant(lookup(headers)),
    principal: ({ headers }) => principal(lookup(headers)),
  });
  const handler =
    route.execution === "lease"
      ? protect(route.operation, async (_req, res, { body, ...context }) =>
          write(res, await route.handle(async () => body, context)),
        )
      : protect(route.operation, async (_req, res, { body, ...context }) =>
          write(res, await route.handle(async () => body, context)),
        );
  return (req, res) => {
    handler(req, res).catch(() => res.writeHead(500).end("failed"));
  };
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
