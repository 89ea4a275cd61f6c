/** One interleaving of a scenario, from its beginning to the judgement. */
import type { Chooser, Option } from "./choosers.ts";
import type { Wire } from "./gated-socket.ts";
import type { Lane } from "./lane.ts";
import type { Actor, Cast, FaultKind, Moment, Scenario, World } from "./scenario.ts";
import { brokenEverywhere } from "./seen.ts";

/** Beyond this many steps nobody gets anywhere. */
const stepsMax = 400;

const deadlocked = "SQLSTATE 40P01";
export const ownDeadlocks = "deadlock among Latchkey's own statements";

interface Choice extends Option {
  act(): Promise<void> | void;
}

export interface Played {
  /** What was chosen, as indices. */
  readonly picks: readonly number[];
  /** The same, in words. */
  readonly schedule: readonly string[];
  readonly broken: readonly string[];
  /** What befell it. */
  readonly fault: FaultKind | null;
}

export async function play(
  lane: Lane,
  scenario: Scenario,
  chooser: Chooser,
  faults: readonly FaultKind[],
): Promise<Played> {
  return new Play(lane, scenario, chooser, faults).run();
}

class Play {
  readonly #lane: Lane;
  readonly #scenario: Scenario;
  readonly #chooser: Chooser;
  readonly #faults: readonly FaultKind[];
  readonly #picks: number[] = [];
  readonly #schedule: string[] = [];
  readonly #running = new Set<string>();
  #moments: readonly Moment[] = [];
  #fault: FaultKind | null = null;

  constructor(lane: Lane, scenario: Scenario, chooser: Chooser, faults: readonly FaultKind[]) {
    this.#lane = lane;
    this.#scenario = scenario;
    this.#chooser = chooser;
    this.#faults = faults;
  }

  async run(): Promise<Played> {
    const { stage } = this.#lane;
    stage.offences.length = 0;
    const deadlocks = stage.tally.of(deadlocked);
    const world: World = await this.#lane.begin((what, max) => this.#pick(what, max));
    const cast = await this.#scenario.arrange(world);
    this.#moments = cast.moments;
    stage.closed = true;
    for (const actor of cast.actors) this.#start(actor);
    const stuck = await this.#untilOver();
    stage.closed = false;
    // Handlers that cross each other are one thing, our own statements another.
    const own = this.#scenario.handlersCross === true ? 0 : stage.tally.of(deadlocked) - deadlocks;
    if (own > 0) stage.tally.count(ownDeadlocks, own);
    if (stuck !== null) return this.#played([stuck]);
    const stuckAfterwards = await this.#afterwards(cast);
    if (stuckAfterwards !== null) return this.#played([stuckAfterwards]);
    const seen = await this.#lane.look();
    const broken = [...stage.offences, ...brokenEverywhere(seen), ...(await cast.check(seen, this.#fault))];
    return this.#played([...broken, ...(await this.#lane.end())]);
  }

  #played(broken: readonly string[]): Played {
    return { picks: this.#picks, schedule: this.#schedule, broken, fault: this.#fault };
  }

  #start(actor: Actor): void {
    this.#running.add(actor.name);
    const ended = () => {
      this.#running.delete(actor.name);
      this.#lane.stage.noted();
    };
    actor.run().then(ended, ended);
  }

  /** Null: everybody has ended. */
  async #untilOver(): Promise<string | null> {
    const { stage, sessions } = this.#lane;
    for (;;) {
      await stage.quiet();
      if (sessions.map(({ clock }) => clock.endPause()).includes(true)) continue;
      const flying = stage.wires.filter(({ flight }) => flight !== null);
      if (flying.length === 0 && this.#running.size === 0) return null;
      const choices = this.#choices(flying);
      if (choices.length > 0) {
        if (this.#picks.length >= stepsMax) return `L1: no end after ${stepsMax} steps`;
        await this.#take(choices);
      } else if (flying.length === 0 || !(await stage.waitForServer())) {
        return `L1: stuck, with ${[...this.#running].join(", ")} under way`;
      }
    }
  }

  /** Nothing is held back any more, and whoever pauses before another try goes on at once. Null: it has ended. */
  async #afterwards({ aftermath }: Cast): Promise<string | null> {
    const { stage, sessions } = this.#lane;
    let isOver = false;
    const over = () => {
      isOver = true;
      stage.noted();
    };
    const running = aftermath?.();
    running?.then(over, over);
    for (let steps = 0; running !== undefined && !isOver; steps++) {
      if (steps > stepsMax) return `L1: no end ${stepsMax} steps after all was over`;
      await stage.quiet();
      const goesOn = isOver || sessions.map(({ clock }) => clock.endPause()).includes(true);
      if (!goesOn && !(await stage.waitForServer())) return "L1: stuck after all was over";
    }
    await running;
    return null;
  }

  #pick(what: string, max: number): number {
    const numbers = Array.from({ length: max }, (_, index) => index + 1);
    // Not as a session's move: some choosers repeat those of one session.
    const options = numbers.map((one) => ({
      label: `${what}: ${one}`,
      kind: "network" as const,
      session: -1,
      one,
    }));
    return this.#choose(options).one;
  }

  async #take(choices: readonly Choice[]): Promise<void> {
    await this.#choose(choices).act();
  }

