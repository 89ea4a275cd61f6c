/** Plays a sequence of calls on every store at once, and stops at the first reply that is not the same. */
import { createHash } from "node:crypto";
import type { RecordState } from "../../../../packages/latchkey/src/engine/record.ts";
import type { EffectState } from "../../../../packages/latchkey/src/stores/outbox.ts";
import { Choices } from "../../p2-random/choices.ts";
import type { Subject } from "../bench.ts";
import { Difference, endAll, everywhere, type Lane, type Side, standingClock } from "../lane.ts";
import type { Played, Sequence, Size } from "../sequence.ts";
import { Texts } from "../text.ts";
import type { Call, CallKind, CallKinds } from "./call.ts";
import { dump } from "./dump.ts";
import { journalCalls } from "./journal.ts";
import { outboxCalls } from "./outbox.ts";
import { recordCalls } from "./records.ts";
import { settlementCalls } from "./settlement.ts";
import { transactionCalls } from "./transactions.ts";
import { beginMs, CallWorld } from "./world.ts";

export const callSize: Size = { stepsMin: 15, stepsMax: 55, numbers: 40 };

const kinds: CallKinds = {
  ...recordCalls,
  ...journalCalls,
  ...settlementCalls,
  ...outboxCalls,
  ...transactionCalls,
};
const anyCall = Object.keys(kinds);
/** Left out where a store has none. */
const needTransactions = new Set(Object.keys({ ...outboxCalls, ...transactionCalls }));

/** Where a key is, for the choice of what comes next. */
type Standing = RecordState | "none" | "calling" | "lease over" | "over";

/** What leads on from there. */
const leadingOn: Readonly<Record<Standing, readonly string[]>> = {
  none: ["create", "create", "run", "run", "accept"],
  pending: ["claimPending", "claimPending", "claimPending", "pass", "clean"],
  in_progress: [
    "startCall",
    "startCall",
    "phase",
    "phase",
    "phase",
    "end",
    "end",
    "renew",
    "refence",
    "pass",
    "pass",
    "takeOver",
  ],
  calling: [
    "endCall",
    "endCall",
    "endCall",
    "endCall",
    "startCall",
    "phase",
    "doubt",
    "doubt",
    "end",
    "pass",
  ],
  "lease over": [
    "takeOver",
    "takeOver",
    "takeOver",
    "giveUp",
    "giveUp",
    "endedLeases",
    "resumable",
    "renew",
    "end",
    "refence",
    "phase",
  ],
  retryable: [
    "takeOver",
    "takeOver",
    "takeOver",
    "run",
    "deliver",
    "recordLostTransaction",
    "pass",
    "resumable",
  ],
  unknown: ["settle", "settle", "settle", "claimUnknowns", "postpone", "pass"],
  completed: ["pass", "pass", "run", "create", "resolve", "accept"],
  failed: ["pass", "pass", "accept", "resolve"],
  expired: ["clean", "create", "pass", "accept", "run"],
  over: ["clean", "create", "run", "accept", "recordLostTransaction"],
};

/** The same for an effect. */
const deliveringOn: Readonly<Record<EffectState | "none", readonly string[]>> = {
  none: ["run", "claim"],
  pending: ["claim", "claim", "claim", "pass"],
  claimed: ["start", "start", "endDelivery", "deliver", "rescue", "pass", "park"],
  started: ["endDelivery", "endDelivery", "deliver", "deliver", "rescue", "pass", "park"],
  delivered: ["clean", "pass", "endDelivery"],
  dead: ["decide", "decide", "decide", "decide", "endDelivery", "pass"],
};

const passes = [1_000, 5_000, 10_000, 30_000, 60_000, 3_600_000, 86_400_000] as const;

export async function playCalls(lane: Lane, { head, steps }: Sequence): Promise<Played> {
  const texts = new Texts(beginMs);
  let world: CallWorld | null = null;
  const clock = standingClock(() => world?.nowMs ?? beginMs);
  const side = await lane.begin(clock);
  const [reference] = side.subjects;
  if (reference === undefined) throw new TypeError("There is no store");
  world = new CallWorld(Choices.given(head), reference);
  const game = new Game(side, world, texts);
  try {
    for (const step of steps) await game.step(Choices.given(step));
    await game.end();
    return game.played(null);
  } catch (error) {
    if (error instanceof Difference) return game.played(error);
    throw error;
  } finally {
    await endAll(side);
  }
}

class Game {
  readonly #side: Side;
  readonly #world: CallWorld;
  readonly #texts: Texts;
  readonly #lines: string[] = [];
  /** Calls that may be made again. */
  #past: Call[] = [];
  readonly #reached = new Map<string, number>();
  #begun = 0;
  readonly #hash = createHash("sha256");

  constructor(side: Side, world: CallWorld, texts: Texts) {
    this.#side = side;
    this.#world = world;
    this.#texts = texts;
  }

