/** One settlement by an operator, with its audit row, for a named record or one of many. */
import { guardOf, type LatchkeyRecord } from "../engine/record.ts";
import { reopened } from "../execution/settle.ts";
import { encodeAnswer } from "../operations/answer.ts";
import { callInDoubt } from "../operator/advice.ts";
import { hasUnreadable, readJson } from "../operator/readable.ts";
import { systemPorts } from "../ports.ts";
import type { Journal } from "../stores/journal.ts";
import type { AuditEntry, Settlement } from "../stores/settlement.ts";
import { retryStoreCall } from "../time/retry-until.ts";
import { CommandError, refusal } from "./command.ts";
import type { FoundRecord } from "./find-record.ts";
import type { SettleOptions } from "./settle-options.ts";
import type { CommandStore } from "./with-store.ts";

/** For an unknown record that was not settled in the same way before. */
export async function settlementFor(
  store: CommandStore,
  found: FoundRecord,
  options: SettleOptions,
): Promise<Settlement> {
  const { key, record } = found;
  if ((await sayings(store, found, options)).length > 0) throw refusal(unknownAgain);
  return settlementOf(record.id, await store.journal.read(key, record.id), options);
}

/** @throws {CommandError} with exit code 4 if it is refused. */
export async function settleFound(
  store: CommandStore,
  found: FoundRecord,
  options: SettleOptions,
): Promise<{ readonly entry: AuditEntry; readonly already: boolean }> {
  const { key, record } = found;
  if (record.state !== "unknown") {
    const before = await sameBefore(store, found, options);
    if (before === null) throw refusal(notUnknown(record));
    return { entry: before, already: true };
  }
  const settlement = await settlementFor(store, found, options);
  const { operator: actor, reason } = options;
  const note = { id: systemPorts.random.uuid(found.now), actor, proof: proofName(options.outcome), reason };
  const settled = await retryStoreCall(systemPorts, () =>
    store.settlement.settle(key, guardOf(record), settlement, note),
  );
  if (!settled) {
    throw refusal("The record was changed in the meantime. Look at it again: `latchkey inspect`.");
  }
  const audit = await store.settlement.audit(key);
  const entry = audit.find(({ id }) => id === note.id);
  if (entry === undefined) throw new CommandError("It was settled, but its audit row cannot be found.");
  return { entry, already: false };
}

/** The audit row of the same settlement, if it was made before: the life may have continued since. */
async function sameBefore(
  store: CommandStore,
  found: FoundRecord,
  options: SettleOptions,
): Promise<AuditEntry | null> {
  const last = options.dryRun ? undefined : (await sayings(store, found, options)).at(-1);
  return last !== undefined && (await saysTheSame(store, found, options.outcome)) ? last : null;
}

/** The audit rows of this life with the same kind of settlement by the same operator; others may have settled it since. */
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

/** An operator who repeats a command after a lost reply does not mean a doubt that arose later. */
const unknownAgain =
  "It was settled like this before, continued, and has become unknown again: what you knew then may not apply now. " +
  "Look at it with `latchkey inspect`, and settle it with a new reason.";

function notUnknown(record: LatchkeyRecord): string {
  return `Only an unknown record can be settled, and this one is ${record.state}: see \`latchkey inspect\`.`;
}

/** @throws {CommandError} when the record does not allow it. */
function settlementOf(recordId: string, journal: Journal | null, options: SettleOptions): Settlement {
  const { outcome, retentionMs, named } = options;
  if (named.downstreamKey !== undefined) callUnder(named.downstreamKey, journal);
  const resumeAfterMs = resumeAfter(journal);
  if (outcome.event === "settle_not_executed") {
    const { proof } = outcome;
    const calls = proof.kind === "downstream-deduplicates" ? "may-repeat" : "never-happened";
    const reopen =
      proof.kind === "closed-downstream" ? reopened(recordId, callUnder(proof.downstreamKey, journal)) : null;
    return { event: outcome.event, calls, reopen, resumeAfterMs };
  }
  if (hasUnreadable(journal)) {
    throw refusal(
      "This service stores through a codec, which the command does not have, so the service could not read what it wrote. " +
        "Use `latchkey.settle` in the service.",
    );
  }
  if (outcome.event === "settle_call") {
    const { call, result: value } = outcome;
    const { generation } = callNamed(call, journal);
    const result = Buffer.from(JSON.stringify(value), "utf8");
    return { event: outcome.event, call, generation, result, resumeAfterMs };
  }
  const answer = encodeAnswer(outcome.answer, Number.POSITIVE_INFINITY);
  const retention = { retentionMs, forgetAfterMs: retentionMs };
  return outcome.event === "settle_failed"
    ? { event: outcome.event, answer, retention, errorCode: "settled-failed" }
    : { event: outcome.event, answer, retention };
}

/** A worker can only resume an operation that owns its work. */
function resumeAfter(journal: Journal | null): number | null {
  return journal?.input == null ? null : 0;
}

/** A statement about a call must be about the call in doubt now: freeing a later one could make it happen twice. */
function callUnder(downstreamKey: string, journal: Journal | null) {
  const call = callInDoubt(journal);
  if (call?.downstreamKey === downstreamKey) return call;
  const instead =
    call === null
      ? "none of its calls is in doubt"
      : `the call in doubt is ${call.name}, under ${call.downstreamKey}`;
  throw refusal(`No call is in doubt under ${downstreamKey}: ${instead}.`);
}

function callNamed(name: string, journal: Journal | null) {
  const call = callInDoubt(journal);
  if (call?.name === name) return call;
  const instead = call === null ? "none of its calls is in doubt" : `the call in doubt is ${call.name}`;
  throw refusal(`The call ${name} is not in doubt: ${instead}.`);
}

function proofName(outcome: SettleOptions["outcome"]): string {
  return outcome.event === "settle_not_executed" ? outcome.proof.kind : "operator";
}
