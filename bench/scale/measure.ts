/** Turns of several processes at once, and medians over rounds. */
import type pg from "pg";
import type { WorkerProcess } from "../../test/support/processes.ts";
import { median } from "../report.ts";
import { type Job, runTurn } from "./worker.ts";

/** Everything that a part needs. */
export interface Scale {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly rounds: number;
  /** Of one turn. */
  readonly seconds: number;
  readonly rows: readonly number[];
  readonly churnMinutes: number;
  databaseCpu(): number;
  /** Adds a value to `performance-scale.json`. */
  keep(name: string, value: unknown): void;
}

export interface Measured {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of one request, in all processes and in the server. */
  readonly processMicros: number;
  readonly databaseMicros: number;
}

/** One turn: each process does its job. Percentiles are those of the process with the highest. */
export async function measure(
  scale: Scale,
  workers: readonly WorkerProcess[],
  jobOf: (index: number) => Job,
): Promise<Measured> {
  const before = scale.databaseCpu();
  const turns = await Promise.all(workers.map((worker, index) => runTurn(worker, jobOf(index))));
  const count = turns.reduce((sum, turn) => sum + turn.count, 0);
  return {
    perSecond: turns.reduce((sum, turn) => sum + (turn.count * 1_000) / turn.tookMs, 0),
    p50Ms: Math.max(...turns.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...turns.map(({ p99Ms }) => p99Ms)),
    processMicros: turns.reduce((sum, turn) => sum + turn.cpuMicros, 0) / count,
    databaseMicros: (scale.databaseCpu() - before) / count,
  };
}

export function medians(all: readonly Measured[]): Measured {
  const of = (field: keyof Measured) => median(all.map((one) => one[field]));
  return {
    perSecond: of("perSecond"),
    p50Ms: of("p50Ms"),
    p99Ms: of("p99Ms"),
    processMicros: of("processMicros"),
    databaseMicros: of("databaseMicros"),
  };
}

/** Cells in turn, forwards and backwards, so that changes of the machine affect all of them equally. */
export async function alternate<Cell>(
  cells: readonly Cell[],
  rounds: number,
  turnOf: (cell: Cell) => Promise<Measured>,
): Promise<Map<Cell, Measured>> {
  const all = new Map<Cell, Measured[]>(cells.map((cell) => [cell, []]));
  // A process that was just started still compiles its code.
  for (const cell of cells) await turnOf(cell);
  for (let round = 1; round <= rounds; round += 1) {
    for (const cell of round % 2 === 0 ? cells.toReversed() : cells) {
      const measured = await turnOf(cell);
      all.get(cell)?.push(measured);
      console.error(`${round} ${JSON.stringify(cell)}: ${measured.perSecond.toFixed(0)}/s`);
    }
  }
  return new Map([...all].map(([cell, measured]) => [cell, medians(measured)]));
}

export function table(
  heading: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return `${heading}\n\n${lines.join("\n")}`;
}

export const measuredHead = ["requests/s", "p50 ms", "p99 ms", "process CPU µs", "database CPU µs"];

export function measuredCells({
  perSecond,
  p50Ms,
  p99Ms,
  processMicros,
  databaseMicros,
}: Measured): string[] {
  return [
    perSecond.toFixed(0),
    p50Ms.toFixed(2),
    p99Ms.toFixed(2),
    processMicros.toFixed(0),
    databaseMicros.toFixed(0),
  ];
}

export const number = (value: number) => value.toLocaleString("en-US");
