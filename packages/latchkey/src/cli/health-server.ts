/** Tells a platform over HTTP whether a worker does its work. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface Health {
  readonly healthy: boolean;
}

export interface HealthServer {
  /** The port it has, also where it was asked for any. */
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Answers GET and HEAD of every path: 200 when healthy, else 503, with what `look` gave as JSON.
 *
 * @throws {Error} when the port cannot be had.
 */
export async function serveHealth(
  { port, host }: { readonly port: number; readonly host: string | undefined },
  look: () => Promise<Health>,
): Promise<HealthServer> {
  const server = createServer((req, res) => {
    if (req.method !== "GET" && req.method !== "HEAD") {
      res.writeHead(405, { Allow: "GET, HEAD" }).end();
      return;
    }
    void look()
      .catch(() => ({ healthy: false }))
      .then((health) => {
        const headers = { "Content-Type": "application/json", "Cache-Control": "no-store" };
        res.writeHead(health.healthy ? 200 : 503, headers).end(JSON.stringify(health));
      });
  });
  await listening(server, port, host);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listening(server: Server, port: number, host: string | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, ...(host !== undefined && { host }) }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
