import { isPathScope } from "../execution/scope.ts";
import { createLatchkey } from "../latchkey.ts";
import { deadEffectChoices, deadMessageChoices } from "../operator/advice.ts";
import { type DeadName, findDead, parseDeadName } from "../operator/dead-names.ts";
import type { Readable } from "../operator/readable.ts";
import { type RecordReport, recordReport } from "../operator/report.ts";
import { timeText } from "../operator/times.ts";
import {
  type AuditView,
  deadEffectView,
  type MessageView,
  messageView,
  payloadOf,
  type ShownPayload,
} from "../operator/views.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { type CommandChoice, commandChoices, placeWords } from "./choice-commands.ts";
import { type Command, type CommandContext, CommandError, UsageError } from "./command.ts";
import { consoleHelp } from "./console-client.ts";
import {
  type FoundRecord,
  findByHash,
  findRecord,
  logSecretOf,
  namedBy,
  namesHelp,
  pathHelp,
  secretVariable,
} from "./find-record.ts";
import {
  answerText,
  deadEffectLines,
  effectLines,
  factLines,
  payloadText,
  readableText,
  stepLines,
  summaryText,
} from "./inspect-lines.ts";
import { databaseHelp, databaseOptions, isKeyHash, parse } from "./options.ts";
import { columns, shortened, shown, shownJson } from "./text.ts";
import {
  type CommandStore,
  type OpenService,
  type ServiceValues,
  serviceOptions,
  withService,
  withStore,
} from "./with-store.ts";

const help = `Usage: latchkey inspect <tenant> <operation> <key> [options]
       latchkey inspect <record id> [options]
       latchkey inspect <downstream key> [options]
       latchkey inspect [<tenant> <operation>] <keyHash> [options]
       latchkey inspect <dead effect id> [options]
       latchkey inspect <message id> [options]

Shows one key's record: its steps, its effects in the outbox, what was settled, what happens next and what you may do.
Changes nothing. Inputs and answers are readable if the service has no codec.

${namesHelp} To find it by the keyHash of an
event, set ${secretVariable} to the service's logSecret; at most 100,000 records are searched.

Also shows the record of a dead effect, by the effect's id in \`latchkey list --dead\`, with or without its number; or one dead
message, by its id in \`latchkey list --dead --messages\`.

${pathHelp}
  --payload             also show a message's payload
  --config <file>       use the store of the service's config, and its codec for messages
${databaseHelp}
${consoleHelp}
  --json                print it as JSON

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 there is no such record or message, 4 two records have the name.`;

export const inspect: Command = {
  summary: "show one key or dead message: its state, the reason, and what you may do",
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
    const [only] = positionals;
    const id = positionals.length === 1 && only !== undefined ? parseDeadName(only) : null;
    if (id !== null && values.path === undefined) {
      await withService(context, values, (service) => inspectId(context, values, service, id));
      return 0;
    }
    if (values.payload !== undefined) throw new UsageError("--payload needs the id of a message.");
    const find = finderOf(context, positionals, values.path);
    await withStore(context, values, async (store) => show(context, values, store, await find(store)));
    return 0;
  },
};

