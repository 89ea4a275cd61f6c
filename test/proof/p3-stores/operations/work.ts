/** The operations of a sequence, as each process defines them, and what their handlers do. */

import type { EffectOptions } from "../../../../packages/latchkey/src/effects/effect.ts";
import { EffectRefused, NotExecuted } from "../../../../packages/latchkey/src/errors.ts";
import type { Answer } from "../../../../packages/latchkey/src/operations/answer.ts";
import type { Work } from "../../../../packages/latchkey/src/operations/attempt.ts";
import type {
  DeferredAttempt,
  LookedUp,
  LookupQuestion,
  RunAnswer,
} from "../../../../packages/latchkey/src/operations/owned-work.ts";
import type { Charge, SendInput } from "./downstream.ts";
import type { Hand, Process } from "./hand.ts";

const second = 1_000;
const retention = { retentionMs: 600 * second, forgetAfterMs: 1_200 * second };
const leaseMs = 30 * second;
/** Longer than any pause that is over by itself. */
const timeoutMs = 5 * second;

export const operationNames = ["tx", "lease", "rerun", "steps", "deferred", "answered"] as const;
export type OperationName = (typeof operationNames)[number];

/** What an operation that owns its work is given. */
export interface StepsInput {
  readonly place: string;
}

/** What goes wrong in a handler, on purpose. */
class HandlerError extends Error {}

type Options = EffectOptions<SendInput, Charge, unknown>;

export function defineAll(hand: Hand, process: Process): void {
  const { latchkey, operations, effects } = process;
  const effect = (name: string, options: Options) =>
    effects.set(name, latchkey.effect<SendInput, Charge>(name, options));
  effect("charge", sends(hand, "charge"));
  effect("mail", sends(hand, "mail"));
  effect("answer", { ...sends(hand, "answer"), onDelivered: answering(hand) });
  const leased = { ...retention, leaseMs, execution: "lease" } as const;
  const ofSteps = { ...retention, leaseMs, version: "1", attemptsMax: 3 } as const;
  operations.set("tx", latchkey.operation("tx", { ...retention, execution: "transaction" }));
  operations.set(
    "lease",
    latchkey.operation("lease", { ...leased, lookup: (question) => lookedUp(hand, question) }),
  );
  operations.set("rerun", latchkey.operation("rerun", { ...leased, leaseEnd: "rerun", attemptsMax: 2 }));
  const run = (input: StepsInput, attempt: unknown) => steps(hand, process, input, attempt as Attempt);
  operations.set(
    "steps",
    latchkey.operation("steps", { ...ofSteps, execution: "lease", leaseEnd: "resume", run }),
  );
  const deferred = { ...ofSteps, execution: "deferred", pendingLimitMs: 300 * second } as const;
  operations.set("deferred", latchkey.operation("deferred", { ...deferred, run }));
  const answered = (input: StepsInput, attempt: unknown) =>
    handedOn(hand, process, input, attempt as Attempt);
  operations.set("answered", latchkey.operation("answered", { ...deferred, run: answered }));
}

type Attempt = DeferredAttempt<unknown>;

function answerOf(status: number, text: string): Answer {
  return { status, headers: [["x-place", text]], body: Buffer.from(text), omitted: null };
}

/** Kept refusals, errors before and after the writes, answers of each class, and effects. */
export function transactionWork(hand: Hand, process: Process, place: string): Work<unknown, "transaction"> {
  return async ({ tx, attempt }) => {
    const act = hand.acts.choose(14, "tx", place);
    if (act === 1) throw new HandlerError("before its writes");
    if (act === 2) return answerOf(422, place);
    await hand.on.write(tx, `tx ${place}`);
    if (act === 3) throw new HandlerError("after its writes");
    if (act === 4) attempt.release();
    if (act === 5) attempt.retain({ retentionMs: 5 * second });
    if (act >= 8)
      attempt.enqueue(
        effectNamed(process, "mail"),
        { place: `mail of ${place}` },
        { delayMs: (act % 2) * second },
      );
    const statuses: Readonly<Record<number, number>> = { 6: 500, 7: 429, 13: 404 };
    return answerOf(statuses[act] ?? 201, place);
  };
}

export function leaseWork(hand: Hand, place: string): Work<unknown, "lease"> {
  return async ({ attempt }) => {
    const act = hand.acts.choose(12, "lease", place, attempt.fence.attempt);
    if (act === 1) throw new NotExecuted({ message: "nothing happened" });
    if (act === 2) return answerOf(422, place);
    if (act === 3) attempt.release();
    if (act === 4) throw new HandlerError("before it did anything");
    if (act === 5) return hand.die();
    hand.downstream.act(attempt.id);
    if (act === 6) throw new HandlerError("after it was done");
    if (act === 7 || act === 8) return hand.die();
    return answerOf(act === 9 ? 500 : 201, place);
  };
}

