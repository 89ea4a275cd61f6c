/**
 * One process, alone: it gets the reply to what it asked, and the time. It does the same whenever it gets the same,
 * so that it can be brought back to any point of its life.
 */
import { createLatchkey, type Latchkey } from "../../../packages/latchkey/src/latchkey.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { ProcessClock } from "./process-clock.ts";
import { processStore } from "./process-store.ts";

export interface System {
  readonly actor: string;
  readonly latchkey: Latchkey<MemoryTransaction>;
  /** Asks the world outside. */
  readonly ask: <T>(port: string, args: readonly unknown[]) => Promise<T>;
}

/** What a process does from its beginning to its end. What it answers is a text that says how it ended. */
export type Role = (system: System) => Promise<string>;

export interface Pending {
  /** 1 for the first thing that this process asks. */
  readonly call: number;
  readonly port: string;
  readonly args: readonly unknown[];
  /** When it was asked. */
  readonly askedMs: number;
}

export type Input =
  | { readonly kind: "start"; readonly now: number }
  | {
      readonly kind: "reply";
      readonly call: number;
      readonly threw: boolean;
      readonly value: unknown;
      readonly now: number;
    }
  /** Its timers that are due fire. */
  | { readonly kind: "wake"; readonly now: number };

/** One that does more without asking anything does not end. */
const turnsMax = 500;

export class Process {
  readonly actor: string;
  outcome: string | null = null;
  readonly #role: Role;
  readonly #clock = new ProcessClock();
  readonly #waiting = new Map<number, Pending & { readonly settle: (input: ReplyInput) => void }>();
  #calls = 0;

  constructor(actor: string, role: Role) {
    this.actor = actor;
    this.#role = role;
  }

  /** In the order in which they were asked. */
  get pending(): readonly Pending[] {
    return [...this.#waiting.values()].map(({ call, port, args, askedMs }) => ({
      call,
      port,
      args,
      askedMs,
    }));
  }

  /** When its next timer is due; null: it has none. */
  get dueMs(): number | null {
    return this.#clock.dueMs;
  }

  /** Resolves when it waits again. */
  async feed(input: Input): Promise<void> {
    this.#clock.now = input.now;
    if (input.kind === "start") this.#start();
    else if (input.kind === "reply") this.#reply(input);
    await allReactions();
    for (let turns = 0; this.#clock.fire(input.kind === "wake"); turns++) {
      if (turns > turnsMax) throw new Error(`L1: ${this.actor} does not come to rest`);
      await allReactions();
    }
  }

  #start(): void {
    const { actor } = this;
    const ask = <T>(port: string, args: readonly unknown[]) => this.#ask(port, args) as Promise<T>;
    let drawn = 0;
    const random = {
      token: () => `token ${++drawn} of ${actor}`,
      uuid: () => `id ${++drawn} of ${actor}`,
      fraction: () => 0.5,
    };
    const latchkey = createLatchkey<MemoryTransaction>({
      store: processStore((port, args) => this.#ask(port, args) as Promise<never>, actor),
      ports: { clock: this.#clock, random },
      circuitBreaker: false,
      strict: false,
      logSecret: "explored",
    });
    this.#role({ actor, latchkey, ask }).then(
      (outcome) => {
        this.outcome = outcome;
      },
      (error: unknown) => {
        this.outcome = `broken: ${String(error)}`;
      },
    );
  }

  #ask(port: string, args: readonly unknown[]): Promise<unknown> {
    this.#calls += 1;
    const call = this.#calls;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const settle = ({ threw, value }: ReplyInput) => (threw ? reject(value) : resolve(value));
    this.#waiting.set(call, { call, port, args, askedMs: this.#clock.now, settle });
    return promise;
  }

  #reply(reply: ReplyInput): void {
    const waiting = this.#waiting.get(reply.call);
    if (waiting === undefined) throw new Error(`${this.actor} has not asked ${reply.call}`);
    this.#waiting.delete(reply.call);
    waiting.settle(reply);
  }
}

type ReplyInput = Extract<Input, { readonly kind: "reply" }>;

/** A tick that is asked for in a reaction comes when none is left: nothing in a process waits for input or output. */
function allReactions(): Promise<void> {
  return new Promise((resolve) => {
    queueMicrotask(() => process.nextTick(resolve));
  });
}
