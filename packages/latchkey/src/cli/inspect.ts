import type { LatchkeyRecord } from "../engine/record.ts";
import type { Journal } from "../stores/journal.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { type Choice, whatAPersonMayDo, whatHappensNext } from "./advice.ts";
import { type Command, UsageError } from "./command.ts";
import { deadChoices } from "./effect-reasons.ts";
import { findRecord, namedBy } from "./find-record.ts";
import { answerText, effectLines, readableText, stepLines } from "./inspect-lines.ts";
import { inspectMessage } from "./inspect-message.ts";
import { databaseHelp, databaseOptions, isId, parse } from "./options.ts";
import {
  type AuditView,
  answerView,
  auditView,
  type JournalView,
  journalView,
  type RecordView,
  recordView,
} from "./present.ts";
import { type EffectPiecesView, effectPiecesView } from "./present-effect.ts";
import type { Readable, ShownAnswer } from "./readable.ts";
import { columns, isoTime, shown, shownJson, timeText } from "./text.ts";
import { serviceOptions } from "./with-service.ts";
import { type CommandStore, withStore } from "./with-store.ts";

const help = `Usage: latchkey inspect <tenant> <operation> <key> [options]
       latchkey inspect <message id> [options]

Shows one key's record: its steps, its effects in the outbox, what was settled, what happens next and what you may do.
Changes nothing. The key is taken as the client sent it, quoted or bare. Inputs and answers are shown where no codec
stands before them.

Or shows one dead message, by its id in \`latchkey list --dead --messages\`.

  --payload             of a message: what it carries, too
  --config <file>       of a message: the service's config, whose store and codec are then used
${databaseHelp}
  --json                print it as JSON

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 there is no such record or message, 4 the name fits two records.`;

export const inspect: Command = {
  summary: "show one key or dead message: what is known of it, why, and what may be done",
  help,
  async run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: {
        ...databaseOptions,
        ...serviceOptions,
        payload: { type: "boolean" },
        json: { type: "boolean" },
      },
    });
    const [id] = positionals;
    if (positionals.length === 1 && id !== undefined && isId(id)) return inspectMessage(context, values, id);
    for (const option of ["payload", "config"] as const) {
      if (values[option] !== undefined) throw new UsageError(`--${option} goes with the id of a message.`);
    }
    const named = namedBy(positionals);
    await withStore(context, values, async (store) => {
      const found = await readAll(store, named);
      const { record, now } = found;
      const report = reportOf(found);
      if (values.json) context.print(shownJson(report));
      else for (const line of linesOf(report, record, now)) context.print(line);
    });
    return 0;
  },
};

interface Report extends RecordView, JournalView {
  readonly now: string;
  readonly answer: Readable<ShownAnswer> | null;
  readonly effects: readonly EffectPiecesView[];
  readonly audit: readonly AuditView[];
  readonly next: readonly string[];
  readonly choices: readonly Choice[];
}

interface Found {
  readonly record: LatchkeyRecord;
  /** The store's time when it was read. */
  readonly now: number;
  readonly journal: Journal | null;
  readonly effects: readonly OutboxEffect[];
  readonly audit: readonly AuditView[];
}

async function readAll(store: CommandStore, named: ReturnType<typeof namedBy>): Promise<Found> {
  const { key, record, now } = await findRecord(store, named);
  const journal = await store.journal.read(key, record.id);
  const effects = (await store.outbox?.ofRecord(record.id)) ?? [];
  return { record, now, journal, effects, audit: (await store.settlement.audit(key)).map(auditView) };
}

function reportOf({ record, now, journal, effects, audit }: Found): Report {
  return {
    ...recordView(record),
    ...journalView(journal),
    now: isoTime(now),
    answer: answerView(record),
    effects: effects.map(effectPiecesView),
    audit,
    next: whatHappensNext(record, now),
    choices: [...whatAPersonMayDo(record, journal), ...effects.flatMap(deadChoices)],
  };
}

function linesOf(report: Report, record: LatchkeyRecord, now: number): readonly string[] {
  return [
    ...columns(headRows(report, record, now)),
    ...section("Steps", report.steps.flatMap(stepLines)),
    ...section("Effects", report.effects.flatMap(effectLines)),
    ...section(
      "Settled",
      report.audit.flatMap((entry) => auditLines(entry, record.id)),
    ),
    ...section("What happens next", report.next),
    ...section(
      "What you may do",
      report.choices.flatMap(({ when, command }) => [`${when}:`, `  ${command}`]),
    ),
  ].map(shown);
}

function headRows(report: Report, record: LatchkeyRecord, now: number): [string, string][] {
  const rows: [string, string | null | undefined][] = [
    ["Tenant", report.tenant],
    ["Operation", report.scope === "*" ? `${report.operation} (key unique in the tenant)` : report.operation],
    ["Key", report.key],
    ["State", report.state],
    ["Why", whyText(report)],
    ["Record", report.id],
    ["Principal", report.principal],
    ["Attempt", String(report.attempt)],
    ["Created", timeText(record.createdAt, now)],
    ["Finished", "finishedAt" in record ? timeText(record.finishedAt, now) : null],
    ["Input", readableText(report.input)],
    ["Answer", answerText(report.answer)],
    ["Recovery point", report.recoveryPoint],
  ];
  return rows.flatMap(([label, text]) => (text == null ? [] : [[label, text]]));
}

function whyText({ lastErrorCode, reason }: Report): string | null {
  if (lastErrorCode == null) return null;
  return reason == null ? lastErrorCode : `${lastErrorCode}: ${reason}`;
}

function auditLines(entry: AuditView, recordId: string): readonly string[] {
  const life = entry.recordId === recordId ? "" : `, an earlier life of the key (${entry.recordId})`;
  const what = entry.effectId === null ? "" : `effect ${entry.effectId} `;
  const head = `${entry.at} ${what}${entry.from} → ${entry.to} (${entry.event}) by ${entry.actor}, proof ${entry.proof}${life}`;
  return entry.reason === null ? [head] : [head, `  ${entry.reason}`];
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}
