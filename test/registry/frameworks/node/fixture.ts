import type { IncomingMessage, ServerResponse } from "node:http";
import { nodeProtect, nodeServe, nodeStatus } from "latchkey/node";
import type { FrontEndFactory, FrontEndParts } from "../../../fixture/http/front-end.ts";
import { type Params, parseJson, pathMatcher, single } from "../../../fixture/http/node-calls.ts";
import { sendReply } from "../../../fixture/http/node-reply.ts";
import {
  type Call,
  failure,
  notFound,
  type Reply,
  type Route,
  statusPath,
  tenantRequired,
} from "../../../fixture/route.ts";

type Handler = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

/** No framework: a list of routes, and `node:http`'s own requests and responses. */
export const frontEnd: FrontEndFactory = async (parts) => {
  const serve = handlerOfAll(parts);
  return async (req, res) => {
    try {
      await serve(req, res);
    } catch (error) {
      parts.report(error);
      if (res.headersSent) res.destroy();
      else await sendReply(res, failure(error));
    }
  };
};

function handlerOfAll<Tx>({ latchkey, routes }: FrontEndParts<Tx>): Handler {
  const options = {
    tenant: (req: IncomingMessage) => single(req.headers["x-tenant"]),
    principal: (req: IncomingMessage) => single(req.headers["x-principal"]),
    statusPath,
  };
  const protect = nodeProtect(latchkey, options);
  const serve = nodeServe(latchkey, options);
  const status = nodeStatus(latchkey, options);
  const handlerOf = (route: Route<Tx>, params: (path: string) => Params): Handler => {
    const answer = (res: ServerResponse, reply: Promise<Reply>) => reply.then((each) => sendReply(res, each));
    const call = (req: IncomingMessage, body: Uint8Array) => callOf(req, params, body);
    switch (route.execution) {
      case "transaction":
        return protect(route.operation, (req, res, { body, ...context }) =>
          answer(res, route.handle(call(req, body), context)),
        );
      case "lease":
        return protect(route.operation, (req, res, { body, ...context }) =>
          answer(res, route.handle(call(req, body), context)),
        );
      case "served":
        return serve(route.operation, (req, { body }) => route.toInput(call(req, body)));
      case "deferred":
        return serve(route.operation, (req, { body }) => route.toInput(call(req, body)));
      case "status":
        return status;
      case "none":
        return async (req, res) => answer(res, route.handle(call(req, await readAll(req))));
      default:
        return route satisfies never;
    }
  };
  const entries = routes.map((route) => {
    const match = pathMatcher(route.path);
    const open = route.execution === "none" && route.open;
    return { route, match, open, handle: handlerOf(route, (path) => match(path) ?? {}) };
  });
  return async (req, res) => {
    const { pathname } = locationOf(req);
    const entry = entries.find(({ route, match }) => route.method === req.method && match(pathname));
    if (entry === undefined) return sendReply(res, notFound);
    if (!entry.open && !req.headers["x-tenant"]) return sendReply(res, tenantRequired);
    return entry.handle(req, res);
  };
}

function locationOf(req: IncomingMessage): URL {
  return new URL(req.url ?? "/", "http://fixture");
}

function callOf(req: IncomingMessage, params: (path: string) => Params, body: Uint8Array): Call {
  const { pathname, searchParams } = locationOf(req);
  return {
    method: req.method ?? "",
    path: pathname,
    params: params(pathname),
    query: searchParams,
    tenant: single(req.headers["x-tenant"]) ?? "",
    key: single(req.headers["idempotency-key"]),
    body: async () => parseJson(body, req.headers["content-type"]),
  };
}

async function readAll(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk);
  return Buffer.concat(chunks);
}
