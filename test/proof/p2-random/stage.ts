/** What handlers and sends need of the world that they run in. */
import type { Config } from "./config.ts";
import type { Downstream } from "./downstream.ts";
import type { EffectLog } from "./effect-log.ts";
import type { Lives } from "./lives.ts";
import type { Process } from "./process.ts";
import type { Report } from "./report.ts";
import type { FaultTable, Scheduler } from "./scheduler.ts";
import type { WorldClock } from "./world-clock.ts";

export interface Stage {
  readonly config: Config;
  readonly report: Report;
  readonly clock: WorldClock;
  readonly scheduler: Scheduler;
  readonly downstream: Downstream;
  readonly lives: Lives;
  readonly effects: EffectLog;
  readonly faults: FaultTable;
  /** No faults any more, and nothing waits to be let go. */
  readonly calm: boolean;
  /** The number of a handler's run. */
  nextNonce(): number;
  /** What a handler of this tenant does; 0, the plainest, once it is calm. */
  behaviour(process: Process, tenant: string, below: number): number;
  /** A handler waits until it is let go. */
  point(process: Process, what: string, tenant: string): Promise<void>;
  /** Something on its way that is nobody's any more, or that a process waits for. */
  onItsWay(process: Process | null, what: string, tenant: string | null): Promise<void>;
  crash(process: Process): void;
}
