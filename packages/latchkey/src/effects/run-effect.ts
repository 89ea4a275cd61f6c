/** Runs an effect's functions within their limits, and decides what a send proves. */

import { EffectRefused, isLatchkeyError } from "../errors.ts";
import type { Clock } from "../ports.ts";
import { type Limited, withLimit } from "../time/time-limit.ts";
import type { Effect, EffectCall } from "./effect.ts";
import { createSemaphore, type Semaphore } from "./semaphore.ts";

/** Any effect: only its own functions know the types of its input and result. */
export type AnyEffect = Effect<never, unknown>;

export type Sent =
  | { readonly kind: "returned"; readonly value: unknown }
  /** The other service's final word. */
  | { readonly kind: "refused"; readonly refusal: EffectRefused }
  /** This send provably did nothing. */
  | { readonly kind: "not_executed"; readonly error: unknown }
  | { readonly kind: "in_doubt"; readonly error: unknown };

/** What an error of a send proves. A predicate that throws or returns a promise proves nothing. */
export function judge({ settings }: AnyEffect, error: unknown): Sent {
  if (hasCode(error, "effect-refused")) return { kind: "refused", refusal: error as EffectRefused };
  if (says(settings.isRefused, error)) {
    const message = error instanceof Error ? error.message : String(error);
    return {
      kind: "refused",
      refusal: new EffectRefused({ message, cause: error, detail: detailOf(error) }),
    };
  }
  const proven = hasCode(error, "not-executed") || says(settings.isNotExecuted, error);
  return proven ? { kind: "not_executed", error } : { kind: "in_doubt", error };
}

function hasCode(error: unknown, code: string): boolean {
  return isLatchkeyError(error) && error.code === code;
}

function says(judgement: (error: unknown) => boolean, error: unknown): boolean {
  try {
    return judgement(error) === true;
  } catch {
    return false;
  }
}

function detailOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "detail" in error ? error.detail : undefined;
}

export interface Asking {
  readonly effect: AnyEffect;
  /** The downstream key. */
  readonly key: string;
  /** Aborts when the caller must stop; without it only the time limit ends the call. */
  readonly signal?: AbortSignal;
}

/** Runs one of an effect's functions within its time limit. Never rejects. */
export async function runEffect<T>(
  clock: Clock,
  asking: Asking,
  act: (call: EffectCall) => Promise<T>,
): Promise<Limited<T>> {
  const call = callOf(asking.key);
  const acting = startNow(act, call.given);
  const ran = await withinLimit(clock, asking, acting);
  if (ran.kind === "timed_out") giveUp(asking, call, acting, nothing);
  return ran;
}

function withinLimit<T>(clock: Clock, { effect, signal }: Asking, acting: Promise<T>): Promise<Limited<T>> {
  return withLimit(clock, effect.settings.limits.timeoutMs, () => acting, signal);
}

function giveUp<T>(
  { effect }: Asking,
  call: ReturnType<typeof callOf>,
  acting: Promise<T>,
  late: (value: T) => void,
): void {
  acting.then(late, nothing);
  call.giveUp(
    new Error(`Effect ${effect.name} was given up: its time limit is over, or its caller has stopped`),
  );
}

/** Sends once. `late` gets the value that a send returns after it was given up. Never rejects. */
export async function sendEffect(
  clock: Clock,
  asking: Asking,
  input: unknown,
  late: (value: unknown) => void = nothing,
): Promise<Sent> {
  const { effect } = asking;
  const call = callOf(asking.key);
  const acting = startNow(effect.settings.execute as Execute, input, call.given);
  const ran = await withinLimit(clock, asking, acting);
  if (ran.kind === "timed_out") giveUp(asking, call, acting, late);
  switch (ran.kind) {
    case "returned":
      return ran;
    case "threw":
      return judge(effect, ran.error);
    case "timed_out":
      return { kind: "in_doubt", error: new Error(`Effect ${effect.name} took longer than its limit`) };
    default:
      return ran satisfies never;
  }
}

/** A signal costs more than the rest of a call, so it is created on first use. */
function callOf(key: string): { readonly given: EffectCall; readonly giveUp: (reason: Error) => void } {
  let abort: AbortController | null = null;
  const controller = () => {
    abort ??= new AbortController();
    return abort;
  };
  const given = {
    key,
    get signal() {
      return controller().signal;
    },
  };
  return { given, giveUp: (reason) => controller().abort(reason) };
}

type Execute = (input: unknown, call: EffectCall) => Promise<unknown>;

/** Turns a synchronous exception into a rejection, and a thenable into a promise. */
function startNow<T, A extends readonly unknown[]>(
  act: (...given: A) => Promise<T>,
  ...given: A
): Promise<T> {
  try {
    const acting = act(...given);
    return acting instanceof Promise ? acting : Promise.resolve(acting);
  } catch (error) {
    return Promise.reject(error);
  }
}

const semaphores = new WeakMap<AnyEffect, Semaphore>();

/** Waits for a permit of the effect's concurrency limit in this process. Null: `signal` aborted first. */
export async function takePermit(effect: AnyEffect, signal: AbortSignal): Promise<(() => void) | null> {
  const semaphore = semaphoreOf(effect);
  return semaphore === null ? () => {} : semaphore.take(signal);
}

function nothing(): void {}

/** All callers and dispatchers of an effect in one process share its semaphore. Null: there is no limit. */
export function semaphoreOf(effect: AnyEffect): Semaphore | null {
  const limit = effect.settings.limits.concurrency;
  if (limit === null) return null;
  const semaphore = semaphores.get(effect) ?? createSemaphore(limit);
  semaphores.set(effect, semaphore);
  return semaphore;
}
