/** Faults of journals, settlements, outboxes and hints: each call is one scheduling point. */
import type { HintSupport } from "../../stores/hints.ts";
import type { JournalSupport } from "../../stores/journal.ts";
import type { MessageSupport } from "../../stores/messages.ts";
import type { OutboxSupport } from "../../stores/outbox.ts";
import type { SettlementSupport } from "../../stores/settlement.ts";
import { wrapped } from "../../stores/wrapped.ts";
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
    hasten: (key, guard, note) => process.call("hasten", key, () => inner.hasten(key, guard, note)),
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

export function faultyOutbox(inner: OutboxSupport, process: FaultyProcess): OutboxSupport {
  const { byDownstreamKey, finished } = inner;
  return wrapped<OutboxSupport>({
    partOf: inner.partOf?.bind(inner),
    byDownstreamKey:
      byDownstreamKey &&
      ((keys) => process.call("effectsByKey", null, () => byDownstreamKey.call(inner, keys))),
    finished:
      finished && ((query) => process.call("finishedEffects", null, () => finished.call(inner, query))),
    claim: (wants, token, leaseMs) =>
      process.call("claimEffects", null, () => inner.claim(wants, token, leaseMs)),
    start: (claims, leaseMs) => process.call("startEffects", null, () => inner.start(claims, leaseMs)),
    end: (ends) => process.call("endEffects", null, () => inner.end(ends)),
    rescue: (limit) => process.call("rescueEffects", null, () => inner.rescue(limit)),
    list: (filter) => process.call("listEffects", null, () => inner.list(filter)),
    ofRecord: (recordId) => process.call("effectsOfRecord", null, () => inner.ofRecord(recordId)),
    confirm: (confirmation, note) =>
      process.call("confirmEffect", null, () => inner.confirm(confirmation, note)),
    decide: (id, decision, note) =>
      process.call("decideEffect", null, () => inner.decide(id, decision, note)),
  });
}

export function faultyMessages(inner: MessageSupport, process: FaultyProcess): MessageSupport {
  return {
    find: (digest, tenant) => process.call("findMessage", null, () => inner.find(digest, tenant)),
    count: (facts, count, id) => process.call("countMessage", null, () => inner.count(facts, count, id)),
    forget: (digest, tenant) => process.call("forgetMessage", null, () => inner.forget(digest, tenant)),
    bury: (facts, letter, judged) =>
      process.call("buryMessage", null, () => inner.bury(facts, letter, judged)),
    list: (filter) => process.call("listMessages", null, () => inner.list(filter)),
    remove: (id, event, note) => process.call("removeMessage", null, () => inner.remove(id, event, note)),
  };
}

/** A lost hint is an error for neither side: the listener just does not get it. */
export function faultyHints(inner: HintSupport, process: FaultyProcess): HintSupport {
  return {
    send(hint) {
      process.call("sendHint", null, async () => inner.send(hint)).catch(() => {});
    },
    listen: (listener) =>
      process.call("listenToHints", null, () =>
        inner.listen((hint) => {
          process.call("receiveHint", null, async () => listener(hint)).catch(() => {});
        }),
      ),
  };
}
