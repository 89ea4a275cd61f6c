/** Scenarios of calls on the store, whose answers and end the memory store must explain in some order. */
import type { Fence, Guard, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { IsolationLevel } from "../../../packages/latchkey/src/sql/transaction.ts";
import type { NewLife } from "../../../packages/latchkey/src/stores/life.ts";
import type { NewEffect } from "../../../packages/latchkey/src/stores/outbox.ts";
import type { LeaseTerms, Retention } from "../../../packages/latchkey/src/stores/store.ts";
import { type AnyStore, Calls, type Rule } from "./calls.ts";
import { unexplained } from "./linear.ts";
import type { Cast, FaultKind, Moment, Scenario, Session, World } from "./scenario.ts";
import type { Seen } from "./seen.ts";

export const leaseMs = 30_000;
export const retention: Retention = { retentionMs: 60_000, forgetAfterMs: 120_000 };
export const fingerprint = { version: 1, digest: new Uint8Array(4).fill(7) };

export function terms(leaseEnd: LeaseTerms["leaseEnd"] = "rerun"): LeaseTerms {
  return { leaseMs, leaseEnd, attemptsMax: 5, abandonAfterMs: 3_600_000 };
}

export function bytes(text: string): Uint8Array {
  return Buffer.from(text);
}

export function complete(text: string) {
  return { event: "complete", answer: bytes(text), retention, errorCode: null } as const;
}

/** What a scenario's script is written with. */
export class Script {
  readonly world: World;
  readonly key: RecordKey;
  readonly #before: Calls;
  readonly #calls: Calls;
  readonly #actors: { readonly name: string; run(): Promise<unknown> }[] = [];
  readonly #moments: Moment[] = [];
  readonly #keys: RecordKey[];
  #afterwards: (() => Promise<void>) | null = null;

  constructor(world: World) {
    this.world = world;
    this.key = world.key;
    this.#keys = [world.key];
    this.#before = new Calls(world);
    this.#calls = new Calls(world);
  }

  session(index: number): Session {
    const session = this.world.sessions[index];
    if (session === undefined) throw new RangeError(`No session ${index}`);
    return session;
  }

  life(index: number, overrides: Partial<NewLife> = {}): NewLife {
    const { random } = this.session(index);
    return {
      ...this.key,
      id: random.uuid(this.world.nowMs()),
      operation: "op",
      fingerprint,
      principal: null,
      fence: { attempt: 1, token: random.token() },
      ...overrides,
    };
  }

  token(index: number): string {
    return this.session(index).random.token();
  }

  /** Before the first choice. */
  async first<T>(name: string, make: (on: AnyStore) => Promise<T>): Promise<Exclude<T, null | false>> {
    const value = await this.#before.make(this.session(0), name, make);
    if (value === null || value === false) throw new Error(`The scenario could not begin: ${name}`);
    return value as Exclude<T, null | false>;
  }

  /** Before the first choice. */
  passFirst(ms: number): Promise<void> {
    return this.#before.pass(ms);
  }

  /** Somebody who makes calls, one after the other, in this session. */
  actor(name: string, index: number, run: (call: MakeCall) => Promise<unknown>): void {
    const session = this.session(index);
    this.#actors.push({
      name,
      run: () => run((what, make, rule) => this.#calls.make(session, `${name}: ${what}`, make, rule)),
    });
  }

  /** One more key whose record is judged in the end. */
  watch(key: RecordKey): void {
    this.#keys.push(key);
  }

  /** What was in doubt is certain now. */
  decided(name: string, took: boolean): void {
    this.#calls.decide(name, took);
  }

  /** Time that passes at some moment; a later one of these comes after an earlier one. */
  moment(name: string, ms: number): void {
    const last = this.#moments.at(-1);
    const after = last === undefined ? {} : { after: last.name };
    this.#moments.push({ name, ...after, happen: () => this.#calls.pass(ms) });
  }

  /** Calls after the last choice; an effect that is then neither delivered nor dead is stuck. */
  afterwards(run: (call: CallOfSession, pass: (ms: number) => Promise<void>) => Promise<void>): void {
    const call: CallOfSession = (index, what, make) =>
      this.#calls.make(this.session(index), `afterwards: ${what}`, make);
    this.#afterwards = () => run(call, (ms) => this.#calls.pass(ms));
  }

  cast(beginMs: number): Cast {
    const aftermath = this.#afterwards;
    return {
      actors: this.#actors,
      moments: this.#moments,
      ...(aftermath === null ? {} : { aftermath }),
      check: async (seen) => {
        const threw = this.#calls.made.flatMap(({ name, result }) =>
          result?.kind === "threw" ? [`${name} threw ${result.text}`] : [],
        );
        const history = {
          beginMs,
          endMs: this.world.nowMs(),
          before: this.#before.made,
          calls: this.#calls.made,
          watched: { keys: this.#keys },
        };
        const left = aftermath === null ? [] : undelivered(seen);
        const broken = await unexplained(history, seen);
        return [...threw, ...left, ...(broken === null ? [] : [broken])];
      },
    };
  }
}

