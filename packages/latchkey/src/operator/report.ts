/** Everything that is known about one record, and what may be done about it. */
import type { LatchkeyRecord, RecordKey } from "../engine/record.ts";
import type { Runtime } from "../execution/runtime.ts";
import { codecContext } from "../execution/stored-values.ts";
import type { FactKind } from "../stores/facts.ts";
import type { Journal } from "../stores/journal.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { type Choice, deadEffectChoices, whatAPersonMayDo, whatHappensNext } from "./advice.ts";
import { deathName } from "./dead-names.ts";
import type { Readable, ShownAnswer } from "./readable.ts";
import { isoTime } from "./times.ts";
import {
  type AuditView,
  answerView,
  auditView,
  type Decode,
  type EffectPiecesView,
  effectPiecesView,
  type FactsView,
  factsView,
  type JournalView,
  journalView,
  type RecordView,
  recordView,
  summaryView,
} from "./views.ts";

export interface RecordReport extends RecordView, JournalView {
  /** The store's time when it was read. */
  readonly now: string;
  /** A short form of its request. Null: none is stored. */
  readonly summary: Readable<unknown> | null;
  readonly answer: Readable<ShownAnswer> | null;
  readonly effects: readonly EffectPiecesView[];
  /** Repeated requests, and how they were answered. Null: none is stored. */
  readonly repeats: FactsView | null;
  /** What the outcome-reconciler found. Null: nothing is stored. */
  readonly lookUps: FactsView | null;
  /** Of all lives of the key, oldest first. */
  readonly audit: readonly AuditView[];
  /** What happens next without an operator, in sentences. */
  readonly next: readonly string[];
  /** What may be done about the record; empty unless it is unknown. */
  readonly choices: readonly Choice[];
  /** What may be done about its dead effects, by the name of their death. */
  readonly deadChoices: readonly { readonly death: string; readonly choices: readonly Choice[] }[];
}

type Reader = Pick<Runtime<unknown>, "store" | "codec">;

/** @param found a record and the store's time, read together */
export async function recordReport(
  { store, codec }: Reader,
  { key, record, now }: { readonly key: RecordKey; readonly record: LatchkeyRecord; readonly now: number },
): Promise<RecordReport> {
  const journal: Journal | null = await store.journal.read(key, record.id);
  const effects: readonly OutboxEffect[] = (await store.outbox?.ofRecord(record.id)) ?? [];
  const audit = await store.settlement.audit(key);
  const facts = (await store.facts?.of(key, record.id)) ?? [];
  const factsOf = (kind: FactKind) => {
    const kept = facts.find((one) => one.kind === kind);
    return kept === undefined ? null : factsView(kept);
  };
  const decode: Decode = async (stored, part) =>
    codec.decode(stored, codecContext(record, record.id, record.fingerprint.digest, part));
  const dead = effects.filter(({ state }) => state === "dead");
  return {
    ...recordView(record),
    ...(await journalView(journal, decode)),
    now: isoTime(now),
    summary: await summaryView((await store.summaries?.of(key, record.id)) ?? null, decode),
    answer: await answerView(record, decode),
    effects: await Promise.all(effects.map((effect) => effectPiecesView(effect, decode))),
    repeats: factsOf("repeat"),
    lookUps: factsOf("look_up"),
    audit: audit.map(auditView),
    next: whatHappensNext(record, now),
    choices: whatAPersonMayDo(record, journal),
    deadChoices: dead.map((effect) => ({ death: deathName(effect), choices: deadEffectChoices(effect) })),
  };
}
