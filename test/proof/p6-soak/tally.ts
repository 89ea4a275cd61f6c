/** What the epochs of a sitting add up to. */
import type { EpochReport } from "./epoch.ts";

export class Tally {
  cycles = 0;
  restMaxMs = 0;
  readonly faults: Record<string, number> = {};
  readonly reached: Record<string, number> = {};
  readonly versions: Record<string, string> = { Node: process.version };

  add({ chaos, reached, postgres, restMs }: EpochReport): void {
    this.cycles += chaos.cycles;
    this.restMaxMs = Math.max(this.restMaxMs, restMs);
    addCounts(this.faults, chaos.faults);
    addCounts(this.faults, {
      "kill -9 of Postgres": chaos.postgresKills,
      "kill -9 of a server process": chaos.serverKills,
    });
    addCounts(this.reached, reached);
    this.versions[`PostgreSQL ${Number.parseInt(postgres, 10)}`] = postgres;
  }
}

function addCounts(to: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [what, count] of Object.entries(more)) to[what] = (to[what] ?? 0) + count;
}
