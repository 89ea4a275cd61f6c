/** The first part of a schedule: clients come, services run, time passes, and things go wrong, as the list has it. */
import { submit } from "./clients.ts";
import { type ClientKey, leaseMs, type OperationPlan } from "./config.ts";
import { decideAsPerson } from "./person.ts";
import type { Process } from "./process.ts";
import { faultRateOf, type WorldFault } from "./scheduler.ts";
import { wantedServices } from "./wanted.ts";
import type { World } from "./world.ts";

/** To the next timer; through a lease; past a claim; past an answer's time; past a provider's memory. */
const leapsMs = [0, leaseMs, leaseMs, 12_000, 22_000, 45_000, 70_000] as const;
/** Of 16 draws, so many let something go that waits; the others begin something, or let time pass. */
const goesOn = 9;

export class Chaos {
  readonly #world: World;
  #clients: number;
  #services: number;
  #leaps: number;
  #faults: number;
  #steps = 0;
  /** Time is on its way to this moment. */
  #untilMs: number | null = null;

  constructor(world: World) {
    const { clients, services, leaps, faultsMax } = world.config;
    this.#world = world;
    this.#clients = clients;
    this.#services = services;
    this.#leaps = leaps;
    this.#faults = faultsMax;
  }

  /** One step. False: this part is over. */
  step(): boolean {
    const { clock, choices, config } = this.#world;
    if (this.#untilMs !== null) {
      if (!clock.fireOne(this.#untilMs)) {
        clock.moveTo(this.#untilMs);
        this.#untilMs = null;
      }
      return true;
    }
    this.#steps += 1;
    if (this.#steps > config.stepsMax || choices.exhausted) return false;
    const kind = choices.choose(16);
    if (kind < goesOn) return this.#goOn() || this.#begin() || this.#tick();
    if (kind < goesOn + 2) return this.#client() || this.#goOn() || this.#tick();
    if (kind < goesOn + 5) return this.#act() || this.#goOn() || this.#begin() || this.#tick();
    if (kind < goesOn + 6) return this.#leap() || this.#goOn() || this.#begin() || this.#tick();
    return this.#freeze() || this.#goOn() || this.#begin() || this.#tick();
  }

  #goOn(): boolean {
    const { scheduler, choices, config } = this.#world;
    const eligible = scheduler.eligible();
    if (eligible.length === 0) return false;
    const waiting = choices.pick(eligible);
    let fault: WorldFault = "proceed";
    const mayFail = config.faultRate > 0 && this.#faults > 0 && waiting.faults.length > 0;
    const rate = faultRateOf(config, waiting);
    if (mayFail && choices.choose(64) >= 64 - rate) {
      fault = choices.pick(waiting.faults);
      this.#faults -= 1;
    }
    this.#world.let(waiting, fault);
    return true;
  }

  #begin(): boolean {
    return this.#client() || this.#act();
  }

  #client(): boolean {
    if (this.#clients === 0) return false;
    this.#clients -= 1;
    const world = this.#world;
    const { choices, config } = world;
    const key: ClientKey = choices.pick(config.keys);
    const plan: OperationPlan = choices.pick(config.operations);
    const digest = choices.oneIn(5) ? 2 : 1;
    const principal = choices.oneIn(9) ? "q" : "p";
    const process = world.process(this.#slot());
    if (process.frozen) return true;
    world.asked.push(submit(world, process, { plan, key, digest, principal }));
    if (plan.batchSize === null || !world.sharesTransactions) return true;
    // As messages come: otherwise there would hardly ever be several that wait.
    for (const other of config.keys) {
      if (other === key || this.#clients === 0) continue;
      this.#clients -= 1;
      world.asked.push(submit(world, process, { plan, key: other, digest, principal }));
    }
    return true;
  }

  /** A service or a person, where there is something for one. */
  #act(): boolean {
    if (this.#services === 0) return false;
    const world = this.#world;
    const { choices } = world;
    const wanted = wantedServices(world);
    const isPersonal = world
      .records()
      .some((record) => record.state === "unknown" && record.reconcileAfter === null);
    const count = wanted.length + (isPersonal ? 1 : 0);
    if (count === 0) return false;
    this.#services -= 1;
    const name = wanted[choices.choose(count)];
    if (name === undefined) {
      decideAsPerson(world);
      return true;
    }
    const process = world.process(this.#slot());
    if (!process.frozen && !process.running.has(name)) world.startService(process, name);
    return true;
  }

  /** Mostly the first: to begin a process costs as much as several steps. */
  #slot(): number {
    return this.#world.choices.oneIn(3) ? 1 : 0;
  }

  #tick(): boolean {
    const dueMs = this.#world.clock.nextDueMs();
    if (dueMs === null) return this.#leap();
    this.#moveOn(dueMs);
    return true;
  }

  #leap(): boolean {
    if (this.#leaps === 0) return false;
    this.#leaps -= 1;
    const { clock, choices } = this.#world;
    const leapMs = choices.pick(leapsMs);
    this.#moveOn(leapMs === 0 ? (clock.nextDueMs() ?? clock.nowMs + 1_000) : clock.nowMs + leapMs);
    return true;
  }

  #moveOn(untilMs: number): void {
    const { clock, report } = this.#world;
    report.trace.mix(untilMs);
    report.trace.say(() => `time goes on by ${untilMs - clock.nowMs} ms`);
    this.#untilMs = untilMs;
  }

  #freeze(): boolean {
    const world = this.#world;
    const living: readonly Process[] = world.living();
    if (!world.config.freezes || living.length === 0) return false;
    const process = world.choices.pick(living);
    process.frozen = !process.frozen;
    world.report.trace.say(() => `${process.name} ${process.frozen ? "freezes" : "thaws"}`);
    if (!process.frozen) world.report.reach("a frozen process thawed");
    return true;
  }
}
