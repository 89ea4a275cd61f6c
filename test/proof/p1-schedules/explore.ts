/**
 * Every schedule of a configuration inside its bound, depth first. A position that was seen before has been explored with
 * all that follows: processes do the same whenever they get the same replies.
 */
import type { Bound } from "./bound.ts";
import { type Actor, actorsOf, type Configuration } from "./configurations.ts";
import { judgeReason, judgeReplies } from "./judge-replies.ts";
import { Counted, hashOf, type Known, Seen } from "./known.ts";
import { type Move, Moves, type Position, type Setting } from "./moves.ts";
import { Quiet } from "./quiet.ts";
import { nothing } from "./shared.ts";
import { Space } from "./space.ts";
import { textOf } from "./text.ts";

export interface Exploration {
  /** From the beginning to an end; null: they were not counted. */
  readonly schedules: number | null;
  /** How many of them were run until they ended, or met one that was run before. */
  readonly walked: number;
  readonly positions: number;
  readonly moves: number;
  /** Different ends, and what they are: what is shared, and the replies to clients. */
  readonly ends: number;
  readonly endTexts: readonly string[];
  readonly reached: Readonly<Record<string, number>>;
  /** Of the whole exploration: the same for the same code. */
  readonly digest: number;
  readonly isWhole: boolean;
}

/** Something that must not be, with the numbers of the moves that lead to it. */
export class Violation extends Error {
  override readonly name = "Violation";
  readonly choices: readonly number[];
  readonly names: readonly string[];
  /** How many schedules had been walked by then. */
  readonly after: number;

  constructor(what: string, path: readonly Step[], after: number) {
    super(what);
    this.choices = path.map(({ choice }) => choice);
    this.names = path.map(({ name }) => name);
    this.after = after;
  }
}

export interface HowToExplore {
  /** Null: schedules are counted, and there is room for whatever comes. A number: room for so many positions, in less. */
  readonly uncounted: number | null;
  /** Whichever of two processes that do the same begins first is the first of them: of two schedules one. */
  readonly alike: boolean;
  /** Lives of a process that got the same replies are taken for one. */
  readonly asOne: boolean;
}

const usual: HowToExplore = { uncounted: null, alike: true, asOne: true };

interface Step {
  readonly choice: number;
  readonly name: string;
}

interface Frame {
  /** The two halves of its position's hash. */
  readonly high: number;
  readonly low: number;
  readonly moves: readonly Move[];
  at: number;
  /** Schedules that lead on from here. */
  count: number;
}

export class Explorer {
  readonly #configuration: Configuration;
  readonly #bound: Bound;
  readonly #actors: readonly Actor[];
  readonly #setting: Setting;
  readonly #quiet: Quiet;
  readonly #known: Known;
  readonly #counts: boolean;
  readonly #ends = new Map<string, Position>();
  readonly #stack: Frame[] = [];
  #moves = 0;
  #met = 0;
  #digest = 0x811c9dc5 | 0;

  constructor(configuration: Configuration, bound: Bound, how: Partial<HowToExplore> = {}) {
    const { uncounted, alike, asOne } = { ...usual, ...how };
    this.#counts = uncounted === null;
    this.#known = uncounted === null ? new Counted() : new Seen(uncounted);
    this.#configuration = configuration;
    this.#bound = bound;
    this.#actors = actorsOf(configuration, asOne);
    const space = new Space(configuration.plan, configuration.plant);
    const { timeMs, losses, isPart } = configuration;
    const twins = this.#actors.map(({ twin }) => (alike ? twin : null));
    this.#setting = { space, trees: this.#actors.map(({ tree }) => tree), twins, timeMs, losses, isPart };
    this.#quiet = new Quiet(configuration, this.#actors, space);
  }

