/** What handlers do that frameworks differ in; null where a framework has no way to do it. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { ObservedRow } from "../registry/captured.ts";
import type { HttpService } from "../support/http-service.ts";

/** What a service is made of whose handler does what a row of the documentation says. */
export interface Parts {
  readonly service: HttpService;
  readonly row: ObservedRow;
  /** Called at the start of each run of the handler. */
  readonly ran: () => void;
  /** The value of the header that middleware before the handler sets on each request. */
  readonly nextRequest: () => string;
}

export type MakeListener = (parts: Parts) => RequestListener | null | Promise<RequestListener | null>;

export const single = { singleTenant: true } as const;
export const limit = { transactionLimitMs: 300 };

export type Handlers<H> = Readonly<Record<ObservedRow, H | null>>;

export const hint = { link: "</style.css>; rel=preload" };
export const pastTheHold = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\npast the hold";

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

export function endWithTrailers(res: ServerResponse): void {
  res.writeHead(201, { Trailer: "X-Sum" });
  res.write("done");
  res.addTrailers({ "X-Sum": "1" });
  res.end();
}

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

export function endlessStream(): ReadableStream {
  return new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from("data: 1\n\n")) });
}
