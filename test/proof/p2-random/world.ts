/**
 * A closed world: two processes with production code over one memory store, clients, background services, and another
 * side. Nothing in it moves by itself: whoever drives it lets one thing go at a time.
 */

import type { LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import { createLatchkey } from "../../../packages/latchkey/src/latchkey.ts";
import type { Random } from "../../../packages/latchkey/src/ports.ts";
import { assembleMemoryStore } from "../../../packages/latchkey/src/stores/memory/assemble.ts";
import { MemoryMessages } from "../../../packages/latchkey/src/stores/memory/messages.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { AuditEntry } from "../../../packages/latchkey/src/stores/settlement.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type {
  Fault,
  FaultPlan,
  StorePort,
} from "../../../packages/latchkey/src/testing/faulty-store/fault.ts";
import { faultyStore } from "../../../packages/latchkey/src/testing/faulty-store.ts";
import type { Plant } from "../harness/store-plants.ts";
import type { Asked } from "./asked.ts";
import type { Choices } from "./choices.ts";
import type { Config } from "./config.ts";
import { Downstream } from "./downstream.ts";
import { EffectLog } from "./effect-log.ts";
import { Lives } from "./lives.ts";
import { defineAll } from "./operations.ts";
import { Process, type ServiceName } from "./process.ts";
import { recorded } from "./recorder.ts";
import { Report } from "./report.ts";
import { FaultTable, Scheduler, unscheduled, type Waiting, type WorldFault } from "./scheduler.ts";
import type { Stage } from "./stage.ts";
import { WatchedEffects, WatchedRows, WatchedTables } from "./watched.ts";
import { WorldClock } from "./world-clock.ts";

export interface WorldOptions {
  /** Whether the schedule is to be read afterwards. */
  readonly readable?: boolean;
  readonly plant?: Plant;
  /** Whose list says what a tenant's handlers do. Default: the one list. */
  readonly choicesOf?: (tenant: string) => Choices;
}

/** Something of a process that has begun and has to end. */
export interface Task {
  readonly process: Process;
  readonly what: string;
}

export class World implements Stage {
  readonly config: Config;
  readonly choices: Choices;
  readonly report: Report;
  readonly clock = new WorldClock();
  readonly scheduler = new Scheduler();
  readonly downstream: Downstream;
  readonly lives: Lives;
  readonly effects: EffectLog;
  readonly audit: AuditEntry[] = [];
  readonly tasks = new Set<Task>();
  /** What clients have asked for, oldest first. */
  readonly asked: Asked[] = [];
  readonly faults: FaultTable;
  /** Not where tenants are kept apart: what several of them share is none's alone to move. */
  readonly sharesTransactions: boolean;
  /** No faults any more, and nothing waits to be let go. */
  calm = false;
  /** Steps so far: what observations are ordered by. */
  steps = 0;
  readonly #store: Store<MemoryTransaction>;
  readonly #slots: (Process | null)[] = [null, null];
  readonly #random: Random;
  readonly #choicesOf: (tenant: string) => Choices;
  #operator: Process | null = null;
  #processes = 0;
  #nonces = 0;

  constructor(config: Config, choices: Choices, { readable = false, plant, choicesOf }: WorldOptions) {
    this.sharesTransactions = choicesOf === undefined;
    this.#choicesOf = choicesOf ?? (() => choices);
    this.config = config;
    this.choices = choices;
    this.report = new Report(readable);
    this.faults = new FaultTable(config.crashes);
    this.downstream = new Downstream(this.report);
    this.lives = new Lives(config, this.clock, this.report, this.downstream);
    this.effects = new EffectLog(this.clock, this.report, this.lives, this.downstream);
    this.lives.hasUndelivered = (id) => this.effects.undelivered(id);
    const memory = assembleMemoryStore({
      rows: new WatchedRows(this.lives),
      effects: new WatchedEffects(this.effects),
      tables: new WatchedTables(this.effects),
      messages: new MemoryMessages(),
      audit: this.audit,
      clock: this.clock.of({ alive: true, frozen: false }),
      now: () => this.clock.nowMs,
    });
    this.#store = plant === undefined ? memory : { ...memory, ...plant(memory) };
    let drawn = 0;
    this.#random = { token: () => `token-${++drawn}`, uuid: () => `id-${++drawn}`, fraction: () => 0.5 };
  }

  get slots(): number {
    return this.#slots.length;
  }

  /** The process of this place; a new one where it has died. */
  process(slot: number): Process {
    const there = this.#slots[slot];
    if (there != null) return there;
    const process = this.#begun(`p${slot}.${++this.#processes}`, false);
    this.#slots[slot] = process;
    return process;
  }

  /** Those that live, in their places. */
  living(): readonly Process[] {
    return this.#slots.filter((process) => process !== null);
  }

  /** A process whose calls all get through at once: for what a person does. */
  operator(): Process {
    this.#operator ??= this.#begun("operator", true);
    return this.#operator;
  }

  nextNonce(): number {
    this.#nonces += 1;
    return this.#nonces;
  }

  behaviour(process: Process, tenant: string, below: number): number {
    return this.calm || process.calm ? 0 : this.#choicesOf(tenant).choose(below);
  }

  /** Notes a task until it has ended, however. */
  track(process: Process, what: string, running: Promise<unknown>): void {
    const task = { process, what };
    this.tasks.add(task);
    this.report.trace.say(() => `${process.name} begins ${what}`);
    const over = () => this.tasks.delete(task);
    running.then(over, over);
  }

  startService(process: Process, name: ServiceName): void {
    process.running.add(name);
    const round = process
      .service(name)
      .runOnce()
      .catch((error: unknown) => this.#judgeServiceError(name, error))
      .finally(() => process.running.delete(name));
    this.track(process, name, round);
  }

  /** Lets something go that waits, or lets something befall it. */
  let(waiting: Waiting, fault: WorldFault): void {
    const { trace } = this.report;
    this.scheduler.take(waiting);
    trace.mixText(waiting.what);
    trace.mixText(fault);
    trace.say(() => {
      const outcome = fault === "proceed" ? "" : `: ${fault}`;
      return `  ${waiting.process?.name ?? "network"} ${waiting.kind} ${waiting.what}${outcome}`;
    });
    if (fault !== "proceed") this.report.fault(`${fault} at a ${waiting.kind}`);
    waiting.go(fault);
  }

  /** A process dies. What it had sent may still arrive. */
  crash(process: Process): void {
    if (!process.alive) return;
    this.#bury(process);
    process.kill();
  }

  /** Until it is let go. At once, when all is calm. */
  point(process: Process, what: string, tenant: string): Promise<void> {
    if (this.calm || process.calm) return Promise.resolve();
    return new Promise((resolve) => {
      if (!process.alive) return;
      const go = (fault: WorldFault) => (fault === "proceed" ? resolve() : this.crash(process));
      this.scheduler.add({ kind: "handler", what, process, tenant, faults: this.faults.handler, go });
    });
  }

  /** Something on its way that is nobody's any more, or that a process waits for. */
  onItsWay(process: Process | null, what: string, tenant: string | null): Promise<void> {
    if (this.calm) return Promise.resolve();
    return new Promise((resolve) => {
      const kind = process === null ? "network" : "reply";
      this.scheduler.add({ kind, what, process, tenant, faults: [], go: () => resolve() });
    });
  }

  /** After each step: what is to hold then. */
  checkStep(): void {
    this.steps += 1;
    this.effects.checkStep();
    this.lives.checkAudit(this.audit);
  }

  /** The state of every key that has a record. */
  records(): readonly LatchkeyRecord[] {
    return [...this.lives.current.values()].map(({ record }) => record);
  }

  #begun(name: string, isCalm: boolean): Process {
    const process = new Process(name, isCalm);
    const { lives, effects, clock, report } = this;
    const store = recorded({ store: this.#store, lives, effects, clock, report }, process);
    const faulty = faultyStore(store, isCalm ? () => "proceed" : this.#planOf(process));
    const latchkey = createLatchkey<MemoryTransaction>({
      store: faulty.store,
      ports: { clock: clock.of(process), random: this.#random },
      circuitBreaker: false,
      strict: false,
      logSecret: "p2",
    });
    process.begin(latchkey, faulty.kill);
    defineAll(this, process);
    return process;
  }

  #planOf(process: Process): FaultPlan {
    return ({ port, key }) => {
      if (!process.alive) return "crash_before";
      if (this.calm || unscheduled.has(port)) return "proceed";
      const tenant = key?.tenant ?? null;
      return new Promise<Fault>((resolve) => {
        const go = (fault: WorldFault) => resolve(this.#faultOf(process, port, tenant, fault));
        const faults = this.faults.call(port);
        this.scheduler.add({ kind: "call", what: port, process, tenant, faults, go });
      });
    };
  }

  #faultOf(process: Process, port: StorePort, tenant: string | null, fault: WorldFault): Fault {
    switch (fault) {
      case "late":
        return { kind: "late", until: this.onItsWay(null, `late ${port}`, tenant) };
      case "slow":
        return { kind: "reply", until: this.onItsWay(process, `reply of ${port}`, tenant) };
      case "crash_before":
      case "crash_after":
        // The store's wrapper ends the process once this call has come so far.
        this.#bury(process);
        return fault;
      case "not_executed":
      case "refused":
        throw new TypeError(`A call to the store cannot be ${fault}`);
      default:
        return fault;
    }
  }

  #bury(process: Process): void {
    if (!process.alive) return;
    process.alive = false;
    this.report.reach("a process died");
    this.report.trace.say(() => `  ${process.name} dies`);
    this.clock.drop(process);
    for (const [slot, there] of this.#slots.entries()) if (there === process) this.#slots[slot] = null;
    for (const task of this.tasks) if (task.process === process) this.tasks.delete(task);
    for (const waiting of this.scheduler.takeAllOf(process)) {
      // A call finds its process dead, and its transaction is ended.
      if (waiting.kind === "call") waiting.go("crash_before");
      if (waiting.kind === "send" && this.choices.oneIn(2)) waiting.go("late");
    }
  }

  /** A round fails when the store does; anything else is a mistake. */
  #judgeServiceError(name: ServiceName, error: unknown): void {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code !== "store-unavailable" || this.calm) this.report.fail("L3", `${name} threw ${String(error)}`);
  }
}
