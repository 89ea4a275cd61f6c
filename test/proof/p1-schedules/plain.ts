/**
 * The same worlds without any reduction, to check the exploration with: nothing is looked up, no two positions are taken for
 * one, anybody may crash at any moment, and every schedule is run from its beginning. For small bounds only.
 */
import { type Ask, changes, isCommit, isRollback } from "./ask.ts";
import { type Bound, spent } from "./bound.ts";
import { type Configuration, rolesOf } from "./configurations.ts";
import { execute, mayHappen } from "./execute.ts";
import { type Input, type Pending, Process } from "./process.ts";
import { hasDeadline, later, nothing, type Shared, withoutProcess, withoutTransaction } from "./shared.ts";
import { lossOf } from "./space.ts";
import { textOf } from "./text.ts";

interface Choice {
  readonly name: string;
  readonly price: Partial<Bound>;
  /** Who runs; null: nobody. */
  readonly runs: string | null;
  happen(): Promise<void>;
}

export interface PlainResult {
  readonly schedules: number;
  /** What is shared, and the replies to clients. */
  readonly ends: ReadonlySet<string>;
}

export async function exploreAll(configuration: Configuration, bound: Bound): Promise<PlainResult> {
  const ends = new Set<string>();
  let schedules = 0;
  const visit = async (path: readonly string[], left: Bound): Promise<void> => {
    const world = await replayed(configuration, path);
    const choices = world.choices(left);
    if (choices.length === 0) {
      schedules += 1;
      ends.add(world.end());
    }
    for (const { name, price } of choices) {
      const next = spent(left, price);
      if (next !== null) await visit([...path, name], next);
    }
  };
  await visit([], bound);
  return { schedules, ends };
}

async function replayed(configuration: Configuration, path: readonly string[]): Promise<World> {
  const world = new World(configuration);
  await world.begin();
  for (const name of path) {
    const choice = world.choices(null).find((one) => one.name === name);
    if (choice === undefined)
      throw new Error(`The world is not deterministic: "${name}" cannot happen again`);
    await choice.happen();
    await world.begin();
  }
  return world;
}

interface Held {
  readonly actor: string;
  readonly call: number;
  readonly threw: boolean;
  readonly value: unknown;
  readonly sinceMs: number;
}

class World {
  readonly #configuration: Configuration;
  readonly #roles: ReturnType<typeof rolesOf>;
  /** Also of those that have not begun: they are made anew whenever time passes. */
  readonly #processes = new Map<string, Process>();
  readonly #begun = new Set<string>();
  readonly #dead = new Set<string>();
  #bornAt = -1;
  #running: string | null = null;
  #held: Held | null = null;
  #shared: Shared = nothing;

  constructor(configuration: Configuration) {
    this.#configuration = configuration;
    this.#roles = rolesOf(configuration);
  }

