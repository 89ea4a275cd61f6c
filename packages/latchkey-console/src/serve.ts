/** The handler on `node:http`: as a server of its own, and for frameworks with Node's request and response. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import type { ConsoleHandler } from "./handler.ts";

/** What `node:http` passes; Express adds `originalUrl`, which includes the path that the handler is mounted under. */
type NodeRequest = IncomingMessage & { readonly originalUrl?: string };

/**
 * Converts it to a listener of `node:http`, or middleware for Express: `app.use("/console", nodeConsole(handler))`. Use it
 * before body parsers. If a proxy terminates TLS, add the console's address to `origins`.
 */
export function nodeConsole(handler: ConsoleHandler): (req: NodeRequest, res: ServerResponse) => void {
  return (req, res) => {
    void handler(requestOf(req))
      .then((response) => send(response, res))
      .catch(() => res.destroy());
  };
}

function requestOf(req: NodeRequest): Request {
  const { method = "GET", socket } = req;
  const protocol = "encrypted" in socket && socket.encrypted === true ? "https" : "http";
  const host = URL.canParse(`http://${req.headers.host}`) ? req.headers.host : "localhost";
  const url = `${protocol}://${host}${req.originalUrl ?? req.url ?? "/"}`;
  const headers = Object.entries(req.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  );
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(url, {
    method,
    headers,
    ...(hasBody && { body: Readable.toWeb(req) as ReadableStream<Uint8Array>, duplex: "half" }),
  });
}

async function send(response: Response, res: ServerResponse): Promise<void> {
  res.writeHead(response.status, [...response.headers].flat());
  res.end(new Uint8Array(await response.arrayBuffer()));
}

export interface ServeOptions {
  /** 0: any free port. */
  readonly port: number;
  /** Default `127.0.0.1`: only this machine. */
  readonly host?: string;
}

export interface ServedConsole {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves the console on its own server.
 *
 * @throws {Error} if it cannot listen on the port.
 */
export async function serveConsole(
  handler: ConsoleHandler,
  { port, host = "127.0.0.1" }: ServeOptions,
): Promise<ServedConsole> {
  const server = createServer(nodeConsole(handler));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
