import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { fetchProtect } from "../../../../packages/latchkey/src/http/fetch/fetch.ts";
import { fetchHandlers, limit, type MakeListener, type Parts, single } from "../../../docs/handlers.ts";

export const services: Readonly<Record<string, MakeListener>> = { fetch: onFetch };

function onFetch({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = fetchHandlers[row];
  if (handle === null) return null;
  const protect = fetchProtect(service.latchkey, single);
  const handler = protect(service.operation(limit), async () => {
    ran();
    return handle();
  });
  return getRequestListener(async (request) => {
    const response = await handler(request).catch(() => new Response("failed", { status: 500 }));
    response.headers.set("X-Request", nextRequest());
    return response;
  });
}
