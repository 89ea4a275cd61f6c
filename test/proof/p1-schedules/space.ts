/** Everything that can be, each thing once: what is shared by its text, and what a call does to it. */

import { StoreError } from "../../../packages/latchkey/src/errors.ts";
import type { Plant } from "../harness/store-plants.ts";
import { judgeApart, reachedApart, visibleTo } from "./apart.ts";
import { type Ask, isCommit, sideOf } from "./ask.ts";
import type { Judge } from "./change.ts";
import { type Done, execute } from "./execute.ts";
import { judgeOf } from "./judge.ts";
import type { Plan } from "./operations.ts";
import type { Pending } from "./process.ts";
import { WorldError } from "./roles.ts";
import { later, type Shared, withoutProcess, withoutTransaction } from "./shared.ts";
import { textOf } from "./text.ts";

/** One state of what is shared. */
export interface Place {
  readonly id: number;
  readonly shared: Shared;
  /** What is known of the calls made here, by their names. */
  readonly results: Map<string, Result>;
  /** Where it leads when something happens that is no call. */
  readonly ways: Map<string, Place>;
}

/** What a call does, and what its caller gets. */
export interface Result {
  readonly place: Place;
  /** The same for the same reply. */
  readonly reply: number;
  readonly threw: boolean;
  readonly value: unknown;
  readonly violation: string | null;
}

export class Space {
  readonly reached = new Map<string, number>();
  readonly #judge: Judge;
  readonly #plant: Plant | null;
  readonly #enqueues: boolean;
  readonly #places = new Map<string, Place>();
  readonly #texts = new Map<string, number>();
  readonly #names = new WeakMap<object, string>();

  constructor(plan: Plan, plant: Plant | null) {
    this.#judge = judgeOf(plan);
    this.#plant = plant;
    this.#enqueues = plan.enqueues || plan.shape === "enqueue";
  }

  get size(): number {
    return this.#places.size;
  }

  place(shared: Shared): Place {
    const text = textOf(shared);
    const known = this.#places.get(text);
    if (known !== undefined) return known;
    const place = { id: this.#places.size + 1, shared, results: new Map(), ways: new Map() };
    this.#places.set(text, place);
    return place;
  }

  /** The same for what asks for the same. */
  nameOf(actor: string, asked: Pending | Ask): string {
    const known = this.#names.get(asked);
    if (known !== undefined) return known;
    const { port, args } = asked;
    const name = `${this.#numberOf(textOf([actor, port, args]))}`;
    this.#names.set(asked, name);
    return name;
  }

  async execute(place: Place, name: string, ask: Ask): Promise<Result> {
    const done = await execute(place.shared, ask, this.#plant);
    const judged = this.#judge(place.shared, ask, done);
    for (const what of judged.reached) this.reach(what);
    const { threw } = done;
    const value = visibleTo(ask, done.value);
    const reply = this.#numberOf(`${threw} ${textOf(value)}`);
    const violation = judged.violation ?? this.#judgeApart(ask, done);
    const result = { place: this.place(done.shared), reply, threw, value, violation };
    place.results.set(name, result);
    return result;
  }

  #judgeApart(ask: Ask, { touched }: Done): string | null {
    if (!this.#enqueues) return null;
    if (touched.length > 0) this.reach(reachedApart);
    return judgeApart(ask, touched);
  }

  reach(what: string): void {
    this.reached.set(what, (this.reached.get(what) ?? 0) + 1);
  }

  afterTime(place: Place, ms: number): Place {
    return this.#way(place, `time ${ms}`, (shared) => later(shared, ms));
  }

  withoutProcess(place: Place, actor: string): Place {
    const { open } = place.shared;
    if (!open.some((one) => one.actor === actor)) return place;
    return this.#way(place, `without ${actor}`, (shared) => withoutProcess(shared, actor));
  }

  /** The request of a commit is lost: its connection is, and the transaction with it. */
  withoutRequest(place: Place, { port, args }: Ask): Place {
    if (!isCommit(port)) return place;
    return this.#way(place, `lost ${String(args[0])}`, (shared) => withoutTransaction(shared, args[0]));
  }

  withLate(place: Place, name: string, ask: Ask): Place {
    return this.#way(place, `late ${name}`, (shared) => ({ ...shared, late: [...shared.late, ask] }));
  }

  withoutLate(place: Place, index: number): Place {
    return this.#way(place, `arrived ${index}`, (shared) => ({
      ...shared,
      late: shared.late.toSpliced(index, 1),
    }));
  }

  #way(place: Place, name: string, change: (shared: Shared) => Shared): Place {
    const known = place.ways.get(name);
    if (known !== undefined) return known;
    const next = this.place(change(place.shared));
    place.ways.set(name, next);
    return next;
  }

  #numberOf(text: string): number {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const number = this.#texts.size + 1;
    this.#texts.set(text, number);
    return number;
  }
}

const losses = new Map<string, Error>();

/** What a caller gets that does not get the reply. */
export function lossOf(port: string): Error {
  const known = losses.get(port);
  if (known !== undefined) return known;
  const loss =
    sideOf(port) === "other side"
      ? new WorldError("socket hang up")
      : new StoreError("in_doubt", { message: `Planned: the reply of ${port} is lost` });
  losses.set(port, loss);
  return loss;
}
