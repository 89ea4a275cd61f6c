/** Plays a sequence of operations on every store at once, and stops at the first outcome that is not the same. */
import { createHash } from "node:crypto";
import type { RecordState } from "../../../../packages/latchkey/src/engine/record.ts";
import { Choices } from "../../p2-random/choices.ts";
import type { Subject } from "../bench.ts";
import { beginMs } from "../calls/world.ts";
import { Difference, endAll, everywhere, type Lane, type Side, standingClock } from "../lane.ts";
import type { Played, Sequence, Size } from "../sequence.ts";
import { Texts } from "../text.ts";
import { Acts } from "./acts.ts";
import { type EffectKind, Hand, type PlannedFault, type ServiceName, services } from "./hand.ts";
import { lookAt } from "./look-at.ts";
import {
  type About,
  deadLetter,
  type Plan,
  planOf,
  request,
  round,
  type Step,
  settlement,
  someAbout,
} from "./steps.ts";
import { defineAll } from "./work.ts";

export const operationSize: Size = { stepsMin: 10, stepsMax: 40, numbers: 24 };

/** So many numbers of a step say what it is; the others, what handlers do in it. */
const ownNumbers = 10;
const kinds: readonly EffectKind[] = ["provider", "close", "reopen", "lookup", "none"];
const faults = ["crash_before", "crash_after", "reply_lost", "request_lost", "not_sent"] as const;
const passes = [1_000, 5_000, 31_000, 31_000, 31_000, 31_000, 120_000, 700_000] as const;

type What = ServiceName | "request" | "settle" | "decide" | "pass";
type Standing = RecordState | "none" | "dead letter";

const anything: readonly What[] = [...services, "request", "request", "settle", "pass", "pass"];
/** What is likely to lead on from where a key is. */
const leadingOn: Readonly<Record<Standing, readonly What[]>> = {
  none: ["request"],
  pending: ["worker", "worker", "worker", "request", "pass"],
  in_progress: ["pass", "pass", "rescuer", "request", "request"],
  retryable: ["request", "rescuer", "dispatcher", "dispatcher", "pass"],
  unknown: ["reconciler", "reconciler", "settle", "pass", "request"],
  completed: ["request", "dispatcher", "dispatcher", "pass", "cleaner"],
  failed: ["request", "dispatcher", "pass", "cleaner"],
  expired: ["request", "pass", "cleaner"],
  "dead letter": ["decide", "decide", "dispatcher", "request", "pass"],
};

export async function playOperations(lane: Lane, { head, steps }: Sequence): Promise<Played> {
  const time = { nowMs: beginMs };
  const nowMs = () => time.nowMs;
  const side = await lane.begin(standingClock(nowMs));
  const choices = Choices.given(head);
  const kind = choices.pick(kinds);
  const hands = side.subjects.map((on) => new Hand(on, kind, nowMs, defineAll));
  const game = new Game(side, hands, planOf(choices), time);
  try {
    for (const step of steps) await game.step(step);
    await game.end();
    return game.played(null);
  } catch (error) {
    if (error instanceof Difference) return game.played(error);
    throw error;
  } finally {
    game.close();
    await endAll(side);
  }
}

class Game {
  readonly #hands: ReadonlyMap<Subject, Hand>;
  readonly #side: Side;
  readonly #plan: Plan;
  readonly #time: { nowMs: number };
  readonly #texts: ReadonlyMap<Subject, Texts>;
  readonly #lines: string[] = [];
  readonly #reached = new Map<string, number>();
  #begun = 0;
  readonly #hash = createHash("sha256");

  constructor(side: Side, hands: readonly Hand[], plan: Plan, time: { nowMs: number }) {
    this.#side = side;
    this.#plan = plan;
    this.#hands = new Map(hands.map((hand) => [hand.on, hand]));
    this.#texts = new Map(hands.map(({ on }) => [on, new Texts(beginMs)]));
    this.#time = time;
    this.#count(`effects: ${hands[0]?.kind}`);
  }

