/** Settling and listing. False if the guard did not hold. */
import { giveUpReason } from "../../engine/decide.ts";
import type {
  Guard,
  InProgressRecord,
  LatchkeyRecord,
  RecordKey,
  RetryableRecord,
} from "../../engine/record.ts";
import type { Random } from "../../ports.ts";
import type {
  AuditEntry,
  AuditNote,
  ClaimedUnknown,
  RecordFilter,
  Settlement,
  SettlementSupport,
} from "../settlement.ts";
import { bytes, delay, guardArguments, maybeText, retentionArguments } from "./arguments.ts";
import type { Argument } from "./client.ts";
import { collect, prefixes, timeText } from "./index-ranges.ts";
import { readingOf, type StoredReading, writtenOf } from "./records.ts";
import { listOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { recordScripts } from "./scripts/records.ts";
import { settlementScripts } from "./scripts/settlement.ts";

export function redisSettlement(runner: Runner, random: Pick<Random, "token">): SettlementSupport {
  const { layout } = runner;
  return {
    async settle(key, guard, settlement, note) {
      const to = targets[settlement.event];
      const row = auditRow(key, guard, settlement, note);
      const args = [...guardArguments(guard), note.id, settlement.event, to, row, ...changeOf(settlement)];
      return (await runner.on(layout.locationOf(key), settlementScripts.settle, args)) !== null;
    },
    async hasten(key, guard, note) {
      const event = guard.state === "retryable" || guard.state === "unknown" ? "retry" : "forget";
      const row = rowOf(key, guard, { event, from: guard.state, to: guard.state }, note);
      const args = [...guardArguments(guard), note.id, row];
      return (await runner.on(layout.locationOf(key), settlementScripts.hasten, args)) !== null;
    },
    claimUnknowns: (operations, limit, claimMs) =>
      claimUnknowns(runner, random.token(), operations, limit, claimMs),
    async postpone(key, guard, afterMs) {
      const args = [...guardArguments(guard), delay(afterMs)];
      return (await runner.on(layout.locationOf(key), settlementScripts.postpone, args)) !== null;
    },
    resumable: (operations, limit) => resumable(runner, operations, limit),
    list: (filter) => list(runner, filter),
    async audit(key) {
      const rows = listOf(await runner.on(layout.locationOf(key), settlementScripts.audit));
      return rows.map((row) => entryOf(JSON.parse(textOf(row)), key));
    },
  };
}

const targets = {
  settle_completed: "completed",
  settle_failed: "failed",
  settle_not_executed: "retryable",
  settle_call: "retryable",
} as const;

type StoredEntry = Omit<AuditEntry, "at" | "key"> & { readonly at: string };

function auditRow(key: RecordKey, guard: Guard, { event }: Settlement, note: AuditNote): string {
  return rowOf(key, guard, { event, from: guard.state, to: targets[event] }, note);
}

function rowOf(
  { tenant }: RecordKey,
  guard: Guard,
  move: Pick<AuditEntry, "event" | "from" | "to">,
  { id, actor, proof, reason }: AuditNote,
): string {
  const row: Omit<StoredEntry, "at"> = {
    id,
    actor,
    proof,
    reason,
    recordId: guard.id,
    effectId: null,
    ...move,
  };
  // With the tenant, for people who read the rows in Redis itself: the name of their list has only a digest.
  return JSON.stringify({ tenant, ...row });
}

function entryOf(row: StoredEntry, { tenant, scope, key }: RecordKey): AuditEntry {
  const { id, actor, proof, reason, at, recordId, effectId, event, from, to } = row;
  const move = { event, from, to };
  return {
    id,
    actor,
    proof,
    reason,
    at: Number(at),
    key: { tenant, scope, key },
    recordId,
    effectId,
    ...move,
  };
}

function changeOf(settlement: Settlement): readonly Argument[] {
  switch (settlement.event) {
    case "settle_completed":
    case "settle_failed": {
      const errorCode = settlement.event === "settle_failed" ? settlement.errorCode : null;
      return [bytes(settlement.answer), ...retentionArguments(settlement.retention), maybeText(errorCode)];
    }
    case "settle_not_executed": {
      const { calls, reopen, resumeAfterMs } = settlement;
      const named =
        reopen === null ? ["", "", ""] : [reopen.call, String(reopen.generation), reopen.downstreamKey];
      return [delay(resumeAfterMs), calls, ...named];
    }
    case "settle_call": {
      const { call, generation, result, resumeAfterMs } = settlement;
      return [delay(resumeAfterMs), "", call, String(generation), bytes(result)];
    }
    default:
      return settlement satisfies never;
  }
}

function claimUnknowns(
  runner: Runner,
  token: string,
  operations: readonly string[],
  limit: number,
  claimMs: number,
): Promise<readonly ClaimedUnknown[]> {
  const byPrefix = new Map(operations.map((operation) => [prefixes.unknown(operation), operation]));
  const search = { prefixes: [...byPrefix.keys()], due: true, limit };
  return collect(runner, search, async ({ location, prefix }): Promise<ClaimedUnknown | null> => {
    const args = [byPrefix.get(prefix) ?? "", token, String(claimMs)];
    const claimed = writtenOf(await runner.on(location, settlementScripts.claimUnknown, args));
    if (claimed?.record.state !== "unknown") return null;
    return { record: claimed.record, tries: claimed.tries };
  });
}

function resumable(
  runner: Runner,
  operations: readonly string[],
  limit: number,
): Promise<readonly (InProgressRecord | RetryableRecord)[]> {
  const search = { prefixes: [...new Set(operations)].map(prefixes.resumable), due: true, limit };
  return collect(runner, search, async ({ location }) => {
    const work = resumableOf(readingOf(await runner.on(location, recordScripts.read)));
    return work !== null && operations.includes(work.operation) ? work : null;
  });
}

function resumableOf({ now, stored }: StoredReading): InProgressRecord | RetryableRecord | null {
  const { record, terms = null, resumeAfter = null } = stored ?? {};
  switch (record?.state) {
    case "retryable":
      return resumeAfter !== null && now >= resumeAfter ? record : null;
    case "in_progress": {
      if (terms?.leaseEnd !== "resume" || giveUpReason(record, terms, now) !== null) return null;
      return now >= record.leaseEndsAt ? record : null;
    }
    default:
      return null;
  }
}

function list(runner: Runner, filter: RecordFilter): Promise<readonly LatchkeyRecord[]> {
  const { state, tenant, operation, limit, after } = filter;
  const start = after === null ? {} : { after: `${timeText(after.createdAt)}${after.id}\x01` };
  const search = { prefixes: [prefixes.state(state)], due: false, limit, ...start };
  return collect(runner, search, async ({ location }) => {
    const record = readingOf(await runner.on(location, recordScripts.read)).stored?.record;
    if (record?.state !== state) return null;
    if (tenant !== null && record.tenant !== tenant) return null;
    return operation === null || record.operation === operation ? record : null;
  });
}
