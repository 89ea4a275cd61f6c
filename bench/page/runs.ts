/** The last run of each bench, from the JSON beside the page. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Result } from "../report.ts";

export interface Run<One> {
  readonly date: string;
  readonly command: string;
  readonly results: readonly One[];
}

interface Named {
  readonly name: string;
}

export interface Dispatched extends Named {
  readonly jobsPerSecond: number | null;
  readonly workerMicros: number | null;
  readonly databaseMicros: number | null;
}

interface Scaled extends Run<never> {
  readonly rows: readonly { readonly kind: string; readonly rows: number; readonly p50Ms: number }[];
  readonly cleaning: { readonly rows: number; readonly batchP50Ms: number; readonly p99Ratio: number };
}

export const folder = resolve(process.argv[2] ?? join(import.meta.dirname, "../../docs"));

function read<Report>(name: string): Report | null {
  const path = join(folder, `performance${name}.json`);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Report) : null;
}

/** Of a missing run, nothing. */
const none = { date: "", command: "", results: [] };

/** HTTP, with the database on the same machine. */
export const near = read<Run<Result>>("") ?? none;
/** HTTP, with a round trip of 0.5 ms to the database. */
export const far = read<Run<Result>>("-far");
export const store = read<Run<Named & { readonly ratio: number | null }>>("-store");
export const dispatch = read<Run<Dispatched>>("-dispatch");
export const inbox = read<Run<Named & { readonly relative: number }>>("-inbox");
export const scale = read<Scaled>("-scale");
export const startUp = read<Run<Named & { readonly wallMs: number; readonly cpuMs: number }>>("-start-up");