  played(difference: Difference | null): Played {
    const [broken, isStuck] = [difference?.message ?? null, difference?.isStuck ?? false];
    const hash = this.#hash.digest("hex");
    return { broken, isStuck, steps: this.#begun, lines: this.#lines, hash, reached: this.#reached };
  }

  close(): void {
    for (const hand of this.#hands.values()) hand.close();
  }

  async step(numbers: readonly number[]): Promise<void> {
    this.#begun += 1;
    const choices = Choices.given(numbers.slice(0, ownNumbers));
    const about = someAbout(choices, this.#plan);
    const what = choices.oneIn(4)
      ? choices.pick(anything)
      : choices.pick(leadingOn[await this.#standing(about)]);
    if (what === "pass") {
      const ms = choices.pick(passes);
      this.#lines.push(`${ms} ms pass`);
      return this.#moveTo(this.#time.nowMs + ms);
    }
    await this.#moveTo(this.#time.nowMs + 1);
    const step = stepOf(what, choices, about);
    const planned = step.mayFail ? plannedFault(choices) : null;
    await this.#make(step, planned, numbers.slice(ownNumbers));
  }

  /** Where this key is, as the first store has it, which is as good as any. */
  async #standing({ name, tenant, key }: About): Promise<Standing> {
    const [on] = this.#hands.keys();
    if (on === undefined) throw new TypeError("There is no store");
    const filter = { effect: null, tenant: null, limit: 1, after: null };
    const [dead] = (await on.store.outbox?.list({ ...filter, state: "dead" })) ?? [];
    if (dead !== undefined) return "dead letter";
    const { record } = await on.store.read({ tenant, scope: name, key });
    return record?.state ?? "none";
  }

  async #make(step: Step, planned: PlannedFault | null, numbers: readonly number[]): Promise<void> {
    const acts = new Acts(numbers);
    const what = planned === null ? step.what : `${step.what}, ${planned.fault} in call ${planned.call}`;
    this.#lines.push(what);
    const make = async (on: Subject) => {
      const hand = this.#handOf(on);
      const outcome = await hand.step(acts, planned, (process) => caught(step.act(hand, process)));
      return { outcome, met: hand.met };
    };
    const reply = await everywhere(this.#side, what, make, (on) => this.#textsOf(on));
    this.#lines.push(`  → ${reply.text}`);
    this.#hash.update(`${what}\n${reply.text}\n`);
    for (const one of countsOf(step, reply.value as Made)) this.#count(one);
    if (planned !== null && (reply.value as Made).met !== null) this.#count(`fault ${planned.fault}`);
  }

  /** Everything is the same at the end. */
  async end(): Promise<void> {
    const look = async (on: Subject) => ({
      ...(await lookAt(on)),
      downstream: this.#handOf(on).downstream.all(),
    });
    const end = await everywhere(this.#side, "the end", look, (on) => this.#textsOf(on));
    this.#hash.update(end.text);
    for (const record of (end.value as { readonly records: readonly { readonly state: string }[] }).records) {
      this.#count(`ends ${record.state}`);
    }
  }

  async #moveTo(ms: number): Promise<void> {
    this.#time.nowMs = ms;
    await Promise.all([...this.#hands.keys()].map((on) => on.setTime(ms)));
  }

  #handOf(on: Subject): Hand {
    const hand = this.#hands.get(on);
    if (hand === undefined) throw new TypeError(`Nobody works on ${on.name}`);
    return hand;
  }

  #textsOf(on: Subject): Texts {
    return this.#texts.get(on) ?? new Texts(beginMs);
  }

  #count(what: string): void {
    this.#reached.set(what, (this.#reached.get(what) ?? 0) + 1);
  }
}

function stepOf(what: Exclude<What, "pass">, choices: Choices, about: About): Step {
  switch (what) {
    case "request":
      return request(choices, about);
    case "settle":
      return settlement(choices, about);
    case "decide":
      return deadLetter(choices);
    default:
      return round(what);
  }
}

function plannedFault(choices: Choices): PlannedFault | null {
  if (!choices.oneIn(4)) return null;
  return { fault: choices.pick(faults), call: 1 + choices.choose(10) };
}

interface Made {
  readonly outcome: unknown;
  readonly met: string | null;
}

/** The reply; of an error, its name: the words are the database's own. */
async function caught(acting: Promise<unknown>): Promise<unknown> {
  try {
    return await acting;
  } catch (error) {
    const { name, code } = error as { readonly name: string; readonly code?: unknown };
    return { kind: "threw", name, code: code ?? null };
  }
}

function countsOf({ kind }: Step, { outcome }: Made): readonly string[] {
  if (typeof outcome !== "object" || outcome === null)
    return [`${kind}: ${outcome === null ? "nothing" : outcome}`];
  if ("kind" in outcome) return [`${kind}: ${outcome.kind}`];
  return Object.entries(outcome).flatMap(([what, count]) => (Number(count) > 0 ? [`${kind}: ${what}`] : []));
}
