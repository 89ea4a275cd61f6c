/** The machine on which the benches run, and the settings of their Postgres. */
import { cpus, release, totalmem, type } from "node:os";
import type { PrivatePostgres } from "../test/support/private-postgres.ts";

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly system: string;
  readonly node: string;
  readonly postgres: string;
}

/** Settings of a service, not of tests. */
export const serverSettings = {
  fsync: true,
  full_page_writes: true,
  synchronous_commit: true,
  shared_buffers: "256MB",
  max_wal_size: "1GB",
  min_wal_size: "256MB",
  max_connections: 400,
};

export function machineOf({ installation }: PrivatePostgres): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGib: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    node: process.versions.node,
    postgres: installation.fullVersion,
  };
}

export function renderMachine({ processor, cores, memoryGib, system, node, postgres }: Machine): string {
  return (
    `Machine: ${processor}, ${cores} cores shared by load generator, server and database, ${memoryGib} GiB, ` +
    `${system}; Node ${node}, PostgreSQL ${postgres}`
  );
}

/** @throws {TypeError} */
export function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new TypeError(`--${name} must be a positive number (got ${text})`);
  return value;
}
