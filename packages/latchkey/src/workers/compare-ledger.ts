/** Compares a provider's objects with our records. The check does not depend on the correctness of Latchkey. */

import { recordIdOf } from "../effects/downstream-key.ts";
import type { Effect } from "../effects/effect.ts";
import type { RecordKey } from "../engine/record.ts";
import type { Runtime } from "../execution/runtime.ts";
import { plainJson } from "../execution/steps/attempt-context.ts";
import { codecContext, decodeJson } from "../execution/stored-values.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { FinishedCallsQuery, JournalCall } from "../stores/journal.ts";
import type { EffectKey, OutboxEffect, OutboxSupport } from "../stores/outbox.ts";

/** An object of the provider, with the key that we sent. */
export interface LedgerObject {
  readonly key: string;
}

export interface LedgerComparison<I, R, O extends LedgerObject> {
  readonly effect: Effect<I, R>;
  /**
   * The provider's objects. Begin slightly before `from` and end slightly after `to`: the clocks differ, and a call may finish
   * here some time after it happened there.
   */
  readonly objects: AsyncIterable<O>;
  /** Calls that finished and effects that were delivered here from this time on (milliseconds since the Unix epoch) … */
  readonly from: number;
  /** … and before this one must be among `objects`. */
  readonly to: number;
  /** Whether an object agrees with the call's result. Default: the key is enough. */
  readonly matches?: (object: O, result: R) => boolean;
}

const comparisonNames = {
  effect: true,
  objects: true,
  from: true,
  to: true,
  matches: true,
} as const satisfies OptionNames<LedgerComparison<never, never, never>>;

/** A call of ours, or a delivery from the outbox. */
export interface LedgerCall {
  readonly downstreamKey: string;
  readonly record: RecordKey;
  readonly recordId: string;
  /** The step's name; for a delivery, that of the phase that enqueued it, or empty for a `transaction`. */
  readonly step: string;
}

export interface LedgerReport<O> {
  readonly matched: number;
  /** Finished here, but not among the objects. */
  readonly missing: readonly LedgerCall[];
  /** Objects whose key belongs to no call or effect of ours, and further objects with the same key. */
  readonly extra: readonly O[];
  /** Known on both sides but different: another result, another effect, or not finished here. */
  readonly mismatched: readonly { readonly object: O; readonly call: LedgerCall; readonly state: string }[];
}

const pageSize = 500;

/** A call of a step, or a delivery from the outbox. */
interface Sent extends LedgerCall {
  readonly effect: string;
  readonly state: string;
  /** Whether it has finished here, with a result or a delivery. */
  readonly happened: boolean;
  /** Reads its result; null: none was stored, as for an effect that an operator discarded. */
  readonly result: (() => Promise<unknown>) | null;
}

export async function compareLedger<Tx, I, R, O extends LedgerObject>(
  runtime: Runtime<Tx>,
  comparison: LedgerComparison<I, R, O>,
): Promise<LedgerReport<O>> {
  checkOptions("compareLedger", comparison, comparisonNames);
  const seen = new Set<string>();
  const report = {
    matched: 0,
    missing: [] as LedgerCall[],
    extra: [] as O[],
    mismatched: [] as Mismatch<O>[],
  };
  for await (const page of pagesOf(comparison.objects)) {
    const byKey = await sentUnder(
      runtime,
      page.map(({ key }) => key),
    );
    for (const object of page) {
      const twice = seen.has(object.key);
      seen.add(object.key);
      const sent = byKey.get(object.key);
      if (sent === undefined || twice) report.extra.push(object);
      else if (await agrees(comparison, object, sent)) report.matched += 1;
      else report.mismatched.push({ object, call: named(sent), state: sent.state });
    }
  }
  for await (const sent of allFinished(runtime, comparison)) {
    if (!seen.has(sent.downstreamKey)) report.missing.push(named(sent));
  }
  return report;
}

type Mismatch<O> = LedgerReport<O>["mismatched"][number];

function named({ downstreamKey, record, recordId, step }: Sent): LedgerCall {
  return { downstreamKey, record, recordId, step };
}

