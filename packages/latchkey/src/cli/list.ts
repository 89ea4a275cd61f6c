import type { RecordState } from "../engine/record.ts";
import { nextPlace } from "../operator/pages.ts";
import { type RecordView, recordView } from "../operator/views.ts";
import type { RecordFilter } from "../stores/settlement.ts";
import { type Command, UsageError } from "./command.ts";
import { listDead } from "./list-dead.ts";
import { listMessages } from "./list-messages.ts";
import { databaseHelp, databaseOptions, parse } from "./options.ts";
import { limitDefault, pageOf } from "./pages.ts";
import { shellWord, shown, shownJson, table } from "./text.ts";
import { serviceOptions } from "./with-service.ts";
import { withStore } from "./with-store.ts";

const states = ["pending", "in_progress", "completed", "failed", "retryable", "unknown", "expired"] as const;

const help = `Usage: latchkey list [options]

Lists records in one state, dead effects, or dead messages, oldest first. \`latchkey inspect\` shows one record, or one dead
message. Changes nothing.

  --state <state>       ${states.join(", ")}; default: unknown
  --dead                effects that are not delivered any more, instead of records
  --effect <name>       with --dead: only this effect's
  --messages            with --dead: messages of brokers that no inbox runs any more, instead of effects
  --payload             with --messages: what they carry, too
  --config <file>       the service's config, whose store is then used; with --messages its codec, too
  --tenant <tenant>     only this tenant's
  --operation <name>    only this operation's records or messages
  --limit <n>           how many, 1 to 1000; default: ${limitDefault}
  --after <place>       go on after this place, which the page before ends with
${databaseHelp}
  --json                print it as JSON

Exit codes: 0 done (also when there is none), 1 failed, 2 called wrongly.`;

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
        tenant: { type: "string" },
        operation: { type: "string" },
        limit: { type: "string" },
        after: { type: "string" },
        json: { type: "boolean" },
      },
    });
    if (values.payload !== undefined && !values.messages) {
      throw new UsageError("--payload goes with --messages.");
    }
    if (values.dead) return values.messages ? listMessages(context, values) : listDead(context, values);
    for (const option of ["effect", "messages"] as const) {
      if (values[option] !== undefined) throw new UsageError(`--${option} goes with --dead.`);
    }
    const filter: RecordFilter = {
      state: stateOf(values.state ?? "unknown"),
      tenant: values.tenant ?? null,
      operation: values.operation ?? null,
      ...pageOf(values),
    };
    const found = await withStore(context, values, (store) => store.settlement.list(filter));
    const next = nextPlace(found, filter.limit);
    const records = found.map(recordView);
    if (values.json) context.print(shownJson({ records, next }));
    else for (const line of linesOf(filter, records, next)) context.print(line);
    return 0;
  },
};

function stateOf(text: string): RecordState {
  const state = states.find((one) => one === text);
  if (state === undefined) throw new UsageError(`--state must be one of ${states.join(", ")}.`);
  return state;
}

function linesOf(filter: RecordFilter, records: readonly RecordView[], next: string | null) {
  if (records.length === 0) return [`No record is ${filter.state}.`];
  const head = ["CREATED", "TENANT", "OPERATION", "KEY", "RECORD", ...(hasReason(records) ? ["WHY"] : [])];
  const rows = records.map((record) => [
    record.createdAt,
    ...[record.tenant, record.operation, record.key].map(shown),
    record.id,
    ...(hasReason(records) ? [shown(record.lastErrorCode ?? "")] : []),
  ]);
  return [...table([head, ...rows]), ...(next === null ? [] : ["", moreText(filter, next)])];
}

function hasReason(records: readonly RecordView[]): boolean {
  return records.some(({ lastErrorCode }) => lastErrorCode != null);
}

function moreText({ state, tenant, operation, limit }: RecordFilter, next: string): string {
  const only = [
    ...(tenant === null ? [] : [`--tenant ${shellWord(tenant)}`]),
    ...(operation === null ? [] : [`--operation ${shellWord(operation)}`]),
  ];
  return shown(
    ["More: latchkey list", `--state ${state}`, ...only, `--limit ${limit}`, `--after ${next}`].join(" "),
  );
}
