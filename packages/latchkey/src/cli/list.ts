import type { RecordState } from "../engine/record.ts";
import { cursorText } from "../operator/pages.ts";
import { effectSource, letterSource, readAuditLog, readPage, recordSource } from "../operator/queues.ts";
import type { Readable } from "../operator/readable.ts";
import {
  type AuditLogView,
  type DeadEffectView,
  type MessageView,
  messageView,
  payloadOf,
  type RecordView,
  type ShownPayload,
} from "../operator/views.ts";
import { type BulkValues, filterOf } from "./bulk.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { consoleHelp } from "./console-client.ts";
import { payloadText } from "./inspect-lines.ts";
import { databaseHelp, databaseOptions, parse } from "./options.ts";
import { filterWords, limitDefault, type PageValues, pageOf } from "./pages.ts";
import { shortened, shown, shownJson, table } from "./text.ts";
import {
  type DatabaseValues,
  outboxOf,
  type ServiceValues,
  serviceOptions,
  withService,
  withStore,
} from "./with-store.ts";

const states = ["pending", "in_progress", "completed", "failed", "retryable", "unknown", "expired"] as const;

const help = `Usage: latchkey list [options]

Lists records in one state, dead effects, or dead messages, oldest first, or the audit log. \`latchkey inspect\` shows one
record, or one dead message. Changes nothing.

  --state <state>       ${states.join(", ")}; default: unknown
  --dead                dead effects, which no worker delivers, instead of records
  --effect <name>       with --dead: only this effect's
  --messages            with --dead: dead messages, which no inbox runs, instead of effects
  --payload             with --messages: also their payloads
  --audit               who decided what, newest first, instead of records; takes --tenant, --limit and --after
  --config <file>       use the store of the service's config, and its codec with --messages
  --tenant <tenant>     only this tenant's
  --operation <name>    only this operation's
  --older-than <time>   only records that began, or messages that died, longer ago, such as 90s, 15m, 2h or 3d
  --error-code <code>   only with this reason: the column WHY
  --limit <n>           how many, 1 to 1000; default: ${limitDefault}
  --after <place>       continue after this place, which the previous page printed
${databaseHelp}
${consoleHelp}
  --json                print it as JSON

Exit codes: 0 done (also if there are none), 1 failed, 2 called wrongly.`;

export const list: Command = {
  summary: "list records in one state, such as unknown, or dead effects, or dead messages",
  help,
  async run(context) {
    const { values } = parse({
      args: [...context.args],
      options: {
        ...databaseOptions,
        ...serviceOptions,
        state: { type: "string" },
        dead: { type: "boolean" },
        effect: { type: "string" },
        messages: { type: "boolean" },
        payload: { type: "boolean" },
        audit: { type: "boolean" },
        tenant: { type: "string" },
        operation: { type: "string" },
        "older-than": { type: "string" },
        "error-code": { type: "string" },
        limit: { type: "string" },
        after: { type: "string" },
        json: { type: "boolean" },
      },
    });
    if (values.payload !== undefined && !values.messages) {
      throw new UsageError("--payload needs --messages.");
    }
    if (values.audit) {
      if (values.dead) throw new UsageError("--audit and --dead exclude each other.");
      return listAudit(context, values);
    }
    if (values.dead) return values.messages ? listMessages(context, values) : listDead(context, values);
    for (const option of ["effect", "messages"] as const) {
      if (values[option] !== undefined) throw new UsageError(`--${option} needs --dead.`);
    }
    const { limit, after } = pageOf(values);
    const filter: ListFilter = { ...values, state: stateOf(values.state ?? "unknown"), limit };
    const { items: records, next } = await withStore(context, values, async (store) => {
      const queue = await filterOf(store, values);
      const page = { limit, from: after === null ? null : cursorText(after) };
      return readPage(recordSource(store, filter.state, queue), queue, page);
    });
    if (values.json) context.print(shownJson({ records, next }));
    else for (const line of recordLines(filter, records, next)) context.print(line);
    return 0;
  },
};

