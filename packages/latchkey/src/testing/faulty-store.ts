/**
 * A store seen through a network that fails on purpose. Every call is one scheduling point: it can be parked before it
 * reaches the store and after, fail, lose its request or its reply, arrive late, or never return because the process that
 * made it died.
 */
import type { Store } from "../stores/store.ts";
import { wrapped } from "../stores/wrapped.ts";
import type { FaultPlan } from "./faulty-store/fault.ts";
import { faultyOptional } from "./faulty-store/optional-parts.ts";
import { FaultyProcess } from "./faulty-store/process.ts";
import {
  faultyHints,
  faultyJournal,
  faultyMessages,
  faultyOutbox,
  faultySettlement,
} from "./faulty-store/sub-ports.ts";
import { faultyTransactions } from "./faulty-store/transactions.ts";

export interface FaultyStore<Tx> {
  readonly store: Store<Tx>;
  /**
   * The process dies: none of its calls is answered any more, and the store ends its open transactions, as when connections
   * break.
   */
  kill(): void;
}

/** Wraps `inner` as one process sees it. Several wrappers around one store are several processes. */
export function faultyStore<Tx>(inner: Store<Tx>, plan: FaultPlan): FaultyStore<Tx> {
  const process = new FaultyProcess(plan);
  const store = wrapped<Store<Tx>>({
    ...faultyOptional(inner, process),
    name: inner.name,
    capabilities: inner.capabilities,
    transactions: inner.transactions === null ? null : faultyTransactions(inner.transactions, process),
    journal: faultyJournal(inner.journal, process),
    settlement: faultySettlement(inner.settlement, process),
    outbox: inner.outbox === null ? null : faultyOutbox(inner.outbox, process),
    messages: inner.messages === null ? null : faultyMessages(inner.messages, process),
    hints: inner.hints === null ? null : faultyHints(inner.hints, process),
    verify: () => process.call("verify", null, () => inner.verify()),
    read: (key) => process.call("read", key, () => inner.read(key)),
    readById: (tenant, id) => process.call("readById", null, () => inner.readById(tenant, id)),
    create: (life, replaces, terms) =>
      process.call("create", life, () => inner.create(life, replaces, terms)),
    accept: (life, replaces, expiresAfterMs) =>
      process.call("accept", life, () => inner.accept(life, replaces, expiresAfterMs)),
    claimPending: (wants) => process.call("claimPending", null, () => inner.claimPending(wants)),
    takeOver: (key, guard, fingerprint, token, terms) =>
      process.call("takeOver", key, () => inner.takeOver(key, guard, fingerprint, token, terms)),
    renew: (key, id, fence, leaseMs) =>
      process.call("renew", key, () => inner.renew(key, id, fence, leaseMs)),
    end: (key, id, fence, end) => process.call("end", key, () => inner.end(key, id, fence, end)),
    giveUp: (key, guard, errorCode, reconcileAfterMs) =>
      process.call("giveUp", key, () => inner.giveUp(key, guard, errorCode, reconcileAfterMs)),
    recordLostTransaction: (life, replaces, errorCode) =>
      process.call("recordLostTransaction", life, () =>
        inner.recordLostTransaction(life, replaces, errorCode),
      ),
    endedLeases: (limit) => process.call("endedLeases", null, () => inner.endedLeases(limit)),
    clean: (limit) => process.call("clean", null, () => inner.clean(limit)),
  });
  return { store, kill: () => process.kill() };
}
