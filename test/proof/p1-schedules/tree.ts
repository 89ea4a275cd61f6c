/**
 * All that one process can come to, by the replies that it got: a graph whose edges are inputs. A reply that it has got once it
 * need not get again, wherever in the world that happens.
 *
 * Two lives of a process are taken for one when they have got the same replies, in whatever order, and wait for the same now.
 * Nobody can look into a process to see that it has kept nothing else, so of the lives that come to a node the first other
 * one is followed beside it from there on, and has to come to the same whatever both get.
 */
import type { LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import { TimeAlone } from "./apart.ts";
import { admissionToken, inputsTo, type Life, type Waiting } from "./life.ts";
import { type Input, type Pending, Process, type Role } from "./process.ts";
import { textOf } from "./text.ts";

export interface Node extends Life {
  readonly id: number;
  readonly parent: Node | null;
  /** Lives with the same one are taken for one. */
  readonly key: string;
  /** By the names of the inputs. */
  readonly children: Map<string, Node>;
  readonly inputs: Map<string, Input>;
}

type ReplyInput = Extract<Input, { readonly kind: "reply" }>;

/** So many processes are kept as they are, to get more replies; others are begun again and get all of them. */
const keptMax = 500;

export class Tree {
  readonly actor: string;
  readonly #role: Role;
  readonly #asOne: boolean;
  readonly #roots = new Map<number, Node>();
  readonly #nodes = new Map<string, Node>();
  /** Of a node, another life that came to it. */
  readonly #seconds = new Map<Node, Life>();
  readonly #alive = new Map<Life, Process>();
  readonly #numbers = new Map<string, number>();
  #compared = 0;

  /** @param asOne lives that got the same replies are taken for one */
  constructor(actor: string, role: Role, asOne = true) {
    this.actor = actor;
    this.#role = role;
    this.#asOne = asOne;
  }

  /** How often a second life came to the same as the first. */
  get compared(): number {
    return this.#compared;
  }

  /** Where it stands when it begins at this time, if that is known. */
  root(now: number): Node | undefined {
    return this.#roots.get(now);
  }

  async grownRoot(now: number): Promise<Node> {
    const process = new Process(this.actor, this.#role);
    const input = { kind: "start", now } as const;
    await process.feed(input);
    const life = this.#lived(process, null, input);
    const root = this.#added(life, this.#keyOf(life), null);
    this.#roots.set(now, root);
    return root;
  }

  /** @param name of this input among the node's */
  async grown(node: Node, name: string, input: Input): Promise<Node> {
    const life = await this.#fed(node, input);
    const key = this.#keyOf(life);
    const known = this.#nodes.get(key);
    const child = known ?? this.#added(life, key, node);
    node.children.set(name, child);
    node.inputs.set(name, input);
    if (known !== undefined) await this.#follow(known, life);
    const second = this.#seconds.get(node);
    if (second !== undefined) await this.#compare(node, second, name, input);
    return child;
  }

  #added(life: Life, key: string, parent: Node | null): Node {
    const id = this.#nodes.size + 1;
    const node = { ...life, id, parent, key, children: new Map<string, Node>(), inputs: new Map() };
    this.#nodes.set(key, node);
    const process = this.#alive.get(life);
    this.#alive.delete(life);
    if (process !== undefined) this.#alive.set(node, process);
    return node;
  }

  /** From here on the life goes along with the node's own. */
  async #follow(node: Node, life: Life): Promise<void> {
    if (node.isOver || this.#seconds.has(node)) {
      this.#alive.delete(life);
      return;
    }
    this.#seconds.set(node, life);
    for (const [name, input] of node.inputs) await this.#compare(node, life, name, input);
  }

  async #compare(node: Node, second: Life, name: string, input: Input): Promise<void> {
    const life = await this.#fed(second, translated(input, node, second));
    const child = node.children.get(name);
    if (child?.key !== this.#keyOf(life)) throw new Error(differenceOf(this.actor, node, second, name));
    this.#compared += 1;
    await this.#follow(child, life);
  }

  async #fed(before: Life, input: Input): Promise<Life> {
    const process = await this.#processAt(before);
    await process.feed(input);
    return this.#lived(process, before, input);
  }

  async #processAt(life: Life): Promise<Process> {
    const there = this.#alive.get(life);
    if (there !== undefined) {
      this.#alive.delete(life);
      return there;
    }
    const process = new Process(this.actor, this.#role);
    for (const input of inputsTo(life)) await process.feed(input);
    return process;
  }

  #lived(process: Process, parent: Life | null, input: Input): Life {
    const { dueMs, outcome } = process;
    const pending = this.#waitingOf(process.pending, parent?.pending ?? []);
    const isOver = outcome !== null && pending.length === 0 && dueMs === null;
    const fact = this.#numberOf(factText(input, parent));
    const facts = withFact(parent?.facts ?? [], fact);
    const life = { parent, input, pending, dueMs, outcome, isOver, facts };
    if (!isOver) this.#keep(life, process);
    return life;
  }

  /** What is asked for twice at a time has two ids. */
  #waitingOf(pending: readonly Pending[], before: readonly Waiting[]): readonly Waiting[] {
    const known = new Map(before.map((one) => [one.call, one]));
    const taken = new Set(pending.flatMap(({ call }) => known.get(call)?.text ?? []));
    const waiting = pending.map((one) => {
      const there = known.get(one.call);
      if (there !== undefined) return there;
      const asked = textOf([one.port, one.args, one.askedMs]);
      let text = asked;
      for (let count = 2; taken.has(text); count++) text = `${asked} ${count}`;
      taken.add(text);
      return { ...one, text, id: this.#numberOf(text) };
    });
    return waiting.sort((one, other) => (one.text < other.text ? -1 : 1));
  }

  /** What the judge looks for in what came before is a part of it. */
  #keyOf(life: Life): string {
    const { facts, pending, dueMs, outcome, isOver } = life;
    if (isOver) return `over ${outcome}`;
    if (!this.#asOne) return `${this.#nodes.size}`;
    const admitted = outcome === null ? admissionToken(life) : null;
    return `${facts.join()};${pending.map(({ id }) => id).join()};${dueMs};${admitted};${outcome}`;
  }

  #numberOf(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    const number = this.#numbers.size + 1;
    this.#numbers.set(text, number);
    return number;
  }

  #keep(life: Life, process: Process): void {
    this.#alive.set(life, process);
    if (this.#alive.size <= keptMax) return;
    for (const [oldest] of this.#alive) {
      this.#alive.delete(oldest);
      return;
    }
  }
}

