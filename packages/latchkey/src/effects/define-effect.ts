/** Defines an effect: resolves and checks every option. */

import { checkOptions, type OptionNames } from "../known-options.ts";
import { timerMaxMs } from "../ports.ts";
import { isStorable } from "../stores/storable.ts";
import type {
  DeliveryOptions,
  Effect,
  EffectLimits,
  EffectOptions,
  EffectSettings,
  RetryOptions,
} from "./effect.ts";

/**
 * Resolves and checks an effect.
 *
 * @throws {TypeError} when an option is missing, out of range, or belongs to another kind of deduplication.
 */
export function defineEffect<I, R, Tx>(name: string, options: EffectOptions<I, R, Tx>): Effect<I, R> {
  if (typeof name !== "string" || name.length === 0 || name.length > 200 || !isStorable(name)) {
    throw new TypeError(
      `An effect's name has 1 to 200 characters, none of them NUL (got ${JSON.stringify(name)})`,
    );
  }
  checkOptions(`Effect ${name}`, options, effectOptions);
  checkNames(name, options as unknown as EffectOptions<never, never, never>);
  const settings = resolveSettings(options);
  checkSettings(name, settings);
  return Object.freeze({ name, settings: Object.freeze(settings) });
}

const effectOptions = {
  deduplication: true,
  dedupeWindowMs: true,
  execute: true,
  lookup: true,
  close: true,
  reopen: true,
  isNotExecuted: true,
  isRefused: true,
  retry: true,
  limits: true,
  delivery: true,
  onDelivered: true,
} as const satisfies OptionNames<EffectOptions<never, never, never>>;
const retryOptions = {
  attempts: true,
  backoffMs: true,
  backoffMaxMs: true,
} as const satisfies OptionNames<RetryOptions>;
const limitOptions = {
  timeoutMs: true,
  concurrency: true,
  perSecond: true,
} as const satisfies OptionNames<EffectLimits>;
const deliveryOptions = {
  attemptsMax: true,
  backoffMs: true,
  backoffMaxMs: true,
  ordered: true,
  keepMs: true,
} as const satisfies OptionNames<DeliveryOptions>;

function checkNames(name: string, options: EffectOptions<never, never, never>): void {
  const { retry = {}, limits = {}, delivery = {} } = options;
  checkOptions(`Effect ${name}: retry`, retry, retryOptions);
  checkOptions(`Effect ${name}: limits`, limits, limitOptions);
  checkOptions(`Effect ${name}: delivery`, delivery, deliveryOptions);
}

const no = () => false;

const day = 24 * 60 * 60 * 1_000;

function resolveSettings<I, R, Tx>(options: EffectOptions<I, R, Tx>): EffectSettings<I, R> {
  const { retry = {}, limits = {}, delivery = {} } = options;
  return {
    deduplication: options.deduplication,
    dedupeWindowMs: options.dedupeWindowMs ?? null,
    execute: options.execute,
    lookup: options.lookup ?? null,
    close: options.close ?? null,
    reopen: options.reopen ?? false,
    isNotExecuted: options.isNotExecuted ?? no,
    isRefused: options.isRefused ?? no,
    retry: {
      attempts: retry.attempts ?? 3,
      backoffMs: retry.backoffMs ?? 200,
      backoffMaxMs: retry.backoffMaxMs ?? 5_000,
    },
    limits: {
      timeoutMs: limits.timeoutMs ?? 10_000,
      concurrency: limits.concurrency ?? null,
      perSecond: limits.perSecond ?? null,
    },
    delivery: {
      attemptsMax: delivery.attemptsMax ?? 20,
      backoffMs: delivery.backoffMs ?? 1_000,
      backoffMaxMs: delivery.backoffMaxMs ?? 300_000,
      ordered: delivery.ordered ?? false,
      keepMs: delivery.keepMs ?? day,
    },
    onDelivered: options.onDelivered ?? null,
  };
}

function checkSettings<I, R>(name: string, settings: EffectSettings<I, R>): void {
  checkKind(name, settings);
  checkFunctions(name, settings);
  checkNumbers(name, settings);
}

function checkKind<I, R>(name: string, settings: EffectSettings<I, R>): void {
  const { deduplication, dedupeWindowMs, lookup, close, reopen } = settings;
  const refuse = (why: string): never => {
    throw new TypeError(`Effect ${name}: ${why}`);
  };
  switch (deduplication) {
    case "provider":
      if (dedupeWindowMs === null) refuse("deduplication `provider` needs dedupeWindowMs");
      if (lookup !== null || close !== null) refuse("lookup and close are only for deduplication `lookup`");
      break;
    case "lookup":
      if (lookup === null) refuse("deduplication `lookup` needs a lookup function");
      if (dedupeWindowMs !== null) refuse("dedupeWindowMs is only for deduplication `provider`");
      break;
    case "none":
      if (lookup !== null || close !== null || dedupeWindowMs !== null)
        refuse("deduplication `none` has no lookup, close or dedupeWindowMs");
      break;
    default:
      refuse(`deduplication must be provider, lookup or none (got ${String(deduplication satisfies never)})`);
  }
  if (reopen && close === null) refuse("reopen needs close: only a closed call may be made again");
}

function checkFunctions<I, R>(name: string, settings: EffectSettings<I, R>): void {
  for (const field of ["execute", "isNotExecuted", "isRefused"] as const) {
    if (typeof settings[field] !== "function")
      throw new TypeError(`Effect ${name}: ${field} must be a function`);
  }
  if (settings.onDelivered !== null && typeof settings.onDelivered !== "function") {
    throw new TypeError(`Effect ${name}: onDelivered must be a function`);
  }
}

function checkNumbers<I, R>(
  name: string,
  { dedupeWindowMs, retry, limits, delivery }: EffectSettings<I, R>,
): void {
  const { ordered, keepMs, ...deliveryNumbers } = delivery;
  if (typeof ordered !== "boolean") throw new TypeError(`Effect ${name}: ordered must be true or false`);
  for (const values of [{ dedupeWindowMs }, retry, limits, deliveryNumbers]) {
    for (const [field, value] of Object.entries(values)) {
      if (value === null) continue;
      if (!Number.isSafeInteger(value) || value <= 0) {
        throw new TypeError(`Effect ${name}: ${field} must be a positive whole number (got ${value})`);
      }
    }
  }
  if (!Number.isSafeInteger(keepMs) || keepMs < 0) {
    throw new TypeError(`Effect ${name}: keepMs must be a whole number, 0 or more (got ${keepMs})`);
  }
  if (Math.max(limits.timeoutMs, retry.backoffMs, retry.backoffMaxMs) > timerMaxMs) {
    throw new TypeError(`Effect ${name}: times must be at most ${timerMaxMs} ms`);
  }
}
