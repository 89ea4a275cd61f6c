/**
 * A small closed world for exploring schedules: processes over one memory store, whose every store call and every
 * handler waits to be let go by the explorer, and a clock that moves only when the explorer says so.
 */
import type { Answer } from "../../packages/latchkey/src/attempt/answer.ts";
import type { HandlerContext, Result, Work } from "../../packages/latchkey/src/attempt/attempt.ts";
import type { DirectExecution, Execution } from "../../packages/latchkey/src/engine/classify.ts";
import type { LatchkeyRecord, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { isLatchkeyError } from "../../packages/latchkey/src/errors.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { leaseRescuer } from "../../packages/latchkey/src/maintenance/lease-rescuer.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operation.ts";
import type { Clock, Ports } from "../../packages/latchkey/src/ports.ts";
import { type MemoryTransaction, memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import { type Fault, faultyStore, type StorePort } from "../../packages/latchkey/src/testing/index.ts";

const leaseMs = 3_000;
const key: RecordKey = { tenant: "t", scope: "op", key: "k" };
const submission = { key, fingerprint: { version: 1, digest: new Uint8Array([1]) }, principal: null };

/** What befalls a call. `late`: the caller hears that it is in doubt, and it takes effect later, or now. */
export type Mishap = "crash" | "request_lost" | "reply_lost" | "late";

export interface Bounds {
  readonly execution: "lease" | "transaction";
  readonly options: OperationOptions<DirectExecution>;
  readonly owners: readonly string[];
  readonly mishaps: readonly Mishap[];
  readonly mishapsMax: number;
  /** How often time may pass the end of a lease while something is under way. */
  readonly leaseEndsMax: number;
  /** Replaces methods of the store, to plant a mistake. */
  readonly plant?: (store: Store<MemoryTransaction>) => Partial<Store<MemoryTransaction>>;
}

/** One thing that can happen next. Names are stable, so that a schedule can be repeated. */
export interface Choice {
  readonly name: string;
  happen(): Promise<void> | void;
}

export interface Ending {
  readonly owner: string;
  readonly result: Result | { readonly kind: "threw"; readonly code: string };
}

interface Waiting {
  readonly actor: string;
  readonly name: string;
  readonly go: (fault: Fault) => void;
  readonly isCall: boolean;
  /** What can go wrong with it. */
  readonly mishaps: readonly Mishap[];
}

export class World {
  readonly endings: Ending[] = [];
  /** How often a handler took effect. */
  effects = 0;
  readonly #bounds: Bounds;
  readonly #clock = new SteppedClock();
  readonly #memory = memoryStore({ ports: { clock: this.#clock } });
  readonly #waiting = new Map<string, Waiting>();
  readonly #kills = new Map<string, () => void>();
  /** What each process has seen: with the same code it is in the same state. */
  readonly #seen = new Map<string, string[]>();
  /** How each process ended that has. */
  readonly #ended = new Map<string, unknown>();
  #mishapsLeft: number;
  #leaseEndsLeft: number;
  #leaseIsEnding = false;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
    this.#mishapsLeft = bounds.mishapsMax;
    this.#leaseEndsLeft = bounds.leaseEndsMax;
  }

  async begin(): Promise<void> {
    for (const owner of this.#bounds.owners) this.#submit(owner);
    const rescuer = leaseRescuer(this.#process("rescuer"));
    rescuer.runOnce().then(
      (report) => this.#ended.set("rescuer", report),
      () => this.#ended.set("rescuer", "failed"),
    );
    await turn();
  }

  choices(): readonly Choice[] {
    const calls = [...this.#waiting.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    const choices = calls.flatMap((call) => [
      { name: call.name, happen: () => this.#go(call, "proceed") },
      ...(this.#mishapsLeft > 0 ? call.mishaps : []).map((mishap) => ({
        name: `${call.name} ${mishap}`,
        happen: () => this.#befall(call, mishap),
      })),
    ]);
    if (this.#leaseEndsLeft > 0 && calls.length > 0) {
      choices.push({ name: "lease ends", happen: () => this.#endLease() });
    }
    return choices;
  }

  async take(choice: Choice): Promise<void> {
    await choice.happen();
    await turn();
  }

  async record(): Promise<LatchkeyRecord | null> {
    return (await this.#memory.read(key)).record;
  }

  rows(): number {
    return this.#memory.rows("orders").length;
  }

  /** Two worlds with the same state have the same future. Owners are alike, so it does not matter which is which. */
  async state(): Promise<string> {
    const [first = "", second = ""] = this.#bounds.owners;
    const swap = (text: string) =>
      text.replaceAll(first, "*").replaceAll(second, first).replaceAll("*", second);
    const common = json([
      await this.record(),
      this.rows(),
      this.effects,
      this.#clock.monotonicMs(),
      this.#mishapsLeft,
      this.#leaseEndsLeft,
      this.#stateOf("rescuer"),
    ]);
    const waiting = [...this.#waiting.keys()];
    const [one, two] = [json(this.#stateOf(first)), json(this.#stateOf(second))];
    const texts = [
      json([common, waiting.toSorted(), one, two]),
      json([swap(common), waiting.map(swap).toSorted(), swap(two), swap(one)]),
    ];
    return texts.toSorted()[0] ?? "";
  }

  /** What an actor has seen does not matter any more once it has ended and nothing of it is under way. */
  #stateOf(actor: string): unknown {
    const underWay = [...this.#waiting.keys()].some((name) => name.includes(`${actor} `));
    return underWay ? this.#seen.get(actor) : (this.#ended.get(actor) ?? this.#seen.get(actor));
  }

  /** Everything is over: time passes, the rescuer runs undisturbed, and the client tries once more. */
  async aftermath(): Promise<Result> {
    await this.#clock.advance(leaseMs * 2);
    const latchkey = createLatchkey<MemoryTransaction>({
      store: this.#memory,
      ports: this.#ports("aftermath"),
      strict: false,
    });
    await leaseRescuer(latchkey).runOnce();
    const operation = latchkey.operation("op", this.#options());
    return latchkey.execute(operation, submission, async (context) => this.#effect("aftermath", context));
  }

  #options(): OperationOptions<DirectExecution> {
    return { execution: this.#bounds.execution, leaseMs, ...this.#bounds.options };
  }

  #ports(actor: string): Ports {
    let drawn = 0;
    const random = {
      token: () => `token ${++drawn} of ${actor}`,
      uuid: () => `id ${++drawn} of ${actor}`,
      fraction: () => 0.5,
    };
    return { clock: this.#clock, random };
  }

  #process(actor: string) {
    let calls = 0;
    this.#seen.set(actor, []);
    const faulty = faultyStore(this.#recording(actor), ({ port }) => {
      // Giving a connection back tells nobody anything.
      if (port === "rollback" || port === "abandon") return "proceed";
      // The lease ends because its beats do not get through.
      if (port === "renew" && this.#leaseIsEnding) return new Promise<Fault>(() => {});
      calls += 1;
      const { mishaps } = this.#bounds;
      return this.#wait(actor, `${calls} ${port}`, actor === "rescuer" ? [] : mishaps.filter(matters(port)));
    });
    this.#kills.set(actor, faulty.kill);
    return createLatchkey<MemoryTransaction>({
      store: faulty.store,
      ports: this.#ports(actor),
      strict: false,
    });
  }

  #submit(owner: string): void {
    const latchkey = this.#process(owner);
    const operation = latchkey.operation("op", this.#options());
    let starts = 0;
    const work: Work<MemoryTransaction> = async (context) => {
      starts += 1;
      // The worst handler: it looks at no signal, and takes effect whenever it is woken.
      await this.#wait(owner, `handler ${starts}`, this.#bounds.mishaps.includes("crash") ? ["crash"] : []);
      return this.#effect(owner, context);
    };
    const ended = (result: Ending["result"]) => {
      this.endings.push({ owner, result });
      this.#ended.set(owner, result);
    };
    latchkey
      .execute(operation, submission, work)
      .then(ended, (error: unknown) =>
        ended({ kind: "threw", code: isLatchkeyError(error) ? error.code : String(error) }),
      );
  }

  async #effect(owner: string, context: HandlerContext<MemoryTransaction, Execution>): Promise<Answer> {
    this.effects += 1;
    if ("tx" in context) await context.tx.insert("orders", { owner });
    return { status: 201, headers: [], body: Buffer.from(owner), omitted: null };
  }

  #wait(actor: string, what: string, mishaps: readonly Mishap[]): Promise<Fault> {
    const name = `${actor} ${what}`;
    return new Promise((resolve) => {
      this.#waiting.set(name, { actor, name, go: resolve, mishaps, isCall: !what.startsWith("handler") });
    });
  }

  #go(call: Waiting, fault: Fault): void {
    this.#waiting.delete(call.name);
    this.#see(call.actor, `${call.name} ${typeof fault === "string" ? fault : fault.kind}`);
    call.go(fault);
  }

  #befall(call: Waiting, mishap: Mishap): void {
    this.#mishapsLeft -= 1;
    if (mishap === "late") {
      // Its effect is on its way, and nobody's any more: one more thing that can happen.
      const until = this.#wait("network", call.name, []).then(() => {});
      this.#go(call, { kind: "late", until });
    } else if (mishap === "crash") {
      this.#crash(call);
    } else {
      this.#go(call, mishap);
    }
  }

  #crash(call: Waiting): void {
    this.#see(call.actor, `crash before ${call.name}`);
    this.#kills.get(call.actor)?.();
    this.#ended.set(call.actor, "crashed");
    for (const other of [...this.#waiting.values()]) {
      if (other.actor !== call.actor) continue;
      this.#waiting.delete(other.name);
      // A handler never wakes; a call finds its process dead, and its transaction is ended.
      if (other.isCall) other.go("crash_before");
    }
  }

  async #endLease(): Promise<void> {
    this.#leaseEndsLeft -= 1;
    for (const actor of this.#seen.keys()) this.#see(actor, "lease ends");
    this.#leaseIsEnding = true;
    await this.#clock.advance(leaseMs);
    this.#leaseIsEnding = false;
  }

  #see(actor: string, what: string): void {
    this.#seen.get(actor)?.push(what);
  }

  /** The memory store, noting what it says to whom. */
  #recording(actor: string): Store<MemoryTransaction> {
    const note = <T>(said: T): T => {
      this.#see(actor, json(said));
      return said;
    };
    const memory: Store<MemoryTransaction> = { ...this.#memory, ...this.#bounds.plant?.(this.#memory) };
    const { transactions } = memory;
    if (transactions === null) throw new TypeError("The memory store has transactions");
    return {
      ...memory,
      read: (...given) => memory.read(...given).then(note),
      create: (...given) => memory.create(...given).then(note),
      takeOver: (...given) => memory.takeOver(...given).then(note),
      renew: (...given) => memory.renew(...given).then(note),
      end: (...given) => memory.end(...given).then(note),
      giveUp: (...given) => memory.giveUp(...given).then(note),
      endedLeases: (...given) => memory.endedLeases(...given).then(note),
      transactions: {
        deliver: (...given) => transactions.deliver(...given),
        phase: (...given) => transactions.phase(...given),
        async run(request, work) {
          const outcome = await transactions.run(request, (open) => {
            note([open.reading, open.exclusive]);
            return work(open);
          });
          note(outcome.kind);
          return outcome;
        },
        resolve: (...given) => transactions.resolve(...given).then(note),
      },
    };
  }
}

function json(value: unknown): string {
  const readable = (_: string, part: unknown) =>
    part instanceof Uint8Array ? Buffer.from(part).toString("latin1") : part;
  return JSON.stringify(value, readable) ?? "nothing";
}

/**
 * Which mishaps make a difference. A look-up that comes late or whose reply is lost is one that never happened; a beat
 * or a giving up that comes late is one that waits.
 */
function matters(port: StorePort): (mishap: Mishap) => boolean {
  const looks = port === "read" || port === "resolve" || port === "open";
  const waits = port === "renew" || port === "giveUp";
  return (mishap) =>
    mishap === "crash" || mishap === "request_lost" || !(looks || (waits && mishap === "late"));
}

/** Back-offs are over at once; anything longer waits for the explorer. */
const shortMs = 60;

class SteppedClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly dueMs: number; readonly task: () => void }>();

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs;
  }

  startTimer(delayMs: number, task: () => void): () => void {
    let cancelled = false;
    if (delayMs <= shortMs) {
      queueMicrotask(() => {
        if (!cancelled) task();
      });
      return () => {
        cancelled = true;
      };
    }
    const timer = { dueMs: this.#nowMs + delayMs, task };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  keepAlive(): () => void {
    return () => {};
  }

  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const due = [...this.#timers]
        .filter(({ dueMs }) => dueMs <= untilMs)
        .sort((a, b) => a.dueMs - b.dueMs)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#nowMs = due.dueMs;
      due.task();
      await turn();
    }
    this.#nowMs = untilMs;
  }
}

/** Lets everything run until it waits: nothing here waits for input or output. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
