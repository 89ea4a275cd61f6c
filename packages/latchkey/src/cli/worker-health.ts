/** The health that `latchkey worker --health-port` reports. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { isoTime } from "../operator/times.ts";
import type { ServiceHealth } from "../workers/service.ts";
import type { Worker } from "../workers/worker.ts";

export interface HealthView {
  readonly healthy: boolean;
  readonly started: boolean;
  readonly stopping: boolean;
  /** Null: the store was not asked. */
  readonly storeAnswers: boolean | null;
  readonly services: readonly ReturnType<typeof serviceView>[];
}

const notStarted: HealthView = {
  healthy: false,
  started: false,
  stopping: false,
  storeAnswers: null,
  services: [],
};

/** @param worker null: it has not started */
export async function healthView(worker: Worker | null): Promise<HealthView> {
  if (worker === null) return notStarted;
  const { ok, stopping, store, services } = await worker.health();
  const storeAnswers = store.answers;
  return { healthy: ok, started: true, stopping, storeAnswers, services: services.map(serviceView) };
}

/** Without the text of errors, which may contain hosts and values. */
function serviceView({ name, running, alive, lastRoundAt, lastError }: ServiceHealth) {
  return {
    name,
    running,
    alive,
    lastRoundAt: lastRoundAt === null ? null : isoTime(lastRoundAt),
    lastRoundFailed: lastError !== null,
  };
}

export interface Health {
  readonly healthy: boolean;
}

export interface HealthServer {
  /** The actual port, also if any free one was requested. */
  readonly port: number;
  close(): Promise<void>;
}

export interface HealthRoutes {
  /** Answers every path except `/metrics`. */
  readonly health: () => Promise<Health>;
  /** The text for Prometheus, at `/metrics`. Null: there is none, and the path is like any other. */
  readonly metrics: (() => Promise<string>) | null;
}

/**
 * Answers GET and HEAD on every path: 200 if healthy, otherwise 503, with the health as JSON. `/metrics` has the metrics, if
 * there are any; 503 if they cannot be read.
 *
 * @throws {Error} if the port is not available.
 */
export async function serveHealth(
  { port, host }: { readonly port: number; readonly host: string | undefined },
  { health, metrics }: HealthRoutes,
): Promise<HealthServer> {
  const server = createServer((req, res) => {
    if (req.method !== "GET" && req.method !== "HEAD") {
      res.writeHead(405, { Allow: "GET, HEAD" }).end();
      return;
    }
    const path = (req.url ?? "/").replace(/\?.*$/su, "");
    void (path === "/metrics" && metrics !== null ? metricsOf(metrics) : healthOf(health)).then(
      ({ status, type, text }) => {
        res.writeHead(status, { "Content-Type": type, "Cache-Control": "no-store" }).end(text);
      },
    );
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

interface Page {
  readonly status: 200 | 503;
  readonly type: string;
  readonly text: string;
}

async function healthOf(look: HealthRoutes["health"]): Promise<Page> {
  const health = await look().catch(() => ({ healthy: false }));
  return { status: health.healthy ? 200 : 503, type: "application/json", text: JSON.stringify(health) };
}

async function metricsOf(read: () => Promise<string>): Promise<Page> {
  try {
    return { status: 200, type: "text/plain; version=0.0.4", text: await read() };
  } catch {
    return { status: 503, type: "text/plain", text: "The store could not be read.\n" };
  }
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
