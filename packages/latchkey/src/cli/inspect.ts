import type { LatchkeyRecord } from "../engine/record.ts";
import { isPathScope } from "../execution/path-scope.ts";
import { createLatchkey } from "../latchkey.ts";
import { type RecordReport, recordReport } from "../operator/report.ts";
import { timeText } from "../operator/times.ts";
import type { AuditView } from "../operator/views.ts";
import { type CommandChoice, commandChoices, placeWords } from "./choice-commands.ts";
import { type Command, type CommandContext, CommandError, UsageError } from "./command.ts";
import { findByHash, logSecretOf, secretVariable } from "./find-by-hash.ts";
import { type FoundRecord, findRecord, namedBy, namesHelp, pathHelp } from "./find-record.ts";
import { answerText, effectLines, readableText, stepLines, summaryText } from "./inspect-lines.ts";
import { inspectMessage } from "./inspect-message.ts";
import { databaseHelp, databaseOptions, isId, isKeyHash, parse } from "./options.ts";
import { columns, shown, shownJson } from "./text.ts";
import { serviceOptions } from "./with-service.ts";
import { type CommandStore, withStore } from "./with-store.ts";

const help = `Usage: latchkey inspect <tenant> <operation> <key> [options]
       latchkey inspect <record id> [options]
       latchkey inspect <downstream key> [options]
       latchkey inspect [<tenant> <operation>] <keyHash> [options]
       latchkey inspect <message id> [options]

Shows one key's record: its steps, its effects in the outbox, what was settled, what happens next and what you may do.
Changes nothing. Inputs and answers are shown where no codec stands before them.

${namesHelp} By the keyHash of an
event it is looked for among at most 100,000 records, with the service's logSecret in the variable ${secretVariable}.

Or shows one dead message, by its id in \`latchkey list --dead --messages\`.

${pathHelp}
  --payload             of a message: what it carries, too
  --config <file>       the service's config, whose store is then used; with --payload its codec, too
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
        path: { type: "string" },
        json: { type: "boolean" },
      },
    });
    const [id] = positionals;
    const ofMessage = values.payload !== undefined;
    if (positionals.length === 1 && id !== undefined && isId(id)) {
      // A config is opened once: with it, `--payload` says that the id is a message's.
      const isRecord =
        !ofMessage &&
        (values.config !== undefined || (await withStore(context, values, (store) => hasRecord(store, id))));
      if (!isRecord) return inspectMessage(context, values, id);
    }
    if (ofMessage) throw new UsageError("--payload goes with the id of a message.");
    const find = finderOf(context, positionals, values.path);
    await withStore(context, values, async (store) => {
      const found = await find(store);
      const { record, now } = found;
      const report = printed(
        await recordReport(createLatchkey({ store }).runtime, found),
        placeWords(values),
      );
      if (values.json) context.print(shownJson(report));
      else for (const line of linesOf(report, record, now)) context.print(line);
    });
    return 0;
  },
};

const secretHint = `If the key is a keyHash of an event: set ${secretVariable} to the service's logSecret.`;

type Find = (store: CommandStore) => Promise<FoundRecord>;

/** @throws {UsageError} */
function finderOf(context: CommandContext, positionals: readonly string[], path: string | undefined): Find {
  const [only = "", operation = "", key = ""] = positionals;
  if (positionals.length === 1 && isKeyHash(only)) {
    const hashed = { keyHash: only, tenant: null, operation: null };
    const secret = logSecretOf(context, hashed);
    return (store) => findByHash(store, hashed, secret);
  }
  const named = namedBy(positionals, path);
  return async (store) => {
    try {
      return await findRecord(store, named);
    } catch (error) {
      const isMissing = error instanceof CommandError && error.exitCode === 3;
      if (!isMissing || positionals.length !== 3 || !isKeyHash(key)) throw error;
      const hashed = { keyHash: key, tenant: only, operation };
      if (!context.env[secretVariable])
        throw new CommandError(`${error.message} ${secretHint}`, { cause: error, exitCode: 3 });
      return findByHash(store, hashed, logSecretOf(context, hashed));
    }
  };
}

/** Ids of records and of messages are both random. */
async function hasRecord(store: CommandStore, id: string): Promise<boolean> {
  return (await store.readById(null, id)).record !== null;
}

/** What is printed: choices as commands. */
interface Report extends Omit<RecordReport, "choices" | "deadChoices"> {
  readonly choices: readonly CommandChoice[];
}

function printed({ choices, deadChoices, ...report }: RecordReport, place: readonly string[]): Report {
  const ofDead = deadChoices.flatMap(({ death, choices: ofOne }) => commandChoices(ofOne, death, place));
  return { ...report, choices: [...commandChoices(choices, report.id, place), ...ofDead] };
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

function operationText({ operation, scope }: Report): string {
  if (scope === "*") return `${operation} (key unique in the tenant)`;
  return isPathScope(operation, scope)
    ? `${operation} (key unique to ${scope.slice(operation.length + 1)})`
    : operation;
}

function headRows(report: Report, record: LatchkeyRecord, now: number): [string, string][] {
  const rows: [string, string | null | undefined][] = [
    ["Tenant", report.tenant],
    ["Operation", operationText(report)],
    ["Key", report.key],
    ["State", report.state],
    ["Why", whyText(report)],
    ["Record", report.id],
    ["Request", summaryText(report.summary)],
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
