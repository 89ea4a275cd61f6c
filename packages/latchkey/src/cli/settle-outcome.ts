/** The settlement to write for an outcome. */

import { reopened } from "../execution/settle.ts";
import { encodeAnswer } from "../operations/answer.ts";
import { callInDoubt } from "../operator/advice.ts";
import { hasUnreadable } from "../operator/readable.ts";
import type { Journal } from "../stores/journal.ts";
import type { Settlement } from "../stores/settlement.ts";
import { refusal } from "./command.ts";
import type { SettleOptions } from "./settle-options.ts";

/** @throws {CommandError} when the record does not allow it. */
export function settlementOf(recordId: string, journal: Journal | null, options: SettleOptions): Settlement {
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

export function proofName(outcome: SettleOptions["outcome"]): string {
  return outcome.event === "settle_not_executed" ? outcome.proof.kind : "operator";
}