function stateOf(text: string): RecordState {
  const state = states.find((one) => one === text);
  if (state === undefined) throw new UsageError(`--state must be one of ${states.join(", ")}.`);
  return state;
}

export interface ListFilter extends BulkValues {
  readonly state: RecordState;
  readonly limit: number;
}

export function recordLines(filter: ListFilter, records: readonly RecordView[], next: string | null) {
  const more = (place: string) =>
    moreText([`--state ${filter.state}`, ...filterWords(filter)], filter.limit, place);
  if (records.length === 0) {
    return next === null ? [`No record is ${filter.state}.`] : ["None so far.", more(next)];
  }
  const waits = filter.state === "unknown" ? ["WAITS FOR"] : [];
  const head = [
    "CREATED",
    "TENANT",
    "OPERATION",
    "KEY",
    "RECORD",
    ...waits,
    ...(hasReason(records) ? ["WHY"] : []),
  ];
  const rows = records.map((record) => [
    record.createdAt,
    ...[record.tenant, record.operation, record.key].map(shown),
    record.id,
    ...waits.map(() => (record.reconcileAfter == null ? "a person" : `a look-up, ${record.reconcileAfter}`)),
    ...(hasReason(records) ? [shown(record.lastErrorCode ?? "")] : []),
  ]);
  return [...table([head, ...rows]), ...(next === null ? [] : ["", more(next)])];
}

function hasReason(records: readonly RecordView[]): boolean {
  return records.some(({ lastErrorCode }) => lastErrorCode != null);
}

/** @param words after `latchkey list` */
function moreText(words: readonly string[], limit: number, next: string): string {
  return shown(["More: latchkey list", ...words, `--limit ${limit}`, `--after ${next}`].join(" "));
}

/** Options of `latchkey list --dead`. */
export interface ListDeadValues extends DatabaseValues, PageValues, BulkValues {
  readonly state?: string | undefined;
}

/** @throws {UsageError} for `--state`, which only records have. */
async function listDead(context: CommandContext, values: ListDeadValues): Promise<ExitCode> {
  if (values.state !== undefined) throw new UsageError("--state and --dead exclude each other.");
  const { limit, after } = pageOf(values);
  const { tenant } = values;
  const [{ items: effects, next }, others] = await withService(
    context,
    values,
    async ({ runtime: { store }, messages }) => {
      outboxOf(store);
      const filter = await filterOf(store, values);
      const from = after === null ? null : cursorText(after);
      const page = await readPage(effectSource(store, filter), filter, { limit, from });
      return [page, await messages.list({ limit: 1, ...(tenant !== undefined && { tenant }) })] as const;
    },
  );
  if (values.json) {
    context.print(shownJson({ effects, next }));
    return 0;
  }
  for (const line of deadLines(values, limit, effects, next)) context.print(line);
  if (others.length > 0) context.complain("There are dead messages, too: latchkey list --dead --messages");
  return 0;
}

export function deadLines(
  values: ListDeadValues,
  limit: number,
  effects: readonly DeadEffectView[],
  next: string | null,
): readonly string[] {
  const more = (place: string) => moreText(["--dead", ...filterWords(values)], limit, place);
  if (effects.length === 0) {
    return next === null ? ["No effect is dead."] : ["None so far.", more(next)];
  }
  const rows = effects.map((effect) => [
    effect.createdAt,
    ...[effect.tenant, effect.operation, effect.key, effect.effect].map(shown),
    effect.death,
    effect.recordId,
    shown(effect.lastErrorCode ?? ""),
  ]);
  const head = ["CREATED", "TENANT", "OPERATION", "KEY", "EFFECT", "ID", "RECORD", "WHY"];
  return [...table([head, ...rows]), ...(next === null ? [] : ["", more(next)])];
}

/** Options of `latchkey list --dead --messages`. */
export interface ListMessagesValues extends ServiceValues, PageValues, BulkValues {
  readonly state?: string | undefined;
  readonly payload?: boolean | undefined;
}

type Listed = MessageView & { readonly payload?: Readable<ShownPayload> };