function undelivered({ effects }: Seen): readonly string[] {
  const left = effects.filter(({ state }) => state !== "delivered" && state !== "dead");
  return left.map(({ id, state }) => `L2: effect ${id} stays ${state}`);
}

type CallOfSession = <T>(
  session: number,
  what: string,
  make: (on: AnyStore) => Promise<T>,
) => Promise<T | null>;

export type MakeCall = <T>(
  what: string,
  make: (on: AnyStore) => Promise<T>,
  rule?: Rule,
) => Promise<T | null>;

export interface CallScenario {
  readonly name: string;
  readonly about: string;
  readonly isolations: readonly IsolationLevel[];
  readonly faults: readonly FaultKind[];
  write(script: Script): Promise<void>;
}

export function callScenario({ write, ...scenario }: CallScenario): Scenario {
  return {
    ...scenario,
    async arrange(world) {
      const beginMs = world.nowMs();
      const script = new Script(world);
      await write(script);
      return script.cast(beginMs);
    },
  };
}

export function guardOfFence(id: string, state: Guard["state"], fence: Fence): Guard {
  return { id, state, fence };
}

/** Transactions of a store that has them. */
export function transactionsOf({ store }: AnyStore) {
  if (store.transactions === null) throw new TypeError("The store has transactions");
  return store.transactions;
}

export function outboxOf({ store }: AnyStore) {
  if (store.outbox === null) throw new TypeError("The store has an outbox");
  return store.outbox;
}

export interface Committing {
  readonly by: string;
  readonly life: NewLife;
  readonly replaces?: Guard | null;
  readonly effects?: readonly NewEffect[];
  readonly isolation?: IsolationLevel;
  readonly retention?: Retention;
}

/** A whole transaction: one business row, the record, and effects if there are any. */
export async function commits(on: AnyStore, what: Committing) {
  const { life, by, replaces = null, effects = [], isolation = null } = what;
  const request = { key: life, isolation, idleLimitMs: 30_000, savepoint: false };
  return transactionsOf(on).run(request, async ({ tx }) => {
    await on.write(tx, { key: life.key, life: life.id, by });
    return {
      end: "commit" as const,
      value: by,
      life,
      replaces,
      answer: bytes(by),
      retention: what.retention ?? retention,
      undoWrites: false,
      effects,
    };
  });
}

/** A process remembers how far it has come with an effect: so each interleaving has its own. */
export function mailOf({ key }: World): string {
  return `mail of ${key.key}`;
}

/** What somebody enqueues with its transaction. */
export function newEffect(script: Script, index: number, overrides: Partial<NewEffect> = {}): NewEffect {
  const { random } = script.session(0);
  return {
    id: random.uuid(script.world.nowMs()),
    effect: mailOf(script.world),
    downstreamKey: `downstream-${index}`,
    step: "",
    index,
    aggregate: null,
    ordered: false,
    input: bytes("input"),
    delayMs: 0,
    ...overrides,
  };
}
