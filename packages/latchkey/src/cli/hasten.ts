/** `latchkey forget` and `latchkey retry`. */
import type { RecordState } from "../engine/record.ts";
import type { RecordName } from "../execution/find-record.ts";
import type { OperatorProof } from "../execution/settle.ts";
import { createLatchkey } from "../latchkey.ts";
import type { Hastened, HastenRequest } from "../operator/hasten.ts";
import { createOperator, type Operator } from "../operator/operator.ts";
import { recordSource, walkMatching } from "../operator/queues.ts";
import type { SeenRecord } from "../operator/settle.ts";
import { type BulkValues, bulkOptions, checkAll, filterOf, runBulk } from "./bulk.ts";
import { type Command, type CommandContext, type ExitCode, refusal, UsageError } from "./command.ts";
import { consoleHelp } from "./console-client.ts";
import { findRecord, lifeNamedBy, pathHelp } from "./find-record.ts";
import { databaseHelp, databaseOptions, parse, signed } from "./options.ts";
import { shown, shownJson } from "./text.ts";
import { type CommandStore, type DatabaseValues, withStore } from "./with-store.ts";

const commonHelp = `\
${pathHelp}
  --record <id>         the life that you looked at, if you name the record by its key
  --operator <name>     who decides
  --reason <text>       why
  --dry-run             only print what would be done
  --all                 everything that matches --state, --tenant, --operation, --older-than (90s, 15m, 2h, 3d) and --error-code,
                        with --yes; exit code 1 when one was refused
  --config <file>       use the store and caches of the service's config
${databaseHelp}
${consoleHelp}
  --json                print the result as JSON

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 there is no such record, 4 refused: nothing was changed.`;

export const forget: Command = {
  summary: "let a finished key run as new before its time, as for a stored 500",
  help: `Usage: latchkey forget <record id> --operator <name> --reason <text> --yes [options]
       latchkey forget <tenant> <operation> <key> --record <id> --operator <name> --reason <text> --yes [options]

Ends the retention of a finished record and writes an audit row: the key may run as new at once, under another record id, and the
record-cleaner removes the old record later. A failed record is forgotten at once. A completed operation has
happened: it needs --may-run-again, and a client that still retries then makes it happen a second time.
Refuses unfinished records: settle an unknown one, let a retryable one continue.

With --config, replays from a shared cache (latchkey/cached) stop at once; copies in processes' memory last for their maxAgeMs.

  --yes                 really do it; without it, the command only prints what would be done
  --may-run-again       even if the operation has happened, or its answer is gone
${commonHelp}`,
  run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: { ...hastenOptions, "may-run-again": { type: "boolean" } },
    });
    checkAll(values, positionals, ["yes", "dry-run"]);
    const request: HastenRequest = { event: "forget", mayRunAgain: values["may-run-again"] ?? false };
    if (values.all) return hastenAll(context, values, request, ["failed", "completed", "expired"]);
    return hastenOne(context, { values, positionals, request, mayWrite: values.yes ?? false });
  },
};

export const retry: Command = {
  summary: "have a retryable record resumed, or an unknown one looked up again, now",
  help: `Usage: latchkey retry <record id> --operator <name> --reason <text> [options]
       latchkey retry <tenant> <operation> <key> --record <id> --operator <name> --reason <text> [options]

Ends a wait and writes an audit row: a worker resumes a retryable record after its finished steps; the outcome-reconciler asks
the other service about an unknown one, even if it had given up. Runs nothing that may have happened: an outcome that cannot be
found out stays unknown. Refuses records that are finished, under way, or for their own client only.

${commonHelp}`,
  run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: hastenOptions,
    });
    checkAll(values, positionals, ["dry-run"]);
    if (values.all) return hastenAll(context, values, { event: "retry" }, ["retryable", "unknown"]);
    return hastenOne(context, { values, positionals, request: { event: "retry" }, mayWrite: true });
  },
};

const hastenOptions = {
  ...databaseOptions,
  ...bulkOptions,
  state: { type: "string" },
  config: { type: "string" },
  record: { type: "string" },
  path: { type: "string" },
  operator: { type: "string" },
  reason: { type: "string" },
} as const;

