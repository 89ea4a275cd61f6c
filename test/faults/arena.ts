/** A private Postgres behind a proxy, and fixture servers as processes of their own: where the fault tests are fought. */
import { join } from "node:path";
import pg from "pg";
import { type FixtureAnswer, startFixture, temporaryFolder } from "../support/fixture.ts";
import { type Arrival, openHandlerGate } from "../support/handler-gate.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import type { WorkerProcess } from "../support/processes.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";

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
  starts(route: string, tenant?: string): Promise<number>;
  ledger(tenant?: string): Promise<readonly unknown[]>;
}

export interface ServeOptions {
  readonly args?: readonly string[];
  /** Past the proxy. */
  readonly direct?: boolean;
  /** Handlers of /slow and /slow-tx wait at the arena's gate. */
  readonly gated?: boolean;
  /** How wrong the process's wall clock is; its monotonic clock is right. */
  readonly clockOffHours?: number;
}

export interface Arena {
  readonly postgres: PrivatePostgres;
  readonly proxy: TcpProxy;
  serve(options?: ServeOptions): Promise<Server>;
  /** The next handler that reaches the gate. */
  arrival(): Promise<Arrival>;
  /** Runs a statement past the proxy, as the superuser. */
  admin(sql: string): Promise<void>;
}

/** Everything ends with the test file. */
export async function openArena(): Promise<Arena> {
  const postgres = await startPostgres();
  const proxy = await startProxy({ to: { port: postgres.port } });
  const folder = temporaryFolder();
  const gate = await openHandlerGate(folder);
  return {
    postgres,
    proxy,
    arrival: gate.arrival,
    async serve({ args = [], direct = false, gated = false, clockOffHours = 0 } = {}) {
      const fixture = await startFixture({
        http: "express",
        store: direct ? postgres.url : proxy.url(postgres.url),
        // Services would meet the faults too, and open the circuit at moments that no test has chosen.
        args: ["--data", join(folder, "data"), "--services", "off", ...args],
        env: {
          ...(gated && { LATCHKEY_FIXTURE_GATE: gate.path }),
          ...(clockOffHours !== 0 && { NODE_OPTIONS: wrongClock(clockOffHours) }),
        },
      });
      return {
        worker: fixture.worker,
        starts: fixture.starts,
        ledger: fixture.ledger,
        post: async (path, key, body = { item: "book", amount: 1 }, tenant = "t") =>
          replyOf(await fixture.post(path, key, { tenant, body })),
      };
    },
    async admin(sql) {
      const admin = new pg.Client(postgres.connection);
      await admin.connect();
      await admin.query(sql).finally(() => admin.end());
    },
  };
}

function replyOf({ status, text, replayed, lines }: FixtureAnswer): Reply {
  const problem = lines("content-type").includes("application/problem+json");
  return { status, body: text, replayed, code: problem ? (JSON.parse(text) as { code: string }).code : null };
}

function wrongClock(hours: number): string {
  const code = `const real = Date.now; Date.now = () => real() + ${hours} * 3600000;`;
  return `--conditions=latchkey-source --import data:text/javascript,${encodeURIComponent(code)}`;
}
