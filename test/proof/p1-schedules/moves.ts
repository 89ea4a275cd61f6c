/** What can happen next, at one position of the world. */
import { changes, isRollback } from "./ask.ts";
import { type Bound, type Losses, spent } from "./bound.ts";
import { mayHappen } from "./execute.ts";
import type { EndedRequest } from "./judge-replies.ts";
import type { Waiting } from "./life.ts";
import type { Input } from "./process.ts";
import { hasDeadline } from "./shared.ts";
import { lossOf, type Place, type Result, type Space } from "./space.ts";
import type { Node, Tree } from "./tree.ts";

/** A reply that was sent and has not arrived. It arrives after time has passed. */
export interface Held {
  readonly who: number;
  /** What was asked for. */
  readonly id: number;
  readonly result: Result;
  readonly sinceMs: number;
}

export interface Position {
  readonly place: Place;
  /** Null: it has not begun. */
  readonly nodes: readonly (Node | null)[];
  readonly held: Held | null;
  /** Who went on last; -1: nobody, or it is dead. */
  readonly running: number;
  readonly left: Bound;
}

export interface Move {
  readonly name: string;
  readonly to: Position;
  /** Something that must not be was seen. */
  readonly violation: string | null;
  /** A reply that a client has just got. */
  readonly ended: (EndedRequest & { readonly who: number }) | null;
}

/** Something is not known yet. After it has been found out the same is to be asked again. */
export type Unknown = () => Promise<unknown>;

/** It gets and sends nothing any more. */
const dead: Node = {
  id: -1,
  parent: null,
  input: { kind: "start", now: 0 },
  pending: [],
  dueMs: null,
  outcome: null,
  isOver: true,
  facts: [],
  key: "dead",
  children: new Map(),
  inputs: new Map(),
};

export interface Setting {
  readonly space: Space;
  readonly trees: readonly Tree[];
  /** Of each process the one that is like it and has to begin before it does; null: none. */
  readonly twins: readonly (number | null)[];
  /** How far time goes when it passes. */
  readonly timeMs: number;
  readonly losses: Losses;
  /** Others run that are left out of this world: while time passes, who waits is left for one of them. */
  readonly isPart: boolean;
}

export class Moves {
  readonly #setting: Setting;
  readonly #moves: Move[] = [];
  readonly #at: Position;
  /** What has to be found out first; null: nothing. */
  #unknown: Unknown | null = null;

  private constructor(setting: Setting, at: Position) {
    this.#setting = setting;
    this.#at = at;
  }

  static of(setting: Setting, at: Position): readonly Move[] | Unknown {
    const moves = new Moves(setting, at);
    moves.#all();
    return moves.#unknown ?? moves.#moves;
  }

  #all(): void {
    const { nodes, running } = this.#at;
    const { isPart } = this.#setting;
    const order = orderOf(nodes.length, running);
    let mustLeave = false;
    for (const who of order) {
      if (this.#comesLater(who)) continue;
      const node = this.#nodeOf(who);
      if (this.#unknown !== null || node === null) return;
      const before = this.#moves.length;
      if (!node.isOver) this.#ofProcess(who, node, mustLeave);
      if (who === running) mustLeave = this.#moves.length > before;
    }
    for (const who of order) this.#crash(who);
    this.#arrivals();
    this.#time(isPart && !mustLeave ? -1 : running);
  }

  /** Whichever of two alike begins first is called the first of them. */
  #comesLater(who: number): boolean {
    const twin = this.#setting.twins[who] ?? null;
    return twin !== null && this.#at.nodes[who] === null && this.#at.nodes[twin] === null;
  }