interface HastenValues extends DatabaseValues, BulkValues {
  readonly state?: string | undefined;
  readonly record?: string | undefined;
  readonly path?: string | undefined;
  readonly operator?: string | undefined;
  readonly reason?: string | undefined;
}

interface Asked {
  readonly values: HastenValues;
  readonly positionals: readonly string[];
  readonly request: HastenRequest;
  /** Whether `--yes` was given, or is not needed. */
  readonly mayWrite: boolean;
}

async function hastenOne(context: CommandContext, asked: Asked): Promise<ExitCode> {
  const { values, positionals, mayWrite } = asked;
  const named = lifeNamedBy(positionals, values);
  const by = { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
  const dryRun = values["dry-run"] ?? false;
  return withStore<ExitCode>(context, values, async (store) => {
    const done = await look(store, named, asked, by, dryRun || !mayWrite);
    if (done.kind === "refused") throw refusal(`Not done. ${done.title} ${done.detail}`);
    if (!dryRun && !mayWrite)
      throw new UsageError(`${whatIsDone(done, asked.request, "would be")} Use --yes to do it.`);
    report(context, done, asked.request, dryRun, values.json ?? false);
    return 0;
  });
}

/** @param states the states that the command accepts; the first is the default */
async function hastenAll(
  context: CommandContext,
  values: HastenValues,
  request: HastenRequest,
  states: readonly RecordState[],
): Promise<ExitCode> {
  const state = states.find((one) => one === (values.state ?? states[0]));
  if (state === undefined) throw new UsageError(`--state must be one of ${states.join(", ")}.`);
  const by = { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
  return withStore(context, values, async (store) => {
    const filter = await filterOf(store, values);
    const operator = createOperator({ latchkey: createLatchkey({ store }) });
    return runBulk(
      context,
      {
        verb: request.event,
        targets: walkMatching(recordSource(store, state, filter), filter),
        async act({ id, attempt }, dryRun) {
          const done = await hasten(operator, { recordId: id, attempt }, request, by, dryRun);
          if (done.kind === "refused") throw refusal(`${done.title} ${done.detail}`);
          return done.audit ?? "";
        },
      },
      values,
    );
  });
}

async function look(
  store: CommandStore,
  named: RecordName,
  { request }: Asked,
  by: OperatorProof,
  dryRun: boolean,
): Promise<Hastened> {
  const { record } = await findRecord(store, named);
  const seen = { recordId: record.id, attempt: record.fence.attempt };
  return hasten(createOperator({ latchkey: createLatchkey({ store }) }), seen, request, by, dryRun);
}

function hasten(
  operator: Operator,
  seen: SeenRecord,
  request: HastenRequest,
  by: OperatorProof,
  dryRun: boolean,
): Promise<Hastened> {
  if (request.event === "retry") return operator.retry(seen, by, { dryRun });
  return operator.forget(seen, by, { mayRunAgain: request.mayRunAgain, dryRun });
}

type Done = Extract<Hastened, { readonly kind: "done" }>;

const endings: Readonly<Partial<Record<RecordState, string>>> = {
  retryable: "due now for a worker",
  unknown: "looked up again now",
};

function whatIsDone({ record }: Done, { event }: HastenRequest, would: string): string {
  const end = event === "forget" ? "forgotten: its key may run as new" : (endings[record.state] ?? "due");
  return `Record ${record.id} (${record.state}) ${would} ${end}.`;
}

function report(
  { print }: CommandContext,
  done: Done,
  request: HastenRequest,
  dryRun: boolean,
  json: boolean,
): void {
  const { audit } = done;
  if (json) {
    const { id, tenant, operation, state } = done.record;
    print(shownJson({ event: request.event, dryRun, record: { id, tenant, operation, state }, audit }));
    return;
  }
  const rest = dryRun ? "Nothing was changed." : `Audit row ${audit}.`;
  print(shown(`${whatIsDone(done, request, dryRun ? "would be" : "is")} ${rest}`));
}
