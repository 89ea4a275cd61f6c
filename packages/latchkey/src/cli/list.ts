import type { RecordState } from "../engine/record.ts";
import type { RecordFilter } from "../stores/settlement.ts";
import { type Command, UsageError } from "./command.ts";
import { databaseHelp, databaseOptions, parse, wholeNumber } from "./options.ts";
import { type RecordView, recordView } from "./present.ts";
import { shellWord, shown, shownJson, table } from "./text.ts";
import { withStore } from "./with-store.ts";

const states = ["pending", "in_progress", "completed", "failed", "retryable", "unknown", "expired"] as const;
const limitDefault = 50;

const help = `Usage: latchkey list [options]

Lists records in one state, oldest first. \`latchkey inspect\` shows one of them. Changes nothing.

  --state <state>       ${states.join(", ")}; default: unknown
  --tenant <tenant>     only this tenant's
  --operation <name>    only this operation's
  --limit <n>           how many, 1 to 1000; default: ${limitDefault}
  --after <place>       go on after this place, which the page before ends with
${databaseHelp}
  --json                print it as JSON

Exit codes: 0 done (also when there is none), 1 failed, 2 called wrongly.`;

export const list: Command = {
  summary: "list records in one state, such as those whose outcome is unknown",
  help,
  async run(context) {
    const { values } = parse({
      args: [...context.args],
      options: {
        ...databaseOptions,
        state: { type: "string" },
        tenant: { type: "string" },
        operation: { type: "string" },
        limit: { type: "string" },
        after: { type: "string" },
        json: { type: "boolean" },
      },
    });
    const filter: RecordFilter = {
      state: stateOf(values.state ?? "unknown"),
      tenant: values.tenant ?? null,
      operation: values.operation ?? null,
      limit: wholeNumber("limit", values.limit ?? String(limitDefault), 1, 1_000),
      after: values.after === undefined ? null : placeOf(values.after),
    };
    const found = await withStore(context, values, (store) => store.settlement.list(filter));
    const last = found.length < filter.limit ? undefined : found.at(-1);
    const next = last === undefined ? null : `${last.createdAt}_${last.id}`;
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

/** `<createdAt>_<id>`: milliseconds since the epoch, then the record's id. */
function placeOf(text: string): NonNullable<RecordFilter["after"]> {
  const [, createdAt, id] = /^(\d{1,15})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/u.exec(text) ?? [];
  if (createdAt === undefined || id === undefined) {
    throw new UsageError("--after takes the place that the page before ended with.");
  }
  return { createdAt: Number(createdAt), id };
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
