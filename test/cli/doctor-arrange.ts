/** `latchkey doctor` with `--json`, on a database and on a service. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import type { Finding } from "../../packages/latchkey/src/stores/examination.ts";
import { latchkey, latchkeyUnder } from "./arrange.ts";
import { type DescribedService, withConfig } from "./configs/described.ts";

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

export function examineService(service: DescribedService): Promise<Examined> {
  return withConfig(service, async (config) => {
    const { exitCode, out, errors } = await latchkeyUnder({}, "doctor", "--json", "--config", config);
    if (out === "") throw new Error(errors);
    return examined(exitCode, out);
  });
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
