import type { UnknownRecord } from "../engine/record.ts";
import { whatHappensNext } from "../operator/advice.ts";
import { recordSource, walkMatching } from "../operator/queues.ts";
import { auditView, recordView } from "../operator/views.ts";
import type { AuditEntry, Settlement } from "../stores/settlement.ts";
import { type Bulk, bulkOptions, filterOf, runBulk, type Target } from "./bulk.ts";
import { type Command, type CommandContext, type ExitCode, refusal, UsageError } from "./command.ts";
import { consoleHelp } from "./console-client.ts";
import { findRecord, pathHelp } from "./find-record.ts";
import { databaseHelp, databaseOptions, parse } from "./options.ts";
import { settleFound, settlementFor } from "./settle-found.ts";
import {
  readSettleOptions,
  type SettlementOptions,
  type SettleOptions,
  settlementOptions,
} from "./settle-options.ts";
import { shown, shownJson } from "./text.ts";
import { type CommandStore, withStore } from "./with-store.ts";

const help = `Usage: latchkey settle <record id> <outcome> --operator <name> --reason <text> [options]
       latchkey settle <downstream key> <outcome> --operator <name> --reason <text> [options]
       latchkey settle --all --tenant <tenant> --operation <name> <outcome> --operator <name> --reason <text> --yes
       latchkey settle <tenant> <operation> <key> --record <id> <outcome> --operator <name> --reason <text> [options]

Records the outcome of an unknown record, as you found it out, together with an audit row with your name and
reason. Refuses records that are not unknown, and lives other than the one you name. Repeating the same settlement
changes nothing. \`latchkey inspect\` shows a record's id and the downstream keys of its calls. Outcomes:

  --call <step> --result <json>  the call in doubt happened, with this result; the rest of the operation then runs
  --not-executed                 it did not happen and no longer can: it may run again. The proof:
      --proof operator                 your word (default): a call in doubt is sent again under the same key
      --proof closed-downstream --downstream-key <key>
                                       the other service has closed this call: it is sent again under a new key
      --proof downstream-deduplicates  the other service still remembers its key: it is sent again under the same one
  --completed <answer>           all of it happened: retries get this answer
  --failed <answer>              it will not happen: retries get this answer

An answer is {"status":201,"headers":{},"body":{}}. JSON may also come from a file: @file.

${pathHelp}
  --record <id>         the life that you looked at; --downstream-key also names it
  --operator <name>     who settles
  --reason <text>       how you know
  --retention-ms <n>    how long retries get the answer of --completed and --failed; default: 24 hours
  --dry-run             only print what would be written
  --all                 every unknown record that matches, with --not-executed or --failed: see docs/cli.md, "Everything that matches"
  --config <file>       use the store of the service's config
${databaseHelp}
${consoleHelp}
  --json                print the result as JSON

A service that stores through a codec must settle with \`latchkey.settle\`, where its codec is.

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 there is no such record, 4 refused: nothing was changed.`;

export const settle: Command = {
  summary: "record the outcome of an unknown record",
  help,
  async run(context) {
    if (context.args.includes("--all")) return settleAll(context);
    const options = readSettleOptions(context.args, context.cwd);
    return await withStore(context, options.database, (store, hasCodec) => {
      if (hasCodec) throw throughCodec();
      return settleOne(context, store, options);
    });
  },
};

function throughCodec() {
  return refusal("This service stores through a codec: settle with `latchkey.settle`.");
}

async function settleOne(
  context: CommandContext,
  store: CommandStore,
  options: SettleOptions,
): Promise<ExitCode> {
  const found = await findRecord(store, options.named);
  if (options.dryRun && found.record.state === "unknown") {
    return reportDryRun(context, found.record, await settlementFor(store, found, options), options);
  }
  const { entry, already } = await settleFound(store, found, options);
  return report(context, store, options, entry, already);
}

async function report(
  { print }: CommandContext,
  store: CommandStore,
  { json }: SettleOptions,
  entry: AuditEntry,
  already: boolean,
): Promise<ExitCode> {
  // It may have continued, and have been released, since.
  const { record, now } = await store.read(entry.key);
  if (json) {
    const settled = auditView(entry);
    print(shownJson({ dryRun: false, already, settled, record: record && recordView(record) }));
    return 0;
  }
  const { id, event, from, to } = entry;
  print(`${already ? "Already settled like this" : "Settled"}: ${from} → ${to} (${event}), audit row ${id}.`);
  if (record !== null) for (const line of whatHappensNext(record, now)) print(line);
  return 0;
}

function reportDryRun(
  { print }: CommandContext,
  record: UnknownRecord,
  settlement: Settlement,
  { json, operator, reason }: SettleOptions,
): ExitCode {
  const { event } = settlement;
  if (json) {
    print(shownJson({ dryRun: true, event, to: targets[event], record: recordView(record) }));
    return 0;
  }
  print(`Would settle record ${record.id}: unknown → ${targets[event]} (${event}). Nothing was changed.`);
  print(shown(`The audit row would be: ${operator}: ${reason}`));
  return 0;
}

const targets: Readonly<Record<Settlement["event"], string>> = {
  settle_completed: "completed",
  settle_failed: "failed",
  settle_not_executed: "retryable",
  settle_call: "retryable",
};

interface SeenTarget extends Target {
  readonly attempt: number;
}

async function settleAll(context: CommandContext): Promise<ExitCode> {
  const { values } = parse({
    args: [...context.args],
    options: {
      ...databaseOptions,
      ...bulkOptions,
      config: { type: "string" },
      "not-executed": { type: "boolean" },
      proof: { type: "string" },
      failed: { type: "string" },
      "retention-ms": { type: "string" },
      operator: { type: "string" },
      reason: { type: "string" },
    },
  });
  if (values.proof === "closed-downstream") {
    throw new UsageError("--proof closed-downstream applies to one call: settle each record separately.");
  }
  const shared = settlementOptions(values, context.cwd);
  return withStore(context, values, async (store, hasCodec) => {
    if (hasCodec) throw throughCodec();
    const filter = await filterOf(store, values);
    const bulk: Bulk<SeenTarget> = {
      verb: "settle",
      targets: walkMatching(recordSource(store, "unknown", filter), filter),
      act: (target, dryRun) => settleListed(store, target, shared, dryRun),
    };
    return runBulk(context, bulk, values);
  });
}

async function settleListed(
  store: CommandStore,
  { id, attempt }: SeenTarget,
  shared: SettlementOptions,
  dryRun: boolean,
): Promise<string> {
  const found = await findRecord(store, { recordId: id });
  const { record } = found;
  if (record.state === "unknown" && record.fence.attempt !== attempt) {
    throw refusal("It has continued and become unknown again since it was listed.");
  }
  const options: SettleOptions = { ...shared, named: { recordId: id } };
  if (!dryRun) return (await settleFound(store, found, options)).entry.id;
  if (record.state !== "unknown") throw refusal(`It is now ${record.state}.`);
  await settlementFor(store, found, options);
  return "";
}