async function sentUnder<Tx>(
  runtime: Runtime<Tx>,
  keys: readonly string[],
): Promise<ReadonlyMap<string, Sent>> {
  const { journal, outbox } = runtime.store;
  const calls = await journal.callsByDownstreamKey(keys);
  const found = new Map(calls.map((call) => [call.step.downstreamKey, sentCall(runtime, call)]));
  if (outbox === null) return found;
  const left = keys
    .filter((key) => !found.has(key))
    .flatMap((downstreamKey) => {
      const recordId = recordIdOf(downstreamKey);
      return recordId === null ? [] : [{ recordId, downstreamKey }];
    });
  for (const effect of left.length === 0 ? [] : await effectsUnder(outbox, left)) {
    found.set(effect.downstreamKey, sentEffect(runtime, effect));
  }
  return found;
}

async function effectsUnder(
  outbox: OutboxSupport,
  keys: readonly EffectKey[],
): Promise<readonly OutboxEffect[]> {
  if (outbox.byDownstreamKey !== undefined) return outbox.byDownstreamKey(keys);
  const effects: OutboxEffect[] = [];
  for (const recordId of new Set(keys.map((one) => one.recordId))) {
    effects.push(...(await outbox.ofRecord(recordId)));
  }
  const wanted = new Set(keys.map((one) => one.downstreamKey));
  return effects.filter((effect) => wanted.has(effect.downstreamKey));
}

function sentCall<Tx>(runtime: Runtime<Tx>, { key, recordId, fingerprint, step }: JournalCall): Sent {
  const { downstreamKey, effect, state, name, result } = step;
  const record = { ...key, id: recordId, fingerprint: { version: 0, digest: fingerprint } };
  const stored =
    state === "finished" && result !== null
      ? () => plainJson(runtime, record, `step-result:${name}`, result)
      : null;
  const happened = stored !== null;
  return { downstreamKey, record: key, recordId, step: name, effect, state, happened, result: stored };
}

function sentEffect<Tx>({ codec }: Runtime<Tx>, row: OutboxEffect): Sent {
  const { downstreamKey, tenant, scope, key, recordId, step, effect, state, result } = row;
  const context = codecContext(row, recordId, row.fingerprint, `effect-result:${effect}:${row.id}`);
  const stored = result === null ? null : async () => decodeJson(await codec.decode(result, context));
  const happened = state === "delivered";
  const record = { tenant, scope, key };
  return { downstreamKey, record, recordId, step, effect, state, happened, result: stored };
}

async function agrees<I, R, O extends LedgerObject>(
  { effect, matches }: LedgerComparison<I, R, O>,
  object: O,
  sent: Sent,
): Promise<boolean> {
  if (sent.effect !== effect.name || !sent.happened) return false;
  if (matches === undefined) return true;
  return sent.result !== null && matches(object, (await sent.result()) as R);
}

async function* pagesOf<O>(objects: AsyncIterable<O>): AsyncGenerator<readonly O[]> {
  let page: O[] = [];
  for await (const object of objects) {
    page.push(object);
    if (page.length < pageSize) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

type Window = Pick<LedgerComparison<never, unknown, never>, "from" | "to"> & {
  readonly effect: { readonly name: string };
};

/** Discarded effects may not have happened, so they are not reported as missing. */
async function* allFinished<Tx>(runtime: Runtime<Tx>, window: Window): AsyncGenerator<Sent> {
  const { journal, outbox } = runtime.store;
  const calls = pagesSince(window, async (query) =>
    (await journal.finishedCalls(query)).map((call) => ({
      sent: sentCall(runtime, call),
      finishedAt: call.step.finishedAt,
    })),
  );
  yield* calls;
  const effects = pagesSince(window, async (query) =>
    ((await outbox?.finished?.(query)) ?? []).map((effect) => ({
      sent: sentEffect(runtime, effect),
      finishedAt: effect.finishedAt,
    })),
  );
  for await (const sent of effects) if (sent.result !== null) yield sent;
}

async function* pagesSince(
  { effect, from, to }: Window,
  read: (
    query: FinishedCallsQuery,
  ) => Promise<readonly { readonly sent: Sent; readonly finishedAt: number | null }[]>,
): AsyncGenerator<Sent> {
  let after: FinishedCallsQuery["after"] = null;
  for (;;) {
    const page = await read({ effect: effect.name, from, to, limit: pageSize, after });
    for (const { sent } of page) yield sent;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return;
    after = { finishedAt: last.finishedAt ?? to, downstreamKey: last.sent.downstreamKey };
  }
}
