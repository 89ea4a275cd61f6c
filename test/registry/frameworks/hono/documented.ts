import type { RequestListener } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { honoProtect } from "../../../../packages/latchkey/src/http/hono/hono.ts";
import {
  fetchHandlers,
  type Handlers,
  limit,
  type MakeListener,
  type Parts,
  pastTheHold,
  single,
} from "../../../docs/handlers.ts";

export const services: Readonly<Record<string, MakeListener>> = { hono: onHono };

function onHono({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = honoHandlers[row];
  if (handle === null) return null;
  const protect = honoProtect(service.latchkey, single);
  const app = new Hono().onError((_error, c) => c.text("failed", 500));
  app.use(async (c, next) => {
    c.header("X-Request", nextRequest());
    await next();
  });
  const handler = protect(service.operation(limit), async (c: Context) => {
    ran();
    return handle(c);
  });
  app.post("/run", handler);
  return getRequestListener(app.fetch);
}

const honoHandlers: Handlers<(c: Context) => Response | Promise<Response>> = {
  ...fetchHandlers,
  aside(c) {
    c.env.outgoing.end("aside");
    return c.text("done");
  },
  socket(c) {
    c.env.incoming.socket.write(pastTheHold);
    return c.text("done");
  },
};
