import type { RecordState } from "../engine/record.ts";
import { placeText } from "../operator/pages.ts";
import { readPage, recordSource } from "../operator/queues.ts";
import type { RecordView } from "../operator/views.ts";
import { type BulkValues, filterOf } from "./bulk.ts";
import { type Command, UsageError } from "./command.ts";
import { consoleHelp } from "./console-client.ts";
import { listAudit } from "./list-audit.ts";
import { listDead } from "./list-dead.ts";
import { listMessages } from "./list-messages.ts";
import { databaseHelp, databaseOptions, parse } from "./options.ts";
import { filterWords, limitDefault, pageOf } from "./pages.ts";
import { shown, shownJson, table } from "./text.ts";
import { serviceOptions } from "./with-service.ts";
import { withStore } from "./with-store.ts";

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
      const page = { limit, from: after === null ? null : placeText(after) };
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
  if (records.length === 0) {
    return next === null ? [`No record is ${filter.state}.`] : ["None so far.", moreText(filter, next)];
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
  return [...table([head, ...rows]), ...(next === null ? [] : ["", moreText(filter, next)])];
}

function hasReason(records: readonly RecordView[]): boolean {
  return records.some(({ lastErrorCode }) => lastErrorCode != null);
}

function moreText({ state, limit, ...values }: ListFilter, next: string): string {
  return shown(
    [
      "More: latchkey list",
      `--state ${state}`,
      ...filterWords(values),
      `--limit ${limit}`,
      `--after ${next}`,
    ].join(" "),
  );
}
