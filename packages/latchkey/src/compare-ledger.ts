/** Comparing what the other side has with what we know: the check that needs nothing of ours to be right. */
import { plainJson } from "./attempt/owned-run.ts";
import type { Runtime } from "./attempt/runtime.ts";
import type { Effect } from "./effects/effect.ts";
import type { RecordKey } from "./engine/record.ts";
import type { JournalCall } from "./stores/journal.ts";

/** Something the other side has, by the key that we sent. */
export interface LedgerObject {
  readonly key: string;
}

export interface LedgerComparison<I, R, O extends LedgerObject> {
  readonly effect: Effect<I, R>;
  /**
   * What the other side has. Begin a little before `from` and end a little after `to`: its clock and ours differ, and a call
   * may be finished here some time after it happened there.
   */
  readonly objects: AsyncIterable<O>;
  /** Calls that finished here from this time on (milliseconds since the Unix epoch) … */
  readonly from: number;
  /** … and before this one must be among `objects`. */
  readonly to: number;
  /** Whether an object is what the call gave. Default: its key is enough. */
  readonly matches?: (object: O, result: R) => boolean;
}

/** A call of ours, as a report names it. */
export interface LedgerCall {
  readonly downstreamKey: string;
  readonly record: RecordKey;
  readonly recordId: string;
  readonly step: string;
}

export interface LedgerReport<O> {
  readonly matched: number;
  /** Finished here, and not among the objects. */
  readonly missing: readonly LedgerCall[];
  /** Objects whose key no call of ours has, and second ones of one key. */
  readonly extra: readonly O[];
  /** Known on both sides, and not the same: another result, another effect, or not finished here. */
  readonly mismatched: readonly { readonly object: O; readonly call: LedgerCall; readonly state: string }[];
}

const pageSize = 500;

export async function compareLedger<Tx, I, R, O extends LedgerObject>(
  runtime: Runtime<Tx>,
  comparison: LedgerComparison<I, R, O>,
): Promise<LedgerReport<O>> {
  const seen = new Set<string>();
  const report = {
    matched: 0,
    missing: [] as LedgerCall[],
    extra: [] as O[],
    mismatched: [] as Mismatch<O>[],
  };
  for await (const page of pagesOf(comparison.objects)) {
    const calls = await runtime.store.journal.callsByDownstreamKey(page.map(({ key }) => key));
    const byKey = new Map(calls.map((call) => [call.step.downstreamKey, call]));
    for (const object of page) {
      const twice = seen.has(object.key);
      seen.add(object.key);
      const call = byKey.get(object.key);
      if (call === undefined || twice) report.extra.push(object);
      else if (await agrees(runtime, comparison, object, call)) report.matched += 1;
      else report.mismatched.push({ object, call: named(call), state: call.step.state });
    }
  }
  for await (const call of finishedCalls(runtime, comparison)) {
    if (!seen.has(call.step.downstreamKey)) report.missing.push(named(call));
  }
  return report;
}

type Mismatch<O> = LedgerReport<O>["mismatched"][number];

function named({ key, recordId, step }: JournalCall): LedgerCall {
  return { downstreamKey: step.downstreamKey, record: key, recordId, step: step.name };
}

async function agrees<Tx, I, R, O extends LedgerObject>(
  runtime: Runtime<Tx>,
  { effect, matches }: LedgerComparison<I, R, O>,
  object: O,
  { key, recordId, fingerprint, step }: JournalCall,
): Promise<boolean> {
  if (step.effect !== effect.name || step.state !== "finished" || step.result === null) return false;
  if (matches === undefined) return true;
  const record = { ...key, id: recordId, fingerprint: { version: 0, digest: fingerprint } };
  return matches(object, (await plainJson(runtime, record, `step-result:${step.name}`, step.result)) as R);
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

async function* finishedCalls<Tx>(
  runtime: Runtime<Tx>,
  {
    effect,
    from,
    to,
  }: Pick<LedgerComparison<never, unknown, never>, "from" | "to"> & {
    readonly effect: { readonly name: string };
  },
): AsyncGenerator<JournalCall> {
  let after: { readonly finishedAt: number; readonly downstreamKey: string } | null = null;
  for (;;) {
    const query = { effect: effect.name, from, to, limit: pageSize, after };
    const page: readonly JournalCall[] = await runtime.store.journal.finishedCalls(query);
    yield* page;
    const last = page.at(-1)?.step;
    if (last === undefined || page.length < pageSize) return;
    after = { finishedAt: last.finishedAt ?? to, downstreamKey: last.downstreamKey };
  }
}
