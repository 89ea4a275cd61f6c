import type { LatchkeyRecord } from "../engine/record.ts";
import type { Journal } from "../stores/journal.ts";
import { type Choice, whatAPersonMayDo, whatHappensNext } from "./advice.ts";
import type { Command } from "./command.ts";
import { findRecord, namedBy } from "./find-record.ts";
import { databaseHelp, databaseOptions, parse } from "./options.ts";
import {
  type AuditView,
  answerView,
  auditView,
  type JournalView,
  journalView,
  type RecordView,
  recordView,
  type StepView,
} from "./present.ts";
import type { Readable, ShownAnswer } from "./readable.ts";
import { columns, isoTime, shortened, shown, shownJson, timeText } from "./text.ts";
import { type CommandStore, withStore } from "./with-store.ts";

const help = `Usage: latchkey inspect <tenant> <operation> <key> [options]

Shows one key's record: its steps, what was settled, what happens next and what you may do. Changes nothing. The key is
taken as the client sent it, quoted or bare. Inputs and answers are shown where no codec stands before them.

${databaseHelp}
  --json                print it as JSON

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 there is no such record, 4 the name fits two records.`;

export const inspect: Command = {
  summary: "show one key: its record, steps, reasons, and what may be done",
  help,
  async run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: { ...databaseOptions, json: { type: "boolean" } },
    });
    const named = namedBy(positionals);
    await withStore(context, values, async (store) => {
      const { record, journal, audit, now } = await readAll(store, named);
      const report = reportOf(record, journal, audit, now);
      if (values.json) context.print(shownJson(report));
      else for (const line of linesOf(report, record, now)) context.print(line);
    });
    return 0;
  },
};

interface Report extends RecordView, JournalView {
  readonly now: string;
  readonly answer: Readable<ShownAnswer> | null;
  readonly audit: readonly AuditView[];
  readonly next: readonly string[];
  readonly choices: readonly Choice[];
}

async function readAll(store: CommandStore, named: ReturnType<typeof namedBy>) {
  const { key, record, now } = await findRecord(store, named);
  const journal = await store.journal.read(key, record.id);
  return { record, now, journal, audit: (await store.settlement.audit(key)).map(auditView) };
}

function reportOf(
  record: LatchkeyRecord,
  journal: Journal | null,
  audit: readonly AuditView[],
  now: number,
): Report {
  return {
    ...recordView(record),
    ...journalView(journal),
    now: isoTime(now),
    answer: answerView(record),
    audit,
    next: whatHappensNext(record, now),
    choices: whatAPersonMayDo(record, journal),
  };
}

function linesOf(report: Report, record: LatchkeyRecord, now: number): readonly string[] {
  return [
    ...columns(headRows(report, record, now)),
    ...section("Steps", report.steps.flatMap(stepLines)),
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

function stepLines(step: StepView): readonly string[] {
  const at = step.finishedAt === null ? "" : ` ${step.finishedAt}`;
  const head = `${step.position + 1}. ${step.name} (${step.kind}) ${step.state.replace("_", " ")}${at}`;
  const details: [string, string | null][] = [
    ...callRows(step),
    ["result", readableText(step.result)],
    ["version", step.version],
  ];
  const known = details.flatMap(([label, text]) => (text === null ? [] : [[label, text] as const]));
  return [head, ...columns(known).map((line) => `   ${line}`)];
}

function callRows({ call, state }: StepView): [string, string | null][] {
  if (call === null) return [];
  const times = call.sends === 1 ? "once" : `${call.sends} times`;
  const outcome = state === "started" ? "; how it ended is not known" : "";
  return [
    ["effect", call.effect],
    ["downstream key", call.downstreamKey],
    ["sent", `${times}, first ${call.startedAt}${outcome}`],
    ["generation", call.generation === 0 ? null : String(call.generation)],
    ["input", readableText(call.input)],
  ];
}

function auditLines(entry: AuditView, recordId: string): readonly string[] {
  const life = entry.recordId === recordId ? "" : `, an earlier life of the key (${entry.recordId})`;
  const head = `${entry.at} ${entry.from} → ${entry.to} (${entry.event}) by ${entry.actor}, proof ${entry.proof}${life}`;
  return entry.reason === null ? [head] : [head, `  ${entry.reason}`];
}

function readableText(readable: Readable<unknown> | null): string | null {
  if (readable === null) return null;
  return "value" in readable
    ? shortened(JSON.stringify(readable.value))
    : unreadableText(readable.unreadable);
}

function answerText(answer: Readable<ShownAnswer> | null): string | null {
  if (answer === null) return null;
  if (!("value" in answer)) return unreadableText(answer.unreadable);
  const { status, body, bodyEncoding, omitted } = answer.value;
  if (omitted !== null) return `${status}, body not kept (${omitted})`;
  return bodyEncoding === "none"
    ? String(status)
    : `${status} ${shortened(bodyEncoding === "json" ? JSON.stringify(body) : String(body))}`;
}

function unreadableText(bytes: number): string {
  return `${bytes} bytes, not readable here (the service stores through a codec)`;
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}
