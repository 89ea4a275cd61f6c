/** Starts the recipes of `examples/recipes/` as they stand, and sends requests as their pages do. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { onTestFinished } from "vitest";
import { spawnWorker, type WorkerProcess } from "../../support/processes.ts";

export interface Answer {
  readonly status: number;
  readonly replayed: boolean;
  readonly headers: Headers;
  readonly body: string;
}

export interface Recipe {
  readonly worker: WorkerProcess;
  readonly url: string;
  post(path: string, key: string | null, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
}

type Environment = Readonly<Record<string, string>>;

/** A folder for what a recipe writes; gone when the test is over. */
export function recipeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-recipe-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function startScript(file: string, env: Environment, cwd?: string): WorkerProcess {
  const script = new URL(`../../../examples/recipes/${file}`, import.meta.url);
  const worker = spawnWorker(script, { env, ...(cwd !== undefined && { cwd }) });
  onTestFinished(() => worker.stop());
  return worker;
}

/** Starts a recipe's service on a free port, and waits until it listens. */
export async function startRecipe(file: string, env: Environment, cwd?: string): Promise<Recipe> {
  const worker = startScript(file, { PORT: "0", ...env }, cwd);
  const line = await worker.line(({ text }) => String(text).startsWith("listening on port "), 60_000);
  const url = `http://127.0.0.1:${/port (\d+)/u.exec(String(line.text))?.[1]}`;
  const send = async (path: string, init: RequestInit): Promise<Answer> => {
    const response = await fetch(url + path, init);
    const replayed = response.headers.get("idempotent-replayed") === "true";
    return { status: response.status, replayed, headers: response.headers, body: await response.text() };
  };
  const auth = { authorization: "Bearer acme-token" };
  return {
    worker,
    url,
    post: (path, key, body, headers = {}) =>
      send(path, {
        method: "POST",
        headers: {
          ...auth,
          "content-type": "application/json",
          ...(key !== null && { "idempotency-key": key }),
          ...headers,
        },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    get: (path, headers = {}) => send(path, { headers: { ...auth, ...headers } }),
  };
}

/** Lets nobody else at a table, so that a handler can be caught in the middle; returns what gives it free. */
export async function lockTable(databaseUrl: string, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  let open = true;
  const free = async () => {
    if (open) await client.end();
    open = false;
  };
  onTestFinished(free);
  await client.query(`begin; lock table ${table} in access exclusive mode`);
  return free;
}