/** @throws {UsageError} for options that select records or effects. */
async function listMessages(context: CommandContext, values: ListMessagesValues): Promise<ExitCode> {
  for (const option of ["state", "effect"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --messages exclude each other.`);
  }
  const { limit, after } = pageOf(values);
  const from = after === null ? null : cursorText(after);
  const { messages, next, hasCodec } = await withService(context, values, async (service) => {
    const filter = await filterOf(service.runtime.store, values);
    const source = letterSource(service.messages, filter, (message) => message);
    const page = await readPage(source, filter, { limit, from });
    const listed = page.items.map(
      async (message): Promise<Listed> => ({
        ...messageView(message),
        ...(values.payload === true && { payload: await payloadOf(message, service.hasCodec) }),
      }),
    );
    return { messages: await Promise.all(listed), next: page.next, hasCodec: service.hasCodec };
  });
  if (values.json) context.print(shownJson({ messages, next }));
  else for (const line of deadMessageLines(values, limit, messages, next, hasCodec)) context.print(line);
  return 0;
}

export function deadMessageLines(
  values: ListMessagesValues,
  limit: number,
  messages: readonly Listed[],
  next: string | null,
  hasCodec: boolean,
): readonly string[] {
  const only = [...filterWords(values), ...(values.payload ? ["--payload"] : [])];
  const more = (place: string) => moreText(["--dead --messages", ...only], limit, place);
  if (messages.length === 0) {
    return next === null ? ["No message is dead."] : ["None so far.", more(next)];
  }
  const rows = messages.map((message) => [
    message.diedAt,
    ...[message.tenant ?? "-", message.operation, message.key ?? "-", message.source].map(shown),
    message.id,
    message.reason,
    `${message.starts}/${message.failures}`,
    shown(message.lastErrorCode ?? ""),
    ...(message.payload ? [shown(shortened(payloadText(message.payload, hasCodec)))] : []),
  ]);
  const head = ["DIED", "TENANT", "OPERATION", "KEY", "SOURCE", "ID", "WHY", "STARTS/FAILURES", "LAST ERROR"];
  const lines = table([[...head, ...(values.payload ? ["PAYLOAD"] : [])], ...rows]);
  return [...lines, ...(next === null ? [] : ["", more(next)])];
}

/** Options of `latchkey list --audit`. */
export interface ListAuditValues extends ServiceValues, PageValues, BulkValues {
  readonly state?: string | undefined;
}

const notOfAudit = ["state", "operation", "effect", "older-than", "error-code"] as const;

/** @throws {UsageError} for options that select records. */
async function listAudit(context: CommandContext, values: ListAuditValues): Promise<ExitCode> {
  for (const option of notOfAudit) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --audit exclude each other.`);
  }
  const { limit, after } = pageOf(values);
  const from = after === null ? null : cursorText(after);
  const page = await withStore(context, values, async (store) => {
    const { tenant = null } = await filterOf(store, values);
    return readAuditLog(store, tenant, { limit, from });
  });
  if (page === null) {
    context.complain("This store has audit rows by key only: `latchkey inspect` shows those of one record.");
    return 1;
  }
  const { items: entries, next } = page;
  if (values.json) context.print(shownJson({ entries, next }));
  else for (const line of auditLogLines(values, limit, entries, next)) context.print(line);
  return 0;
}

export function auditLogLines(
  values: ListAuditValues,
  limit: number,
  entries: readonly AuditLogView[],
  next: string | null,
): readonly string[] {
  if (entries.length === 0) return ["The audit log has no rows."];
  const rows = entries.map((entry) => [
    entry.at,
    ...[entry.actor, entry.event, entry.tenant].map(shown),
    shown(entry.key === "" ? "-" : entry.key),
    entry.recordId,
    `${entry.from} → ${entry.to}`,
    shown(entry.proof),
    shown(entry.reason ?? ""),
  ]);
  const head = ["AT", "WHO", "DID", "TENANT", "KEY", "RECORD", "CHANGE", "PROOF", "REASON"];
  const more = next === null ? [] : ["", moreText(["--audit", ...filterWords(values)], limit, next)];
  return [...table([head, ...rows]), ...more];
}