  /** @throws {Violation} */
  async run(mayGoOn: (positions: number) => boolean = () => true): Promise<Exploration> {
    const beginning = this.#beginning();
    const { high, low } = hashOf(beginning);
    let schedules = await this.#enter(beginning, high, low);
    while (this.#stack.length > 0) {
      const top = this.#stack.at(-1);
      if (top === undefined) break;
      const move = top.moves[top.at];
      if (move === undefined) {
        this.#leave(top);
        schedules = top.count;
        continue;
      }
      top.at += 1;
      this.#check(move);
      const count = this.#countAfter(move.to);
      // Waiting costs more than all the rest.
      top.count += typeof count === "number" ? count : await count;
      if ((this.#known.size & 0x3ff) === 0 && !mayGoOn(this.#known.size)) return this.#result(0, false);
    }
    return this.#result(schedules, true);
  }

  /** Runs one schedule alone. Answers the names of what happened. */
  async again(choices: readonly number[]): Promise<readonly string[]> {
    let position = this.#beginning();
    for (const choice of choices) {
      const moves = await this.#movesAt(position);
      const move = moves[choice];
      if (move === undefined)
        throw new RangeError(`There is no choice ${choice} after ${this.#path().length} moves`);
      this.#stack.push({ high: 0, low: 0, moves, at: choice + 1, count: 0 });
      this.#check(move);
      position = move.to;
    }
    const moves = await this.#movesAt(position);
    if (moves.length === 0) await this.#end(position);
    return this.#path().map(({ name }) => name);
  }

  #beginning(): Position {
    const place = this.#setting.space.place(nothing);
    return { place, nodes: this.#actors.map(() => null), held: null, running: -1, left: this.#bound };
  }

  /** How many schedules lead on; 0: it is on the stack now, and they are counted later. */
  #countAfter(position: Position): number | Promise<number> {
    const { high, low } = hashOf(position);
    const known = this.#known.get(high, low);
    if (known > 0) {
      this.#met += 1;
      return known;
    }
    const moves = Moves.of(this.#setting, position);
    if (typeof moves === "function" || moves.length === 0) return this.#enter(position, high, low);
    this.#push(moves, high, low);
    return 0;
  }

  async #enter(position: Position, high: number, low: number): Promise<number> {
    const moves = await this.#movesAt(position);
    if (moves.length > 0) {
      this.#push(moves, high, low);
      return 0;
    }
    await this.#end(position);
    this.#met += 1;
    this.#known.set(high, low, 1);
    return 1;
  }

  #push(moves: readonly Move[], high: number, low: number): void {
    this.#stack.push({ high, low, moves, at: 0, count: 0 });
    this.#mix(moves.length);
  }

  async #end(position: Position): Promise<void> {
    const violation = await this.#quiet.check(position);
    this.#ends.set(this.#quiet.nameOf(position), position);
    if (violation !== null) throw new Violation(violation, this.#path(), this.#met + 1);
  }

  #leave({ high, low, count }: Frame): void {
    this.#stack.pop();
    this.#known.set(high, low, count);
    const below = this.#stack.at(-1);
    if (below !== undefined) below.count += count;
  }

  async #movesAt(position: Position): Promise<readonly Move[]> {
    for (;;) {
      const moves = Moves.of(this.#setting, position);
      if (typeof moves !== "function") return moves;
      await moves();
    }
  }

  #check({ violation, ended, to }: Move): void {
    this.#moves += 1;
    const found = violation ?? (ended === null ? null : this.#checkEnded(ended, to));
    if (found !== null) throw new Violation(found, this.#path(), this.#met + 1);
  }

  #checkEnded(ended: NonNullable<Move["ended"]>, to: Position): string | null {
    const body = this.#actors[ended.who]?.body ?? null;
    if (body === null) return ended.outcome === "over" ? null : `L1: a service ended ${ended.outcome}`;
    const listener = { body, several: this.#configuration.other };
    return judgeReplies(to.place.shared, ended, listener) ?? judgeReason(ended, this.#bound, to.left);
  }

  #path(): readonly Step[] {
    return this.#stack.map(({ moves, at }) => ({ choice: at - 1, name: moves[at - 1]?.name ?? "" }));
  }

  #compared(): readonly [string, number] {
    const count = this.#actors.reduce((sum, { tree }) => sum + tree.compared, 0);
    return ["a second life did the same as the one it was taken for", count];
  }

  #mix(value: number): void {
    this.#digest = Math.imul(this.#digest ^ value, 0x01000193);
  }

  #result(schedules: number, isWhole: boolean): Exploration {
    const endTexts = [...this.#ends.values()].map(endText);
    for (const text of endTexts) for (let at = 0; at < text.length; at++) this.#mix(text.charCodeAt(at));
    return {
      schedules: this.#counts ? schedules : null,
      walked: this.#met,
      positions: this.#known.size,
      moves: this.#moves,
      ends: this.#ends.size,
      endTexts,
      reached: Object.fromEntries([...this.#setting.space.reached, ...this.#quiet.reached, this.#compared()]),
      digest: this.#digest >>> 0,
      isWhole,
    };
  }
}

/** Two ends with the same text are the same. */
function endText({ place, nodes }: Position): string {
  return textOf([place.shared, nodes.map((node) => node?.outcome ?? null)]);
}
