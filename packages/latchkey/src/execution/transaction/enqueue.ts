/** Effects that a transaction or a phase enqueues: collected while its work runs, written with its COMMIT. */

import { AsyncLocalStorage } from "node:async_hooks";
import { downstreamKey } from "../../effects/downstream-key.ts";
import type { Effect } from "../../effects/effect.ts";
import type { LatchkeyRecord } from "../../engine/record.ts";
import { checkOptions, type OptionNames } from "../../known-options.ts";
import type { Enqueue, Enqueued, EnqueueOptions } from "../../operations/attempt.ts";
import type { NewEffect } from "../../stores/outbox.ts";
import { isStorable } from "../../stores/storable.ts";
import type { TraceSpan } from "../../telemetry/tracing.ts";
import { traceOf } from "../attempt-span.ts";
import type { Runtime } from "../runtime.ts";
import { codecContext, encodeJson } from "../stored-values.ts";

/** Each effect is a separate statement before COMMIT. */
const effectsMax = 1_000;
const aggregateLengthMax = 200;
const delayMaxMs = 365 * 24 * 60 * 60 * 1_000;

/** Shared by all work that enqueues nothing. */
export const noEffects: readonly NewEffect[] = [];

/** Where effects are enqueued. */
export interface EnqueuePlace {
  readonly recordId: string;
  /** Name of the phase; empty in a transaction. */
  readonly step: string;
  /** The time in new ids: the store's, if it is known. */
  readonly now: number;
  /** The attempt's span, if the service is traced. */
  readonly span: TraceSpan | undefined;
}

type Draft = Omit<NewEffect, "input"> & { readonly plainInput: Uint8Array };

/** The effects of one run of a handler or a phase: a rerun has a new list. */
export class EffectList<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #place: EnqueuePlace;
  #drafts: Draft[] | null = null;
  #closed = false;

  constructor(runtime: Runtime<Tx>, place: EnqueuePlace) {
    this.#runtime = runtime;
    this.#place = place;
  }

  get isEmpty(): boolean {
    return this.#drafts === null;
  }

  /** Names of the effects' definitions. */
  names(): readonly string[] {
    return (this.#drafts ?? []).map(({ effect }) => effect);
  }

  /** Effects enqueued later would not be part of any COMMIT. */
  close(): void {
    this.#closed = true;
  }

  /**
   * @throws {TypeError} when the work is over, the effect does not belong to this latchkey, the input has no JSON form, or an
   * option is out of range.
   */
  enqueue<I, R>(effect: Effect<I, R>, input: I, options: EnqueueOptions = {}): Enqueued {
    const { effects, ports } = this.#runtime;
    const { name } = effect;
    if (this.#closed)
      throw new TypeError(`Effect ${name} was enqueued after its transaction's work was over`);
    if (effects.get(name) !== (effect as unknown)) {
      throw new TypeError(`Effect ${name} was not made by this latchkey's effect()`);
    }
    const { aggregate, delayMs } = checkedOptions(effect, options);
    const plainInput = encodeJson(`The input of effect ${name}`, input);
    this.#drafts ??= [];
    const index = this.#drafts.length;
    if (index >= effectsMax) throw new TypeError(`A transaction may enqueue at most ${effectsMax} effects`);
    const { recordId, step, now, span } = this.#place;
    const key = downstreamKey({ recordId, step, effect: name, index, generation: 0 });
    const id = ports.random.uuid(now);
    const { ordered } = effect.settings.delivery;
    this.#drafts.push({
      id,
      effect: name,
      downstreamKey: key,
      step,
      index,
      aggregate,
      ordered,
      delayMs,
      plainInput,
      ...traceOf(span),
    });
    return { id, key };
  }

  /** As they are written, encoded by the codec in the context of their record. */
  async encoded(
    record: Pick<LatchkeyRecord, "tenant" | "scope" | "key" | "id" | "fingerprint">,
  ): Promise<readonly NewEffect[]> {
    if (this.#drafts === null) return noEffects;
    const effects: NewEffect[] = [];
    for (const { plainInput, ...draft } of this.#drafts) {
      const part = `effect-input:${draft.effect}:${draft.id}` as const;
      const context = codecContext(record, record.id, record.fingerprint.digest, part);
      effects.push({ ...draft, input: await this.#runtime.codec.encode(plainInput, context) });
    }
    return effects;
  }
}

const enqueueOptionNames = { aggregate: true, delayMs: true } as const satisfies OptionNames<EnqueueOptions>;

function checkedOptions<I, R>(
  { name, settings }: Effect<I, R>,
  options: EnqueueOptions,
): { readonly aggregate: string | null; readonly delayMs: number } {
  checkOptions(`Effect ${name}: enqueue`, options, enqueueOptionNames);
  const { aggregate, delayMs = 0 } = options;
  if (!Number.isSafeInteger(delayMs) || delayMs < 0 || delayMs > delayMaxMs) {
    throw new TypeError(
      `Effect ${name}: delayMs must be a whole number from 0 to ${delayMaxMs} (got ${delayMs})`,
    );
  }
  if (aggregate === undefined) {
    if (settings.delivery.ordered) throw new TypeError(`Effect ${name} is ordered, so it needs an aggregate`);
    return { aggregate: null, delayMs };
  }
  const fits =
    typeof aggregate === "string" && aggregate.length > 0 && aggregate.length <= aggregateLengthMax;
  if (!fits || !isStorable(aggregate)) {
    throw new TypeError(
      `Effect ${name}: an aggregate must have 1 to ${aggregateLengthMax} characters, none of them NUL`,
    );
  }
  return { aggregate, delayMs };
}

/** For attempts without a transaction of Latchkey's. */
export const enqueueNowhere: Enqueue = ({ name }) => {
  throw new TypeError(
    `Effect ${name} was enqueued outside a transaction: enqueue under \`transaction\` execution, or inside attempt.phase or attempt.finish`,
  );
};

/** The phase and attempt that some work belongs to, even if the work outlives its phase. */
const frames = new AsyncLocalStorage<{ readonly of: object; readonly list: object }>();

/** An attempt in steps enqueues in the calling phase. */
export class PhaseEffects<Tx> {
  #last: EffectList<Tx> | null = null;

  /** Runs a phase's work, whose effects go into this list. */
  inside<T>(list: EffectList<Tx>, work: () => T): T {
    this.#last = list;
    return frames.run({ of: this, list }, work);
  }

  readonly enqueue: Enqueue = (effect, input, options) => {
    const frame = frames.getStore();
    // Work that lost its context counts as part of the running phase; a closed list refuses it.
    const list = frame?.of === this ? (frame.list as EffectList<Tx>) : this.#last;
    return list === null ? enqueueNowhere(effect, input) : list.enqueue(effect, input, options);
  };
}
