/** The end of a schedule: faults have stopped, time passes, services come round, clients ask again. Then all is at rest. */

import type { LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import { isFinal } from "./change.ts";
import type { Actor, Configuration } from "./configurations.ts";
import { mayHappen } from "./execute.ts";
import { judgeReplies, replyOf } from "./judge-replies.ts";
import type { Position } from "./moves.ts";
import type { Plan } from "./operations.ts";
import { client, type RequestEnd, service } from "./roles.ts";
import { hasDeadline, type Shared } from "./shared.ts";
import type { Place, Space } from "./space.ts";
import { type Node, Tree } from "./tree.ts";

/** Of one process: with more it does not come to an end. */
const stepsMax = 300;
const roundsMax = 40;
const retriesMax = 4;

/** Whatever is not over by itself gets all that it asks for. */
interface Left {
  readonly who: number;
  readonly tree: Tree;
  node: Node;
}

class Stuck extends Error {
  override readonly name = "Stuck";
}

export class Quiet {
  readonly reached = new Map<string, number>();
  readonly #configuration: Configuration;
  readonly #actors: readonly Actor[];
  readonly #space: Space;
  readonly #checked = new Map<string, string | null>();
  readonly #trees = new Map<string, Tree>();

  constructor(configuration: Configuration, actors: readonly Actor[], space: Space) {
    this.#configuration = configuration;
    this.#actors = actors;
    this.#space = space;
  }

  /** What is there, and the replies to clients. */
  nameOf({ place, nodes }: Position): string {
    const outcomes = nodes.map((node) => node?.outcome ?? "");
    const left = nodes.map((node) => (node === null || node.isOver ? 0 : node.id));
    return `${place.id};${left.join()};${outcomes.join("|")}`;
  }

  /** What must not be; null: all is well. */
  async check(position: Position): Promise<string | null> {
    const name = this.nameOf(position);
    const known = this.#checked.get(name);
    if (known !== undefined) return known;
    const violation = await this.#run(position).catch((error: unknown) => {
      if (error instanceof Stuck) return error.message;
      throw error;
    });
    const found = violation === null ? null : `${violation} (after faults had stopped)`;
    this.#checked.set(name, found);
    return found;
  }

  async #run({ place, nodes }: Position): Promise<string | null> {
    const left = nodes.flatMap((node, who): readonly Left[] => {
      const tree = this.#actors[who]?.tree;
      return node === null || node.isOver || tree === undefined ? [] : [{ who, tree, node }];
    });
    for (const node of nodes) if (node?.outcome != null) this.#reach(`reply: ${replyOf(node).kind}`);
    const replies = nodes.flatMap((node) => (node === null ? [] : [replyOf(node)]));
    let at = await this.#settled(place, left);
    const first = await this.#asked(at, 1);
    at = first.place;
    const violation = this.#checkRest(at, first.reply) ?? checkReplies(replies, first.reply);
    if (violation !== null) return violation;
    const bodies = this.#configuration.other ? [1, 2] : [1];
    for (const body of bodies) {
      const again = await this.#client(at, body, `client of ${body} again`);
      at = again.place;
      const before = body === 1 ? first.reply : null;
      const found = before === null ? null : checkSame(before, again.reply);
      if (found !== null) return found;
    }
    return null;
  }

  /** The client comes again until its reply is one that stays. */
  async #asked(begin: Place, body: number): Promise<{ readonly place: Place; readonly reply: RequestEnd }> {
    let place = begin;
    for (let tries = 1; ; tries++) {
      const asked = await this.#client(place, body, `client ${tries}`);
      place = await this.#settled(asked.place, []);
      const record = place.shared.rows[0]?.record ?? null;
      const isOver = isFinal(record) && asked.reply.answer !== null;
      const isForPerson = record?.state === "unknown" && asked.reply.kind === "unknown";
      const isOthers = asked.reply.kind.startsWith("key misuse");
      if (isOver || isForPerson || isOthers) return { place, reply: asked.reply };
      if (tries >= retriesMax) {
        throw new Stuck(
          `L1: a client that comes again gets ${asked.reply.kind}, of ${record?.state ?? "nothing"}`,
        );
      }
    }
  }

  #checkRest({ shared }: Place, reply: RequestEnd): string | null {
    const { plan } = this.#configuration;
    const record = shared.rows[0]?.record ?? null;
    if (record === null || record.state === "in_progress" || record.state === "retryable") {
      return `L1: the key is ${record?.state ?? "free"} when all is over, and its client got ${reply.kind}`;
    }
    const violation = judgeEnding(plan, shared, record);
    if (violation !== null) return violation;
    this.#reach(`in the end ${record.state}`);
    const open = shared.effects.find(({ effect }) => effect.state !== "delivered" && effect.state !== "dead");
    if (open !== undefined) return `L2: effect ${open.effect.id} is ${open.effect.state} when all is over`;
    const isDead = shared.effects.some(({ effect }) => effect.state === "dead");
    const mayDie = plan.kind !== "provider" && plan.kind !== "reopen";
    return isDead && !mayDie ? "L2: an effect is dead that could be sent again" : null;
  }

  #reach(what: string): void {
    this.reached.set(what, (this.reached.get(what) ?? 0) + 1);
  }

  /** Time passes, and the services come round, until nothing is left to do. */
  async #settled(begin: Place, left: readonly Left[]): Promise<Place> {
    const waiting = [...left];
    let place = begin;
    for (let round = 1; round <= roundsMax; round++) {
      place = await this.#drained(place, waiting);
      const late = place.shared.late[0];
      if (late !== undefined) throw new Stuck("harness: an end with something on its way");
      for (const name of ["rescuer", "reconciler", "dispatcher"] as const) {
        if (name === "dispatcher" && place.shared.effects.length === 0) continue;
        const tree = this.#tree(`${name} of round ${round}`, () => service(this.#configuration.plan, name));
        place = (await this.#played(place, tree)).place;
      }
      place = await this.#drained(place, waiting);
      const isStill = waiting.every(({ node }) => node.isOver || node.dueMs === null);
      if (isStill && !hasDeadline(place.shared) && !isDue(place)) return place;
      place = this.#space.afterTime(place, Math.max(this.#configuration.timeMs, 60_000));
    }
    throw new Stuck(`L1: not at rest after ${roundsMax} rounds: ${place.shared.rows[0]?.record.state}`);
  }

  #tree(actor: string, role: () => ConstructorParameters<typeof Tree>[1]): Tree {
    const known = this.#trees.get(actor);
    if (known !== undefined) return known;
    const tree = new Tree(actor, role());
    this.#trees.set(actor, tree);
    return tree;
  }

  async #client(
    place: Place,
    body: number,
    name: string,
  ): Promise<{ readonly place: Place; readonly reply: RequestEnd }> {
    const tree = this.#tree(name, () => client(this.#configuration.plan, body));
    const { place: after, node, from, last } = await this.#played(place, tree);
    const outcome = node.outcome ?? "";
    const listener = { body, several: this.#configuration.other };
    const violation = judgeReplies(after.shared, { outcome, from, last }, listener);
    if (violation !== null) throw new Stuck(violation);
    return { place: after, reply: replyOf(node) };
  }

  async #played(begin: Place, tree: Tree): Promise<Played> {
    const { now } = begin.shared;
    const root = tree.root(now) ?? (await tree.grownRoot(now));
    let at: Played = { place: begin, node: root, from: root, last: null };
    for (let steps = 0; !at.node.isOver; steps++) {
      const next = await this.#step(at, tree);
      if (next === null && at.node.outcome !== null) return at;
      if (next === null || steps > stepsMax) throw new Stuck(`L1: ${tree.actor} does not come to an end`);
      at = at.node.outcome === null ? next : { ...at, place: next.place, node: next.node };
    }
    return at;
  }

  async #drained(begin: Place, left: readonly Left[]): Promise<Place> {
    let place = begin;
    for (const one of left) {
      for (let steps = 0; !one.node.isOver; steps++) {
        const at = { place, node: one.node, from: one.node, last: null };
        const next = await this.#step(at, one.tree);
        if (next === null) break;
        if (steps > stepsMax) throw new Stuck(`L1: ${one.tree.actor} does not come to an end`);
        this.#checkLeft(one, next);
        place = next.place;
        one.node = next.node;
      }
    }
    return place;
  }

  #checkLeft({ who, node }: Left, { place, node: next, from, last }: Played): void {
    const body = this.#actors[who]?.body ?? null;
    if (body === null || node.outcome !== null || next.outcome === null) return;
    const listener = { body, several: this.#configuration.other };
    const violation = judgeReplies(place.shared, { outcome: next.outcome, from, last }, listener);
    if (violation !== null) throw new Stuck(violation);
  }

  /** It gets the reply to what it asked first, or wakes; null: it waits for time. */
  async #step({ place, node }: Played, tree: Tree): Promise<Played | null> {
    const { now } = place.shared;
    const pending = node.pending.find((one) => mayHappen(place.shared, one, one.askedMs));
    if (pending === undefined) {
      if (node.dueMs === null || node.dueMs > now) return null;
      const name = `w${now}`;
      const woken = node.children.get(name) ?? (await tree.grown(node, name, { kind: "wake", now }));
      return { place, node: woken, from: node, last: null };
    }
    const { port, args, call, id } = pending;
    const ask = { actor: tree.actor, port, args };
    const askName = this.#space.nameOf(tree.actor, pending);
    const result = place.results.get(askName) ?? (await this.#space.execute(place, askName, ask));
    if (result.violation !== null) throw new Stuck(result.violation);
    const { reply, threw, value } = result;
    const name = `${id}.${reply}.${now}`;
    const input = { kind: "reply", call, threw, value, now } as const;
    const replied = node.children.get(name) ?? (await tree.grown(node, name, input));
    return { place: result.place, node: replied, from: node, last: value };
  }
}