  #choose<O extends Option>(options: readonly O[]): O {
    const pick = this.#chooser.choose(options);
    const option = options[pick];
    if (option === undefined) throw new RangeError("No such choice");
    this.#picks.push(pick);
    this.#schedule.push(option.label);
    return option;
  }

  #choices(flying: readonly Wire[]): readonly Choice[] {
    const moves = flying.flatMap((wire) => this.#movesOf(wire));
    const isOver = this.#running.size === 0;
    const to = this.#moments.filter(({ after }) => !this.#moments.some(({ name }) => name === after));
    const moments = isOver ? [] : to.map((moment) => this.#momentChoice(moment));
    const faults = isOver || this.#fault !== null ? [] : flying.flatMap((wire) => this.#faultsOf(wire));
    // An accident must not be what gets others out of where they are stuck.
    const isStuck = moves.length + moments.length === 0;
    return isStuck ? [] : [...named(moves), ...named([...moments, ...faults])];
  }

  #movesOf(wire: Wire): readonly Choice[] {
    const { held, session, flight } = wire;
    if (held === null) return [];
    if (flight?.outcome !== "orphan") {
      return [{ label: `${session} ${held.label}`, kind: "move", session, act: () => wire.deliver() }];
    }
    const label = `network: ${session} ${held.label}`;
    return [
      { label, kind: "network", session: -1, act: () => wire.deliver() },
      { label: `${label} never arrives`, kind: "network", session: -1, act: () => this.#drop(wire) },
    ];
  }

  #drop(wire: Wire): void {
    this.#lane.tally.count("late bytes never arrived");
    wire.cutOff();
  }

  #momentChoice(moment: Moment): Choice {
    return {
      label: moment.name,
      kind: "moment",
      session: -1,
      act: () => {
        this.#moments = this.#moments.filter((other) => other !== moment);
        return moment.happen();
      },
    };
  }

  #faultsOf(wire: Wire): readonly Choice[] {
    const { flight, session, held } = wire;
    if (flight === null) return [];
    const what = held?.label ?? `${flight.parts[flight.next - 1]?.label}, blocked`;
    const of = (kind: FaultKind, act: () => Promise<void> | void): readonly Choice[] => {
      if (!this.#faults.includes(kind)) return [];
      const happen = () => {
        this.#fault = kind;
        this.#lane.tally.count(`fault ${kind}`);
        return act();
      };
      return [{ label: `${session} ${what}: ${kind}`, kind: "fault", session: -1, act: happen }];
    };
    const isLast = held?.isLast === true && flight.commits;
    return [
      ...of("killed", () => this.#lane.stage.endBackend(wire)),
      ...(isLast ? of("reply_lost", () => loseReply(wire)) : []),
      ...(flight.commits && flight.giveUp !== null ? of("late", () => comeLate(wire)) : []),
    ];
  }
}

function loseReply(wire: Wire): void {
  if (wire.flight !== null) wire.flight.outcome = "reply_lost";
  wire.deliver();
}

/** The client has no more patience; what it has sent is under way. */
function comeLate({ flight }: Wire): void {
  if (flight === null) return;
  flight.outcome = "orphan";
  flight.giveUp?.();
}

/** In an order that does not depend on what came first, and no name twice. */
function named(choices: readonly Choice[]): readonly Choice[] {
  const sorted = choices.toSorted((a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0));
  return sorted.map((choice, index) => {
    const before = sorted.slice(0, index).filter(({ label }) => label === choice.label).length;
    return before === 0 ? choice : { ...choice, label: `${choice.label} (${before + 1})` };
  });
}