  played(difference: Difference | null): Played {
    const [broken, isStuck] = [difference?.message ?? null, difference?.isStuck ?? false];
    const hash = this.#hash.digest("hex");
    return { broken, isStuck, steps: this.#begun, lines: this.#lines, hash, reached: this.#reached };
  }

  async step(choices: Choices): Promise<void> {
    this.#begun += 1;
    const name = await this.#choose(choices);
    if (name === "pass") {
      await this.#pass(choices.pick(passes));
      return;
    }
    if (needTransactions.has(name) && this.#side.subjects.some(({ store }) => store.transactions === null))
      return;
    const world = this.#world;
    await this.#moveTo(world.nowMs + 1);
    if (name === "again") {
      return this.#past.length === 0 ? undefined : this.#repeat(choices.pick(this.#past));
    }
    const call = await kindNamed(name)(choices, world);
    if (call === null) return;
    await this.#make(call);
    if (call.once === true) return;
    this.#past.push(call);
    // Its reply was lost.
    if (choices.oneIn(8)) await this.#repeat(call);
  }

  async #repeat(call: Call): Promise<void> {
    this.#count("a call was repeated");
    await this.#make(call);
  }

  /** Everything is the same at the end. */
  async end(): Promise<void> {
    const { keys, nowMs } = this.#world;
    const { text } = await everywhere(
      this.#side,
      "the end",
      (on) => dump(on, keys, nowMs),
      () => this.#texts,
    );
    this.#hash.update(text);
  }

  async #choose(choices: Choices): Promise<string> {
    const kind = choices.choose(16);
    const world = this.#world;
    world.key = choices.pick(world.keys);
    world.effect = null;
    if (kind === 15) return "again";
    if (kind === 14) return "pass";
    if (kind >= 11) return choices.pick(anyCall);
    world.effect = kind >= 4 && world.effects.length > 0 ? choices.pick(world.effects) : null;
    if (world.effect !== null) {
      const effect = await world.peekEffect(world.effect);
      return choices.pick(deliveringOn[effect?.state ?? "none"]);
    }
    return choices.pick(leadingOn[await standing(world)]);
  }

  async #make(call: Call): Promise<void> {
    const { name, given, flavour = "valid", unordered = false, make } = call;
    const what = `${name} ${this.#texts.of(given)}`;
    this.#lines.push(what);
    const sorted = async (on: Subject) => {
      const value = await make(on);
      return unordered && Array.isArray(value) ? sortedList(value) : value;
    };
    const reply = await everywhere(this.#side, what, sorted, () => this.#texts);
    this.#hash.update(`${what}\n${reply.text}\n`);
    this.#lines.push(`  → ${reply.text}`);
    this.#count(`${name}: ${reply.kind}`);
    if (flavour !== "valid") this.#count(`${name}, ${flavour}: ${reply.kind}`);
    if (reply.value === undefined) return;
    call.learn?.(reply.value);
    for (const one of call.counts?.(reply.value) ?? []) this.#count(one);
    if (name === "clean" && (reply.value as { readonly forgotten: number }).forgotten > 0) {
      this.#leaveKnownDifference();
    }
  }

  /**
   * A repeated loss of a transaction begins a forgotten life again, under its id. A settlement of the first one that is made
   * again then raises in a database, and memory says that it is done: not mended yet, and the tier says that it is not shown.
   */
  #leaveKnownDifference(): void {
    this.#past = this.#past.filter(({ name }) => name !== "settle");
  }

  async #pass(ms: number): Promise<void> {
    this.#lines.push(`${ms} ms pass`);
    await this.#moveTo(this.#world.nowMs + ms);
  }

  async #moveTo(ms: number): Promise<void> {
    this.#world.nowMs = ms;
    await Promise.all(this.#side.subjects.map((on) => on.setTime(ms)));
  }

  #count(what: string): void {
    this.#reached.set(what, (this.#reached.get(what) ?? 0) + 1);
  }
}

async function standing(world: CallWorld): Promise<Standing> {
  const record = await world.peek(world.key);
  if (record === null) return "none";
  const { nowMs } = world;
  switch (record.state) {
    case "in_progress": {
      if (record.leaseEndsAt <= nowMs) return "lease over";
      const isCalling = (await world.calls(record)).some(({ state }) => state === "started");
      return isCalling ? "calling" : "in_progress";
    }
    case "completed":
    case "failed":
      return record.expiresAt <= nowMs ? "over" : record.state;
    default:
      return record.state;
  }
}

function kindNamed(name: string): CallKind {
  const kind = kinds[name];
  if (kind === undefined) throw new TypeError(`There is no call ${name}`);
  return kind;
}

/** By what names each: its id, or that of what it is about. */
function sortedList(list: readonly unknown[]): readonly unknown[] {
  return list.toSorted((left, right) => (nameOf(left) < nameOf(right) ? -1 : 1));
}

function nameOf(one: unknown): string {
  if (typeof one === "string") return one;
  const { id, record, step } = one as {
    readonly id?: string;
    readonly record?: { readonly id: string };
    readonly step?: { readonly downstreamKey: string };
  };
  return id ?? record?.id ?? step?.downstreamKey ?? "";
}
