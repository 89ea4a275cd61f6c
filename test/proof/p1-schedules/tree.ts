/**
 * All that one process can come to, by what it was told: a tree whose edges are inputs. What it has been told once it need
 * not be told again, wherever in the world that happens.
 */
import { type Input, type Pending, Process, type Role } from "./process.ts";

export interface Node {
  readonly id: number;
  readonly parent: Node | null;
  /** What led here from its parent. */
  readonly input: Input;
  readonly pending: readonly Pending[];
  /** When its next timer is due; null: it has none. */
  readonly dueMs: number | null;
  readonly outcome: string | null;
  /** It has ended, and nothing of it is left. */
  readonly isOver: boolean;
  readonly children: Map<string, Node>;
}

/** So many processes are kept as they are, to be told more; others are begun again and told all of it. */
const keptMax = 500;

export class Tree {
  readonly actor: string;
  readonly #role: Role;
  readonly #roots = new Map<number, Node>();
  /** What has ended in the same way is the same. */
  readonly #over = new Map<string, Node>();
  readonly #alive = new Map<Node, Process>();
  #last = 0;

  constructor(actor: string, role: Role) {
    this.actor = actor;
    this.#role = role;
  }

  get size(): number {
    return this.#last;
  }

  /** Where it stands when it begins at this time, if that is known. */
  root(now: number): Node | undefined {
    return this.#roots.get(now);
  }

  async grownRoot(now: number): Promise<Node> {
    const process = new Process(this.actor, this.#role);
    const input = { kind: "start", now } as const;
    await process.feed(input);
    const node = this.#noted(process, null, input);
    this.#roots.set(now, node);
    return node;
  }

  /** @param name of this input among the node's */
  async grown(node: Node, name: string, input: Input): Promise<Node> {
    const process = await this.#processAt(node);
    await process.feed(input);
    const child = this.#noted(process, node, input);
    node.children.set(name, child);
    return child;
  }

  async #processAt(node: Node): Promise<Process> {
    const there = this.#alive.get(node);
    if (there !== undefined) {
      this.#alive.delete(node);
      return there;
    }
    const process = new Process(this.actor, this.#role);
    for (const input of inputsTo(node)) await process.feed(input);
    return process;
  }

  #noted(process: Process, parent: Node | null, input: Input): Node {
    const { pending, dueMs, outcome } = process;
    const isOver = outcome !== null && pending.length === 0 && dueMs === null;
    const same = isOver ? this.#over.get(outcome) : undefined;
    if (same !== undefined) return same;
    this.#last += 1;
    const id = this.#last;
    const node = { id, parent, input, pending, dueMs, outcome, isOver, children: new Map<string, Node>() };
    if (isOver) this.#over.set(outcome, node);
    else this.#keep(node, process);
    return node;
  }

  #keep(node: Node, process: Process): void {
    this.#alive.set(node, process);
    if (this.#alive.size <= keptMax) return;
    for (const [oldest] of this.#alive) {
      this.#alive.delete(oldest);
      return;
    }
  }
}

function inputsTo(node: Node): readonly Input[] {
  const inputs: Input[] = [];
  for (let at: Node | null = node; at !== null; at = at.parent) inputs.push(at.input);
  return inputs.reverse();
}