  /** Where it stands, or would if it began now. */
  #nodeOf(who: number): Node | null {
    const { place, nodes } = this.#at;
    const node = nodes[who] ?? null;
    if (node !== null) return node;
    const tree = this.#tree(who);
    const { now } = place.shared;
    const root = tree.root(now);
    if (root === undefined) this.#unknown = () => tree.grownRoot(now);
    return root ?? null;
  }

  #tree(who: number): Tree {
    const tree = this.#setting.trees[who];
    if (tree === undefined) throw new RangeError(`There is no process ${who}`);
    return tree;
  }

  #ofProcess(who: number, node: Node, leaves: boolean): void {
    const { place, held, left: before } = this.#at;
    const left = spent(before, leaves ? { switches: 1 } : {});
    if (left === null) return;
    const { now } = place.shared;
    const own = held?.who === who ? held : null;
    for (const pending of node.pending) {
      if (pending.id !== own?.id && mayHappen(place.shared, pending, pending.askedMs)) {
        this.#call(who, node, pending, left);
      }
    }
    if (own !== null && now > own.sinceMs) {
      const asked = waitingFor(node, own.id);
      const { place: _, ...reply } = own.result;
      this.#reply(`late reply of ${asked.port}`, who, node, left, { place, asked, ...reply, held: null });
    }
    if (node.dueMs !== null && node.dueMs <= now) this.#wake(who, node, left);
  }

  #wake(who: number, node: Node, left: Bound): void {
    const { place } = this.#at;
    const { now } = place.shared;
    const next = this.#child(who, node, `w${now}`, { kind: "wake", now });
    if (next !== null) this.#add("wakes", { who, node: next, before: node, place, left, violation: null });
  }

  #call(who: number, node: Node, asked: Waiting, left: Bound): void {
    const { space, losses } = this.#setting;
    const { place, held } = this.#at;
    const { port } = asked;
    const ask = { actor: this.#tree(who).actor, port, args: asked.args };
    const name = space.nameOf(ask.actor, asked);
    const result = place.results.get(name);
    if (result === undefined) {
      this.#unknown ??= () => space.execute(place, name, ask);
      return;
    }
    const { violation } = result;
    this.#reply(port, who, node, left, { ...result, asked });
    if (node.outcome !== null || isRollback(port)) return;
    const lostLeft = spent(left, { lost: 1 });
    if (lostLeft === null) return;
    const loss = { asked, reply: 0, threw: true, value: lossOf(port), violation: null };
    if (changes(port) && losses !== "replies") {
      const without = space.withoutRequest(place, ask);
      this.#reply(`${port}, request lost`, who, node, lostLeft, { ...loss, place: without });
    }
    this.#reply(`${port}, reply lost`, who, node, lostLeft, { ...loss, place: result.place, violation });
    if (losses !== "late") return;
    if (changes(port)) {
      const onItsWay = space.withLate(place, name, ask);
      this.#reply(`${port}, request late`, who, node, lostLeft, { ...loss, place: onItsWay });
    }
    // One that arrives at once is no different.
    if (held === null && lostLeft.leaseEnds > 0) {
      const waiting = { who, id: asked.id, result, sinceMs: place.shared.now };
      const to = this.#to({ who, node, place: result.place, left: lostLeft, held: waiting });
      this.#moves.push({ name: `${ask.actor}: ${port}, reply late`, to, violation, ended: null });
    }
  }

  #reply(
    what: string,
    who: number,
    node: Node,
    left: Bound,
    given: Result & { readonly asked: Waiting; readonly held?: null },
  ): void {
    const { place, asked, reply, threw, value, violation, held } = given;
    const { now } = this.#at.place.shared;
    const input = { kind: "reply", call: asked.call, threw, value, now } as const;
    const next = this.#child(who, node, `${asked.id}.${reply}.${now}`, input);
    if (next === null) return;
    const step = { who, node: next, before: node, place, left, violation, last: value };
    this.#add(what, held === null ? { ...step, held } : step);
    if (next.outcome === null || node.outcome !== null) return;
    // Otherwise it is the same to crash before the next call.
    const crashed = spent(left, { crashes: 1 });
    if (crashed !== null) this.#die(`${what}, crashes after`, who, place, crashed, violation);
  }

  #child(who: number, node: Node, name: string, input: Input): Node | null {
    const known = node.children.get(name);
    if (known === undefined) this.#unknown ??= () => this.#tree(who).grown(node, name, input);
    return known ?? null;
  }

  #add(
    what: string,
    given: {
      readonly who: number;
      readonly node: Node;
      readonly before: Node;
      readonly place: Place;
      readonly left: Bound;
      readonly violation: string | null;
      /** The reply that it has just got. */
      readonly last?: unknown;
      readonly held?: Held | null;
    },
  ): void {
    const { who, node, before, violation, last = null } = given;
    const { outcome } = node;
    const ended = before.outcome === null && outcome !== null ? { who, outcome, from: before, last } : null;
    this.#moves.push({ name: `${this.#tree(who).actor}: ${what}`, to: this.#to(given), violation, ended });
  }

  #to(given: {
    readonly who: number;
    readonly node: Node;
    readonly place: Place;
    readonly left: Bound;
    readonly held?: Held | null;
  }): Position {
    const { who, node, place, left, held = this.#at.held } = given;
    const running = node.isOver ? -1 : who;
    return { place, nodes: this.#at.nodes.with(who, node), held, running, left };
  }

  /** Who is not running and holds nothing has crashed when it was left, as far as anybody can tell. */
  #crash(who: number): void {
    const { nodes, place, running } = this.#at;
    const node = nodes[who] ?? null;
    const left = spent(this.#at.left, { crashes: 1 });
    if (node === null || left === null || node.isOver || node.outcome !== null) return;
    const { actor } = this.#tree(who);
    if (who !== running && !place.shared.open.some((one) => one.actor === actor)) return;
    this.#die("crashes", who, place, left, null);
  }

  #die(what: string, who: number, place: Place, left: Bound, violation: string | null): void {
    const { space } = this.#setting;
    const { nodes, held, running } = this.#at;
    const { actor } = this.#tree(who);
    const to = {
      place: space.withoutProcess(place, actor),
      nodes: nodes.with(who, dead),
      held: held?.who === who ? null : held,
      running: running === who ? -1 : running,
      left,
    };
    this.#moves.push({ name: `${actor}: ${what}`, to, violation, ended: null });
  }

  #arrivals(): void {
    const { space } = this.#setting;
    const { place } = this.#at;
    for (const [index, ask] of place.shared.late.entries()) {
      const without = space.withoutLate(place, index);
      const name = space.nameOf(ask.actor, ask);
      const result = without.results.get(name);
      if (result === undefined) this.#unknown ??= () => space.execute(without, name, ask);
      else {
        const to = { ...this.#at, place: result.place };
        const what = `network: ${ask.port} of ${ask.actor} arrives`;
        this.#moves.push({ name: what, to, violation: result.violation, ended: null });
      }
    }
  }

  #time(running: number): void {
    const { place, nodes, held } = this.#at;
    const left = spent(this.#at.left, { leaseEnds: 1 });
    if (left === null) return;
    const somebodyIsIn = nodes.some((node) => node !== null && !node.isOver);
    const somebodyIsLeft = nodes.some((node) => node === null) || place.shared.late.length > 0;
    if (!somebodyIsIn && held === null && !(somebodyIsLeft && hasDeadline(place.shared))) return;
    const { space, timeMs } = this.#setting;
    const to = { ...this.#at, place: space.afterTime(place, timeMs), running, left };
    this.#moves.push({ name: "time passes", to, violation: null, ended: null });
  }
}

const orders = new Map<number, readonly number[]>();

/** Who is running comes first, so that it is known whether leaving it costs anything. */
function orderOf(count: number, running: number): readonly number[] {
  const name = count * 16 + running;
  const known = orders.get(name);
  if (known !== undefined) return known;
  const all = Array.from({ length: count }, (_, who) => who);
  const order = running < 0 ? all : [running, ...all.filter((who) => who !== running)];
  orders.set(name, order);
  return order;
}

function waitingFor({ pending }: Node, id: number): Waiting {
  const asked = pending.find((one) => one.id === id);
  if (asked === undefined) throw new RangeError(`harness: ${id} is not asked for any more`);
  return asked;
}
