/** Faults of journals and settlements: each call is one scheduling point. */
import type { JournalSupport } from "../../stores/journal.ts";
import type { SettlementSupport } from "../../stores/settlement.ts";
import type { FaultyProcess } from "./process.ts";

export function faultyJournal(inner: JournalSupport, process: FaultyProcess): JournalSupport {
  return {
    read: (key, id) => process.call("readJournal", key, () => inner.read(key, id)),
    startCall: (owner, intent) => process.call("startCall", owner.key, () => inner.startCall(owner, intent)),
    endCall: (owner, call, end) => process.call("endCall", owner.key, () => inner.endCall(owner, call, end)),
    refence: (owner, token, leaseMs, timeoutMs) =>
      process.call("refence", owner.key, () => inner.refence(owner, token, leaseMs, timeoutMs)),
    callsByDownstreamKey: (keys) =>
      process.call("callsByDownstreamKey", null, () => inner.callsByDownstreamKey(keys)),
    finishedCalls: (query) => process.call("finishedCalls", null, () => inner.finishedCalls(query)),
  };
}

export function faultySettlement(inner: SettlementSupport, process: FaultyProcess): SettlementSupport {
  return {
    settle: (key, guard, settlement, note) =>
      process.call("settle", key, () => inner.settle(key, guard, settlement, note)),
    claimUnknowns: (operations, limit, claimMs) =>
      process.call("claimUnknowns", null, () => inner.claimUnknowns(operations, limit, claimMs)),
    postpone: (key, guard, afterMs) =>
      process.call("postpone", key, () => inner.postpone(key, guard, afterMs)),
    resumable: (operations, limit) =>
      process.call("resumable", null, () => inner.resumable(operations, limit)),
    list: (filter) => process.call("listRecords", null, () => inner.list(filter)),
    audit: (key) => process.call("readAudit", key, () => inner.audit(key)),
  };
}