/** A wake is distinguished by what was being asked for when it came: a limit may end that, or not. */
function factText(input: Input, before: Life | null): string {
  switch (input.kind) {
    case "start":
      return `start ${input.now}`;
    case "wake":
      return textOf(["wake", input.now, before?.pending.map(({ text }) => text)]);
    case "reply": {
      const asked = before?.pending.find(({ call }) => call === input.call);
      return textOf([asked?.port, asked?.args, ...replyFacts(asked?.port ?? "", input)]);
    }
    default:
      return input satisfies never;
  }
}

/** A look-up leaves no more than what it led to, and what state it found. */
function replyFacts(port: string, { threw, value, now }: ReplyInput): readonly unknown[] {
  if (value instanceof TimeAlone) return [value.now, now];
  if (port === "read" || port === "readById") return threw ? [value] : stateIn(value);
  return [threw, value, now];
}

function stateIn(value: unknown): readonly unknown[] {
  const { record } = (value ?? {}) as { readonly record?: LatchkeyRecord | null };
  return record == null ? [] : [record.state, record.fence.attempt];
}

function withFact(facts: readonly number[], fact: number): readonly number[] {
  return facts.includes(fact) ? facts : [...facts, fact].sort((one, other) => one - other);
}

/** The calls of two lives have their own numbers. */
function translated(input: Input, from: Life, to: Life): Input {
  if (input.kind !== "reply") return input;
  const asked = from.pending.find(({ call }) => call === input.call);
  const same = to.pending.find(({ id }) => id === asked?.id);
  if (same === undefined) throw new RangeError(`harness: call ${input.call} is not asked for in both lives`);
  return { ...input, call: same.call };
}

function differenceOf(actor: string, node: Life, second: Life, name: string): string {
  const [one, other] = [node, second].map((life) => inputsTo(life).map(briefly).join(", "));
  return `harness: two lives of ${actor} were taken for one and differ after ${name}:\n  ${one}\n  ${other}`;
}

function briefly(input: Input): string {
  return input.kind === "reply" ? `reply to ${input.call} at ${input.now}` : `${input.kind} at ${input.now}`;
}