interface InspectValues extends ServiceValues {
  readonly payload?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** Takes the id of a record, dead effect or dead message: all are random. */
async function inspectId(
  context: CommandContext,
  values: InspectValues,
  service: OpenService,
  { id }: DeadName,
): Promise<void> {
  const { store } = service.runtime;
  const reading = values.payload ? null : await store.readById(null, id);
  const effect = reading === null || reading.record !== null ? null : await findDead(store.outbox, id);
  const own = effect === null ? reading : await store.readById(null, effect.recordId);
  const { record = null, now = 0 } = own ?? {};
  if (record !== null) {
    const { tenant, scope, key } = record;
    await show(context, values, store, { key: { tenant, scope, key }, record, now });
  } else if (effect !== null) showEffect(context, values, effect);
  else await inspectMessage(context, values, service, id);
}

async function show(
  context: CommandContext,
  values: InspectValues,
  store: CommandStore,
  found: FoundRecord,
): Promise<void> {
  const report = printed(await recordReport(createLatchkey({ store }).runtime, found), placeWords(values));
  if (values.json) context.print(shownJson(report));
  else for (const line of linesOf(report)) context.print(line);
}

/** Shows a dead effect that has outlived its record. */
function showEffect(context: CommandContext, values: InspectValues, effect: OutboxEffect): void {
  const view = deadEffectView(effect);
  const choices = commandChoices(deadEffectChoices(effect), view.death, placeWords(values));
  if (values.json) context.print(shownJson({ effect: view, choices }));
  else for (const line of deadEffectLines(view, choices)) context.print(shown(line));
}

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

/** @param place the options that name the database or service that was read */
export function reportLines(report: RecordReport, place: readonly string[]): readonly string[] {
  return linesOf(printed(report, place));
}

/** The report as printed, with choices as commands. */
interface Report extends Omit<RecordReport, "choices" | "deadChoices"> {
  readonly choices: readonly CommandChoice[];
}

function printed({ choices, deadChoices, ...report }: RecordReport, place: readonly string[]): Report {
  const ofDead = deadChoices.flatMap(({ death, choices: ofOne }) => commandChoices(ofOne, death, place));
  return { ...report, choices: [...commandChoices(choices, report.id, place), ...ofDead] };
}

function linesOf(report: Report): readonly string[] {
  return [
    ...columns(headRows(report)),
    ...section("Steps", report.steps.flatMap(stepLines)),
    ...section("Effects", report.effects.flatMap(effectLines)),
    ...section("Repeated requests", factLines(report.repeats)),
    ...section("Look-ups", factLines(report.lookUps)),
    ...section(
      "Settled",
      report.audit.flatMap((entry) => auditLines(entry, report.id)),
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

function headRows(report: Report): [string, string][] {
  const time = (at: string) => timeText(Date.parse(at), Date.parse(report.now));
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
    ["Created", time(report.createdAt)],
    ["Finished", report.finishedAt === undefined ? null : time(report.finishedAt)],
    ["Input", readableText(report.input)],
    ["Answer", answerText(report.answer)],
    ["Recovery point", report.recoveryPoint],
    ["Trace", report.traceId],
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

/** @throws {CommandError} with exit code 3 when no dead message has this id. */
async function inspectMessage(
  context: CommandContext,
  values: InspectValues,
  service: OpenService,
  id: string,
): Promise<void> {
  const report = await messageReport(service, id, values);
  if (values.json) context.print(shownJson(report));
  else for (const line of messageLines(report, service.hasCodec)) context.print(shown(line));
}

type MessageReport = MessageView & {
  readonly payload: Readable<ShownPayload> | null;
  readonly choices: readonly CommandChoice[];
};

async function messageReport(
  service: OpenService,
  id: string,
  values: InspectValues,
): Promise<MessageReport> {
  const { hasCodec } = service;
  const message = service.runtime.store.messages === null ? null : await service.messages.find(id);
  if (message === null) {
    throw new CommandError(
      `No record, dead effect or dead message has the id ${id}: it was released because nothing happened, was decided or delivered, was forgotten, or its transaction is still running.`,
      { exitCode: 3 },
    );
  }
  return {
    ...messageView(message),
    payload: values.payload ? await payloadOf(message, hasCodec) : null,
    choices: commandChoices(
      deadMessageChoices(message.reason),
      id,
      placeWords(values),
      values.config === undefined ? ["--config <file>"] : [],
    ),
  };
}

export function messageLines(report: MessageReport, hasCodec: boolean): readonly string[] {
  const { starts, returns, failures } = report;
  const lost = starts === returns ? "" : `; ${starts - returns} did not return`;
  const rows: [string, string | null][] = [
    ["Message", report.id],
    ["Tenant", report.tenant],
    ["Operation", report.operation],
    ["Key", report.key],
    ["From", report.source],
    ["Why", report.explanation === null ? report.reason : `${report.reason}: ${report.explanation}`],
    ["Runs", `${starts} counted; ${failures} failed${lost}`],
    ["Last error", report.lastErrorCode],
    ["Died", report.diedAt],
    ["Content type", report.contentType],
    [
      "Payload",
      report.payload === null
        ? `${report.storedBytes} bytes as stored; --payload shows it`
        : shortened(payloadText(report.payload, hasCodec)),
    ],
  ];
  return [
    ...columns(rows.flatMap(([label, text]) => (text === null ? [] : [[label, text] as const]))),
    "",
    "What you may do",
    ...report.choices.flatMap(({ when, command }) => [`  ${when}:`, `    ${command}`]),
  ];
}
