/** Fixture servers as separate processes, and requests to them that record every byte of the answer. */

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { spawnWorker, type WorkerProcess } from "./processes.ts";
import { fillPgliteFolder } from "./ready-pglite.ts";
import { onRelease } from "./resources.ts";

const script = new URL("../fixture/main.ts", import.meta.url);
/** Loading PGlite's database on a busy machine. */
const startLimitMs = 40_000;

export interface FixtureAnswer {
  readonly status: number;
  /** The field lines of a header, in order. */
  lines(name: string): readonly string[];
  /** As sent: nothing is decompressed. */
  readonly bytes: Buffer;
  readonly text: string;
  /** The body as JSON; throws when it is not. */
  json(): unknown;
  readonly replayed: boolean;
}

export interface FixtureRequest {
  readonly method?: string;
  /** Default `tenant-1`; null: none. */
  readonly tenant?: string | null;
  readonly principal?: string;
  readonly key?: string;
  /** Sent as JSON; undefined: no body. */
  readonly body?: unknown;
  /** Sent as it is, instead of `body`. */
  readonly raw?: string | Uint8Array;
  /** An array is sent as several field lines. */
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

export interface Fixture {
  readonly worker: WorkerProcess;
  readonly port: number;
  request(path: string, request?: FixtureRequest): Promise<FixtureAnswer>;
  /** `POST` with a key. */
  post(path: string, key: string, request?: FixtureRequest): Promise<FixtureAnswer>;
  starts(route: string, tenant?: string): Promise<number>;
  ledger(tenant?: string): Promise<readonly LedgerRow[]>;
}

export interface LedgerRow {
  readonly id: string;
  readonly item: string;
  readonly amount: number;
  readonly key: string | null;
  readonly recordId: string | null;
  readonly attempt: number | null;
}

export interface FixtureStart {
  readonly http: string;
  readonly store: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a process and waits until it is ready. It ends at the latest with the test file. */
export async function startFixture({ http, store, args = [], env = {} }: FixtureStart): Promise<Fixture> {
  const at = args.indexOf("--data");
  if (store === "pglite" && at >= 0) await fillPgliteFolder(join(String(args[at + 1]), "pglite"));
  const worker = spawnFixture(["--http", http, "--store", store, ...args], env);
  const line = await worker.ready(startLimitMs);
  return fixtureAt(worker, Number(line.port));
}

export function spawnFixture(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): WorkerProcess {
  return spawnWorker(script, { args, env });
}

/** A folder that is removed with the test file. */
export function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), "latchkey-fixture-test-"));
  onRelease(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function fixtureAt(worker: WorkerProcess, port: number): Fixture {
  const request: Fixture["request"] = async (path, options = {}) => {
    const { method = "GET", body, raw } = options;
    const sent = httpRequest({ host: "127.0.0.1", port, path, method, headers: headersOf(options) });
    sent.end(raw ?? (body === undefined ? undefined : JSON.stringify(body)));
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    return answerOf(response);
  };
  const get = async (path: string, tenant?: string) =>
    (await request(path, tenant === undefined ? {} : { tenant })).json();
  return {
    worker,
    port,
    request,
    post: (path, key, options = {}) => request(path, { method: "POST", key, ...options }),
    starts: async (route, tenant) => {
      const counted = await get(`/counter?route=${encodeURIComponent(route)}`, tenant);
      return (counted as { starts: number }).starts;
    },
    ledger: async (tenant) => (await get("/ledger", tenant)) as LedgerRow[],
  };
}

function headersOf({ tenant = "tenant-1", principal, key, body, headers }: FixtureRequest) {
  return {
    ...(tenant !== null && { "X-Tenant": tenant }),
    ...(principal !== undefined && { "X-Principal": principal }),
    ...(key !== undefined && { "Idempotency-Key": key }),
    ...(body !== undefined && { "Content-Type": "application/json" }),
    ...headers,
  };
}

async function answerOf(response: IncomingMessage): Promise<FixtureAnswer> {
  const bytes = await buffer(response);
  const text = bytes.toString("utf8");
  const lines = (name: string) => response.headersDistinct[name.toLowerCase()] ?? [];
  return {
    status: response.statusCode ?? 0,
    lines,
    bytes,
    text,
    json: () => JSON.parse(text),
    replayed: lines("Idempotent-Replayed").includes("true"),
  };
}
