/** `latchkey doctor` with `--json`, on a database and on a service. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import pg from "pg";
import type { Finding } from "../../packages/latchkey/src/stores/examination.ts";
import { spawnWorker } from "../support/processes.ts";
import { latchkey } from "./arrange.ts";
import type { DoctorService } from "./configs/doctor.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const config = join(import.meta.dirname, "configs/doctor.ts");

export interface Examined {
  readonly exitCode: number | null;
  readonly checks: readonly Finding[];
  /** Status by check; of several findings of one check the last. */
  readonly statuses: Readonly<Record<string, string>>;
  of(check: string): Finding;
}

function examined(exitCode: number | null, out: string): Examined {
  const { checks, healthy } = JSON.parse(out) as { checks: readonly Finding[]; healthy: boolean };
  if (healthy !== (exitCode === 0)) throw new Error(`exit code ${exitCode} beside healthy: ${healthy}`);
  return {
    exitCode,
    checks,
    statuses: Object.fromEntries(checks.map(({ check, status }) => [check, status])),
    of(check) {
      const found = checks.find((one) => one.check === check);
      if (found === undefined) throw new Error(`nothing was found of ${check}: ${out}`);
      return found;
    },
  };
}

export async function examineDatabase(url: string, ...args: readonly string[]): Promise<Examined> {
  const { exitCode, out } = await latchkey(url, "doctor", "--json", ...args);
  return examined(exitCode, out);
}

/** In a process of its own, as the config opens pools when it is loaded. */
export async function examineService(service: DoctorService): Promise<Examined> {
  const child = spawnWorker(main, {
    args: ["doctor", "--json", "--config", config],
    env: { DOCTOR: JSON.stringify(service) },
  });
  const { code } = await child.exited;
  const lines = child.lines.map((line) => ("text" in line ? String(line.text) : JSON.stringify(line)));
  if (lines.length === 0) throw new Error(child.stderr());
  return examined(code, lines.join("\n"));
}

/** Runs statements in a database as its superuser. */
export async function alter(url: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

export interface Role {
  readonly name: string;
  readonly url: string;
  drop(): Promise<void>;
}

/** A role that may log in, and nothing more. */
export async function newRole(url: string): Promise<Role> {
  const name = `doctor_${randomUUID().slice(0, 8)}`;
  await alter(url, `create role ${name} login`);
  const own = new URL(url);
  own.username = name;
  return { name, url: own.href, drop: () => alter(url, `drop owned by ${name}`, `drop role ${name}`) };
}

/** What follows "Run: " or "Run as its owner: " in a remedy. */
export function statementOf({ remedy }: Finding): string {
  const statement = /^Run(?: as its owner)?: (.*?)(?: \(A service .*)?\.?$/u.exec(remedy ?? "")?.[1];
  if (statement === undefined) throw new Error(`no statement in ${remedy}`);
  return statement;
}
