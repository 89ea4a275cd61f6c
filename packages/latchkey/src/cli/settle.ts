import { guardOf, type LatchkeyRecord, type UnknownRecord } from "../engine/record.ts";
import { encodeAnswer } from "../operations/answer.ts";
import { whatHappensNext } from "../operator/advice.ts";
import { readJson } from "../operator/readable.ts";
import { surely } from "../operator/surely.ts";
import { auditView, recordView } from "../operator/views.ts";
import { systemPorts } from "../ports.ts";
import type { AuditEntry, Settlement } from "../stores/settlement.ts";
import { type Command, type CommandContext, CommandError, type ExitCode, refusal } from "./command.ts";
import { type FoundRecord, findRecord } from "./find-record.ts";
import { databaseHelp } from "./options.ts";
import { readSettleOptions, type SettleOptions } from "./settle-options.ts";
import { proofName, settlementOf } from "./settle-outcome.ts";
import { shown, shownJson } from "./text.ts";
import { type CommandStore, withStore } from "./with-store.ts";

const help = `Usage: latchkey settle <record id> <outcome> --operator <name> --reason <text> [options]
       latchkey settle <downstream key> <outcome> --operator <name> --reason <text> [options]
       latchkey settle <tenant> <operation> <key> --record <id> <outcome> --operator <name> --reason <text> [options]

Writes down what became of an unknown record, as you have found out, together with an audit row that keeps your name and
reason. Refuses records that are not unknown, and another life of the key than the one you name. Asking again for what is
settled so already changes nothing. \`latchkey inspect\` shows a record's id and the downstream keys of its calls. Outcomes:

  --call <step> --result <json>  the call in doubt happened, with this result; the rest of the operation then runs
  --not-executed                 it did not happen and no longer can: it may run again. How you know that:
      --proof operator                 your word (default): a call in doubt is made again under the same key
      --proof closed-downstream --downstream-key <key>
                                       the other side has closed this call: it is made again under a new key
      --proof downstream-deduplicates  the other side still remembers its key: it is sent again under the same one
  --completed <answer>           all of it happened: retries get this answer
  --failed <answer>              it stays undone: retries get this answer

An answer is {"status":201,"headers":{},"body":{}}. JSON may also come from a file: @file.

  --record <id>         the life of the key that you looked at; --downstream-key names it, too
  --operator <name>     who settles
  --reason <text>       how you know
  --retention-ms <n>    how long retries get the answer of --completed and --failed; default: 24 hours
  --dry-run             only say what would be written
  --config <file>       the service's config, whose store is then used
${databaseHelp}
  --json                print the result as JSON

A service that stores through a codec must settle with \`latchkey.settle\`, where its codec is.

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 there is no such record, 4 refused: nothing was changed.`;

export const settle: Command = {
  summary: "write down what became of a record whose outcome is unknown",
  help,
  async run(context) {
    const options = readSettleOptions(context.args, context.cwd);
    return await withStore(context, options.database, (store, hasCodec) => {
      if (hasCodec) throw refusal("This service stores through a codec: settle with `latchkey.settle`.");
      return settleOne(context, store, options);
    });
  },
};

async function settleOne(
  context: CommandContext,
  store: CommandStore,
  options: SettleOptions,
): Promise<ExitCode> {
  const found = await findRecord(store, options.named);
  const { key, record } = found;
  if (record.state !== "unknown") {
    const before = await sameBefore(store, found, options);
    if (before === null) throw refusal(notUnknown(record));
    return report(context, store, options, before, true);
  }
  if ((await sayings(store, found, options)).length > 0) throw refusal(unknownAgain);
  const settlement = settlementOf(record.id, await store.journal.read(key, record.id), options);
  if (options.dryRun) return reportDryRun(context, record, settlement, options);
  const { operator: actor, reason } = options;
  const note = { id: systemPorts.random.uuid(found.now), actor, proof: proofName(options.outcome), reason };
  const settled = await surely(systemPorts.clock, () =>
    store.settlement.settle(key, guardOf(record), settlement, note),
  );
  if (!settled) {
    throw refusal("The record was changed in the meantime. Look at it again: `latchkey inspect`.");
  }
  const audit = await store.settlement.audit(key);
  const entry = audit.find(({ id }) => id === note.id);
  if (entry === undefined) throw new CommandError("It was settled, but its audit row cannot be found.");
  return report(context, store, options, entry, false);
}

/** The audit row of this very settlement, where it was made: a life that goes on may be anywhere by now. */
async function sameBefore(
  store: CommandStore,
  found: FoundRecord,
  options: SettleOptions,
): Promise<AuditEntry | null> {
  const last = options.dryRun ? undefined : (await sayings(store, found, options)).at(-1);
  return last !== undefined && (await saysTheSame(store, found, options.outcome)) ? last : null;
}

/** The audit rows of this life where the same person said the same kind of thing; others may have settled it since. */
async function sayings(
  store: CommandStore,
  { key, record }: FoundRecord,
  { operator, reason, outcome }: SettleOptions,
): Promise<readonly AuditEntry[]> {
  return (await store.settlement.audit(key)).filter(
    (entry) =>
      entry.recordId === record.id &&
      entry.event === outcome.event &&
      entry.proof === proofName(outcome) &&
      entry.actor === operator &&
      entry.reason === reason,
  );
}

async function saysTheSame(
  store: CommandStore,
  { key, record }: FoundRecord,
  outcome: SettleOptions["outcome"],
): Promise<boolean> {
  if (outcome.event === "settle_not_executed") return true;
  if (outcome.event !== "settle_call") {
    const answer = encodeAnswer(outcome.answer, Number.POSITIVE_INFINITY);
    return "answer" in record && record.answer !== null && Buffer.compare(record.answer, answer) === 0;
  }
  const journal = await store.journal.read(key, record.id);
  const step = journal?.steps.find(({ name }) => name === outcome.call);
  const stored = step?.result ? readJson(step.result) : null;
  return (
    stored !== null && "value" in stored && JSON.stringify(stored.value) === JSON.stringify(outcome.result)
  );
}

/** An operator who repeats a command whose reply was lost does not mean a doubt that came up after it. */
const unknownAgain =
  "It was settled so before, went on, and has become unknown again: what was known then need not hold now. " +
  "Look at it with `latchkey inspect`, and settle it with a new reason.";

function notUnknown(record: LatchkeyRecord): string {
  return `Only what is unknown can be settled, and this record is ${record.state}: see \`latchkey inspect\`.`;
}

async function report(
  { print }: CommandContext,
  store: CommandStore,
  { json }: SettleOptions,
  entry: AuditEntry,
  already: boolean,
): Promise<ExitCode> {
  // It may have run on, and have been released, since.
  const { record, now } = await store.read(entry.key);
  if (json) {
    const settled = auditView(entry);
    print(shownJson({ dryRun: false, already, settled, record: record && recordView(record) }));
    return 0;
  }
  const { id, event, from, to } = entry;
  print(`${already ? "Was settled so already" : "Settled"}: ${from} → ${to} (${event}), audit row ${id}.`);
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
  print(shown(`The audit row would say: ${operator}: ${reason}`));
  return 0;
}

const targets: Readonly<Record<Settlement["event"], string>> = {
  settle_completed: "completed",
  settle_failed: "failed",
  settle_not_executed: "retryable",
  settle_call: "retryable",
};