  /** Those who have not begun stand at their first call, at the time of now. */
  async begin(): Promise<void> {
    const { now } = this.#shared;
    if (this.#bornAt === now) return;
    this.#bornAt = now;
    for (const { name, role } of this.#roles) {
      if (this.#begun.has(name)) continue;
      const process = new Process(name, role);
      await process.feed({ kind: "start", now });
      this.#processes.set(name, process);
    }
  }

  end(): string {
    const outcomes = this.#roles.map(({ name }) =>
      this.#dead.has(name) ? null : this.#process(name).outcome,
    );
    return textOf([this.#shared, outcomes]);
  }

  /** @param left null: whatever is left */
  choices(left: Bound | null): readonly Choice[] {
    const own = this.#running === null ? [] : this.#ofProcess(this.#running);
    const others = this.#roles
      .filter(({ name }) => name !== this.#running)
      .flatMap(({ name }) => this.#ofProcess(name))
      .map((choice) => (own.length > 0 ? { ...choice, price: { ...choice.price, switches: 1 } } : choice));
    const crashes = this.#roles.flatMap(({ name }) => this.#crash(name));
    const all = [...own, ...others, ...crashes, ...this.#arrivals(), ...this.#time()];
    return left === null
      ? all
      : all.filter(({ price }) => spent(left, price) !== null && this.#isHeardInTime(price, left));
  }

  /** A reply that is late arrives after time has passed, so that some must be left. */
  #isHeardInTime(price: Partial<Bound>, left: Bound): boolean {
    return !("late" in price) || left.leaseEnds > 0;
  }

  #process(name: string): Process {
    const process = this.#processes.get(name);
    if (process === undefined) throw new RangeError(`There is no process ${name}`);
    return process;
  }

  #ofProcess(name: string): readonly Choice[] {
    if (this.#dead.has(name)) return [];
    const process = this.#process(name);
    const { now } = this.#shared;
    const held = this.#held?.actor === name ? this.#held : null;
    const choices = process.pending.flatMap((pending) =>
      pending.call !== held?.call && mayHappen(this.#shared, pending, pending.askedMs)
        ? this.#ofCall(process, pending)
        : [],
    );
    const choice = (what: string, happen: () => Promise<void>) => this.#choice(name, what, {}, happen);
    if (held !== null && now > held.sinceMs) {
      choices.push(
        choice(`late reply of ${held.call}`, () => {
          this.#held = null;
          return this.#reply(process, held);
        }),
      );
    }
    if (process.dueMs !== null && process.dueMs <= now) {
      choices.push(choice("wakes", () => process.feed({ kind: "wake", now })));
    }
    return choices;
  }

  #choice(name: string, what: string, price: Partial<Bound>, happen: () => Promise<void>): Choice {
    return {
      name: `${name}: ${what}`,
      price,
      runs: name,
      happen: async () => {
        this.#begun.add(name);
        this.#running = name;
        await happen();
      },
    };
  }

  #ofCall(process: Process, { call, port, args }: Pending): Choice[] {
    const { actor } = process;
    const ask = { actor, port, args };
    const choice = (what: string, price: Partial<Bound>, happen: () => Promise<void>) =>
      this.#choice(actor, `${call} ${port}${what}`, price, happen);
    const choices = [
      choice("", {}, async () => this.#reply(process, { call, ...(await this.#execute(ask)) })),
    ];
    if (process.outcome !== null) return choices;
    choices.push(
      choice(", crashes after", { crashes: 1 }, async () => {
        await this.#execute(ask);
        this.#die(actor);
      }),
    );
    if (isRollback(port)) return choices;
    const loss = { call, threw: true, value: lossOf(port) };
    const lost = { lost: 1 };
    choices.push(
      choice(", reply lost", lost, async () => {
        await this.#execute(ask);
        await this.#reply(process, loss);
      }),
    );
    if (changes(port) && this.#configuration.losses !== "replies") {
      choices.push(
        choice(", request lost", lost, async () => {
          if (isCommit(port)) this.#shared = withoutTransaction(this.#shared, args[0]);
          await this.#reply(process, loss);
        }),
      );
    }
    if (this.#configuration.losses === "late") choices.push(...this.#ofLateCall(process, ask, loss));
    return choices;
  }

  #ofLateCall(process: Process, ask: Ask, loss: ReplyInput): Choice[] {
    const { actor, port } = ask;
    const choices: Choice[] = [];
    if (changes(port)) {
      choices.push(
        this.#choice(actor, `${loss.call} ${port}, request late`, { lost: 1 }, async () => {
          this.#shared = { ...this.#shared, late: [...this.#shared.late, ask] };
          await this.#reply(process, loss);
        }),
      );
    }
    if (this.#held !== null) return choices;
    const price: Partial<Bound> & { readonly late: true } = { lost: 1, late: true };
    choices.push(
      this.#choice(actor, `${loss.call} ${port}, reply late`, price, async () => {
        const sinceMs = this.#shared.now;
        this.#held = { actor, call: loss.call, sinceMs, ...(await this.#execute(ask)) };
      }),
    );
    return choices;
  }

  #crash(name: string): readonly Choice[] {
    if (!this.#begun.has(name) || this.#dead.has(name)) return [];
    const process = this.#process(name);
    if (process.outcome !== null) return [];
    const happen = async () => this.#die(name);
    return [{ name: `${name} crashes`, price: { crashes: 1 }, runs: null, happen }];
  }

  #arrivals(): readonly Choice[] {
    return this.#shared.late.map((ask, index) => ({
      name: `${index} arrives`,
      price: {},
      runs: null,
      happen: async () => {
        this.#shared = { ...this.#shared, late: this.#shared.late.toSpliced(index, 1) };
        await this.#execute(ask);
      },
    }));
  }

  #time(): readonly Choice[] {
    const isIn = this.#roles.some(
      ({ name }) => this.#begun.has(name) && !this.#dead.has(name) && !this.#isOver(name),
    );
    const isLeft = this.#begun.size < this.#roles.length || this.#shared.late.length > 0;
    if (!isIn && !(isLeft && hasDeadline(this.#shared))) return [];
    const happen = async () => {
      this.#shared = later(this.#shared, this.#configuration.timeMs);
    };
    return [{ name: "time passes", price: { leaseEnds: 1 }, runs: null, happen }];
  }

  #isOver(name: string): boolean {
    const { outcome, pending, dueMs } = this.#process(name);
    return outcome !== null && pending.length === 0 && dueMs === null;
  }

  async #execute(ask: Ask): Promise<{ readonly threw: boolean; readonly value: unknown }> {
    const { shared, threw, value, violation } = await execute(this.#shared, ask, null);
    if (violation !== null) throw new Error(violation);
    this.#shared = shared;
    return { threw, value };
  }

  #reply(process: Process, { call, threw, value }: ReplyInput): Promise<void> {
    return process.feed({ kind: "reply", call, threw, value, now: this.#shared.now });
  }

  #die(name: string): void {
    this.#dead.add(name);
    if (this.#running === name) this.#running = null;
    if (this.#held?.actor === name) this.#held = null;
    this.#shared = withoutProcess(this.#shared, name);
  }
}

type ReplyInput = Pick<Extract<Input, { readonly kind: "reply" }>, "call" | "threw" | "value">;