/** What is left to a person is what nothing automatic can find out; what fails has not happened. */
function judgeEnding({ shape, kind }: Plan, { other }: Shared, record: LatchkeyRecord): string | null {
  const { id, state } = record;
  const charges = other.charges.filter(({ place }) => place === `${id} charged`).length;
  if (state === "failed") {
    const isClosed = shape === "steps" && kind === "close" && charges === 0;
    return isClosed ? null : `L3: ${id} has failed, with ${charges} charges`;
  }
  if (state !== "unknown") return null;
  if (record.reconcileAfter !== null) return `L3: ${id} is unknown, and nobody decides`;
  const isForPerson =
    shape === "lease" || (shape === "steps" && (kind === "none" || (kind === "lookup" && charges === 0)));
  return isForPerson
    ? null
    : `L3: ${id} waits for a person (${record.lastErrorCode}), with ${charges} charges`;
}

interface Played {
  readonly place: Place;
  readonly node: Node;
  /** Before it got the last reply. */
  readonly from: Node;
  readonly last: unknown;
}

/** Something could be done now. */
function isDue({ shared }: Place): boolean {
  const record = shared.rows[0]?.record ?? null;
  const isOpen = shared.effects.some(({ effect }) => effect.state !== "delivered" && effect.state !== "dead");
  const isAsked = record?.state === "unknown" && record.reconcileAfter !== null;
  return isOpen || isAsked;
}

/** An answer that was given is not lost, and stays the same. */
function checkReplies(before: readonly RequestEnd[], now: RequestEnd): string | null {
  for (const { answer, kind } of before) {
    if (answer === null || now.kind.startsWith("key misuse")) continue;
    if (now.answer !== answer)
      return `I15: the reply was ${kind} ${answer}, and now it is ${now.kind} ${now.answer}`;
  }
  return null;
}

function checkSame(before: RequestEnd, again: RequestEnd): string | null {
  const same = before.answer === null ? before.kind === again.kind : again.kind === "replay";
  const isSame = same && before.answer === again.answer;
  return isSame ? null : `I3: got ${before.kind} ${before.answer} and then ${again.kind} ${again.answer}`;
}
