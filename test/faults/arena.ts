/** A private Postgres behind a proxy, and fixture servers as processes of their own: what the fault tests are fought in. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import {
  type PrivatePostgres,
  type PrivatePostgresOptions,
  startPostgres,
} from "../support/private-postgres.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { deferred } from "../support/until.ts";

export interface Reply {
  readonly status: number;
  readonly body: string;
  readonly replayed: boolean;
  /** The problem's code, when the body is a problem. */
  readonly code: string | null;
}

export interface Server {
  readonly worker: WorkerProcess;
  post(path: string, key: string, body?: unknown, tenant?: string): Promise<Reply>;
  get<T>(path: string, tenant?: string): Promise<T>;
  starts(route: string, tenant?: string): Promise<number>;
  ledger(tenant?: string): Promise<readonly unknown[]>;
}

/** A handler that waits at the gate. */
export interface Arrival {
  readonly pid: number;
  readonly attempt: number;
  release(): void;
}

export interface Arena {
  readonly postgres: PrivatePostgres;
  /** In front of Postgres; servers started with `direct` go past it. */
  readonly proxy: TcpProxy;
  serve(options?: ServeOptions): Promise<Server>;
  /** The next handler that reaches the gate. */
  arrival(): Promise<Arrival>;
  /** Runs a query past the proxy, as the superuser. */
  admin(sql: string): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

export interface ServeOptions {
  readonly args?: readonly string[];
  readonly direct?: boolean;
  /** Handlers of /slow and /slow-tx wait at the arena's gate. */
  readonly gated?: boolean;
  readonly execArgv?: readonly string[];
}

const fixture = new URL("../fixture/main.ts", import.meta.url);

export async function openArena(options: PrivatePostgresOptions = {}): Promise<Arena> {
  const postgres = await startPostgres(options);
  const proxy = await startProxy({ to: { port: postgres.port } });
  const folder = mkdtempSync(join(tmpdir(), "latchkey-arena-"));
  const gate = await openGate(join(folder, "gate"));
  const workers: WorkerProcess[] = [];
  return {
    postgres,
    proxy,
    arrival: gate.arrival,
    async serve({ args = [], direct = false, gated = false, execArgv = [] } = {}) {
      const store = direct ? postgres.url : proxy.url(postgres.url);
      const worker = spawnWorker(fixture, {
        args: ["--http", "express", "--store", store, "--data", join(folder, "data"), ...args],
        env: gated ? { LATCHKEY_FIXTURE_GATE: gate.path } : {},
        execArgv,
      });
      workers.push(worker);
      const { port } = await worker.ready(30_000);
      return client(worker, Number(port));
    },
    async admin(sql) {
      const admin = new pg.Client(postgres.connection);
      await admin.connect();
      try {
        return (await admin.query(sql)).rows;
      } finally {
        await admin.end();
      }
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.stop()));
      await gate.close();
      await proxy.close();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function client(worker: WorkerProcess, port: number): Server {
  const origin = `http://127.0.0.1:${port}`;
  const get = async <T>(path: string, tenant = "t"): Promise<T> => {
    const response = await fetch(origin + path, { headers: { "x-tenant": tenant } });
    return (await response.json()) as T;
  };
  return {
    worker,
    get,
    async post(path, key, body = { item: "book", amount: 1 }, tenant = "t") {
      const response = await fetch(origin + path, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "x-tenant": tenant,
          "idempotency-key": key,
          connection: "close",
        },
        body: JSON.stringify(body),
      });
      return replyOf(response);
    },
    starts: async (route, tenant) =>
      (await get<{ starts: number }>(`/counter?route=${encodeURIComponent(route)}`, tenant)).starts,
    ledger: (tenant) => get("/ledger", tenant),
  };
}

async function replyOf(response: Response): Promise<Reply> {
  const body = await response.text();
  const problem = response.headers.get("content-type")?.startsWith("application/problem+json") ?? false;
  return {
    status: response.status,
    body,
    replayed: response.headers.get("idempotent-replayed") === "true",
    code: problem ? (JSON.parse(body) as { code: string }).code : null,
  };
}

async function openGate(path: string) {
  const arrived: Arrival[] = [];
  const waiting: ((arrival: Arrival) => void)[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.setEncoding("utf8").once("data", (line: unknown) => arrive(socket, String(line)));
  });
  const arrive = (socket: Socket, line: string) => {
    const { pid, attempt } = JSON.parse(line) as { pid: number; attempt: number };
    const arrival = { pid, attempt, release: () => socket.end("go") };
    const next = waiting.shift();
    if (next === undefined) arrived.push(arrival);
    else next(arrival);
  };
  server.listen(path);
  await once(server, "listening");
  return {
    path,
    arrival(): Promise<Arrival> {
      const first = arrived.shift();
      if (first !== undefined) return Promise.resolve(first);
      const next = deferred<Arrival>();
      waiting.push(next.resolve);
      return next.promise;
    },
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