/** The other side knows what a handler did there, and can see to it that it does no more. */
async function lookedUp(hand: Hand, { recordId, key }: LookupQuestion): Promise<LookedUp> {
  if (hand.acts.oneIn(4, "look up", key.key)) return { kind: "still_unknown" };
  if (hand.downstream.actedFor(recordId)) {
    return { kind: "completed", answer: { status: 201, body: { found: key.key } } };
  }
  return { kind: "not_executed", proof: "closed-downstream" };
}

/** Phase, call, and a last phase that completes or does not. */
async function steps(
  hand: Hand,
  process: Process,
  { place }: StepsInput,
  attempt: Attempt,
): Promise<RunAnswer> {
  const { fence } = attempt;
  const first = await attempt.phase("first", (tx) =>
    phase(hand, process, { place, attempt, step: "first", tx }),
  );
  if (hand.acts.oneIn(8, "after first", place, fence.attempt)) return hand.die();
  const charge = await attempt.call("charged", effectNamed(process, "charge"), { place });
  if (hand.acts.oneIn(8, "after charged", place, fence.attempt)) return hand.die();
  const answer = { status: 201, body: { first, charge: charge.number } };
  const last = (tx: unknown) => phase(hand, process, { place, attempt, step: "last", tx });
  if (hand.acts.oneIn(2, "finish", place)) return attempt.finish("last", (tx) => last(tx).then(() => answer));
  await attempt.phase("last", last);
  return answer;
}

/** The answer comes with a delivery. */
async function handedOn(
  hand: Hand,
  process: Process,
  { place }: StepsInput,
  attempt: Attempt,
): Promise<RunAnswer> {
  await attempt.phase("first", async (tx) => {
    await hand.on.write(tx, `first ${place}`);
    attempt.enqueue(effectNamed(process, "answer"), { place });
  });
  if (hand.acts.oneIn(6, "after first", place, attempt.fence.attempt)) return hand.die();
  return attempt.answeredBy(effectNamed(process, "answer"));
}

interface PhaseOf {
  readonly place: string;
  readonly step: string;
  readonly attempt: Attempt;
  readonly tx: unknown;
}

async function phase(hand: Hand, process: Process, { place, step, attempt, tx }: PhaseOf): Promise<string> {
  const act = hand.acts.choose(10, step, place, attempt.fence.attempt);
  if (act === 1) throw new HandlerError(`in phase ${step}`);
  await hand.on.write(tx, `${step} ${place}`);
  if (act === 2) throw new HandlerError(`in phase ${step}, after its writes`);
  if (act >= 8) attempt.enqueue(effectNamed(process, "mail"), { place: `mail of ${step} ${place}` });
  return `${step} ${place}`;
}

function effectNamed({ effects }: Process, name: string) {
  const effect = effects.get(name);
  if (effect === undefined) throw new TypeError(`There is no effect ${name}`);
  return effect;
}

function answering(hand: Hand): NonNullable<Options["onDelivered"]> {
  return async ({ input, result, answer }, tx) => {
    await hand.on.write(tx, `delivered ${input.place}`);
    if (hand.acts.oneIn(6, "on delivered", input.place)) throw new HandlerError("while it was answered");
    answer({ status: 201, body: { delivered: result.number } });
  };
}

function sends(hand: Hand, name: string): Options {
  const { downstream, kind } = hand;
  const isCall = name === "charge";
  const execute: Options["execute"] = async (input, { key }) => {
    const act = hand.acts.choose(14, name, input.place);
    if (act === 1) throw new Error("socket hang up, before it arrived");
    if (act === 2) throw new NotExecuted({ message: "refused to connect" });
    if (act === 3) throw new EffectRefused({ message: "declined", detail: { declined: true } });
    if (act === 4 && isCall) return hand.die();
    const charge = downstream.charge(key, input);
    if (act === 5 || act === 6) throw new Error("socket hang up, after it arrived");
    if (act === 7 && isCall) return hand.die();
    return charge;
  };
  const base = {
    execute,
    retry: { attempts: 2, backoffMs: 10, backoffMaxMs: 10 },
    limits: { timeoutMs },
    delivery: { attemptsMax: 3, backoffMs: 2 * second, backoffMaxMs: 4 * second, keepMs: 600 * second },
  };
  const lookup = async (_: SendInput, { key }: { readonly key: string }) => {
    const found = downstream.find(key);
    return found === null ? null : { found };
  };
  const close = async (_: SendInput, { key }: { readonly key: string }) => downstream.close(key);
  switch (kind) {
    case "provider":
      return { ...base, deduplication: "provider", dedupeWindowMs: 3_600 * second };
    case "lookup":
      return { ...base, deduplication: "lookup", lookup };
    case "close":
      return { ...base, deduplication: "lookup", lookup, close };
    case "reopen":
      return { ...base, deduplication: "lookup", lookup, close, reopen: true };
    case "none":
      return { ...base, deduplication: "none" };
    default:
      return kind satisfies never;
  }
}
