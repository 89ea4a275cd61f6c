/** What handlers do that frameworks differ in, written for each adapter; null where its framework has no way to do it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Context as HonoContext } from "hono";
import type { Context as KoaContext } from "koa";
import type { ObservedRow } from "../../scripts/support/captured.ts";

type Handlers<H> = Readonly<Record<ObservedRow, H | null>>;

const hint = { link: "</style.css>; rel=preload" };
const pastTheHold = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\npast the hold";

/** For everything that answers through Node's own response. */
export const nodeHandlers: Handlers<(req: IncomingMessage, res: ServerResponse) => unknown> = {
  phrase: (_req, res) => res.writeHead(201, "Made").end("done"),
  trailers: (_req, res) => endWithTrailers(res),
  hints(_req, res) {
    res.writeEarlyHints(hint);
    res.end("done");
  },
  twice(_req, res) {
    res.end("one");
    res.end("two");
  },
  nothing: async () => {},
  endless(_req, res) {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    res.write("data: 1\n\n");
  },
  before: (_req, res) => res.end("done"),
  aside: null,
  socket(req, res) {
    req.socket.write(pastTheHold);
    res.end("done");
  },
};

function endWithTrailers(res: ServerResponse): void {
  res.writeHead(201, { Trailer: "X-Sum" });
  res.write("done");
  res.addTrailers({ "X-Sum": "1" });
  res.end();
}

export const fastifyHandlers: Handlers<(request: FastifyRequest, reply: FastifyReply) => unknown> = {
  phrase(_request, reply) {
    reply.raw.statusMessage = "Made";
    return reply.code(201).send("done");
  },
  trailers: (_request, reply) => reply.trailer("x-sum", async () => "1").send("done"),
  hints(_request, reply) {
    reply.raw.writeEarlyHints(hint);
    return reply.send("done");
  },
  twice(_request, reply) {
    reply.send("one");
    return reply.send("two");
  },
  nothing: async () => {},
  endless(_request, reply) {
    reply.raw.writeHead(200, { "Content-Type": "text/event-stream" });
    reply.raw.write("data: 1\n\n");
  },
  before: (_request, reply) => reply.send("done"),
  aside(_request, reply) {
    reply.hijack();
    reply.raw.end("aside");
  },
  socket(request, reply) {
    request.raw.socket.write(pastTheHold);
    return reply.send("done");
  },
};

export const koaHandlers: Handlers<(ctx: KoaContext) => unknown> = {
  phrase(ctx) {
    ctx.status = 201;
    ctx.message = "Made";
    ctx.body = "done";
  },
  trailers(ctx) {
    ctx.respond = false;
    endWithTrailers(ctx.res);
  },
  hints(ctx) {
    ctx.res.writeEarlyHints(hint);
    ctx.body = "done";
  },
  twice(ctx) {
    ctx.res.end("one");
    ctx.res.end("two");
  },
  nothing: async () => {},
  endless(ctx) {
    ctx.body = endlessStream();
  },
  before(ctx) {
    ctx.body = "done";
  },
  aside(ctx) {
    ctx.respond = false;
    ctx.res.end("aside");
  },
  socket(ctx) {
    ctx.req.socket.write(pastTheHold);
    ctx.body = "done";
  },
};

/** For handlers that return a `Response`. */
export const fetchHandlers: Handlers<() => Response | Promise<Response>> = {
  phrase: () => new Response("done", { status: 201, statusText: "Made" }),
  trailers: null,
  hints: null,
  twice: null,
  nothing: async () => undefined as unknown as Response,
  endless: () => new Response(endlessStream()),
  before: () => new Response("done"),
  aside: null,
  socket: null,
};

export const honoHandlers: Handlers<(c: HonoContext) => Response | Promise<Response>> = {
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

function endlessStream(): ReadableStream {
  return new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from("data: 1\n\n")) });
}
