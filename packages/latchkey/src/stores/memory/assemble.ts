/** Puts the parts of the memory store together. Every method is one step: no other call can come in between. */
import type { Store, StoreCapabilities } from "../store.ts";
import { endAttempt, giveUp, renew, takeOver } from "./attempt.ts";
import { accept, create, loseTransaction } from "./begin.ts";
import { memoryJournal } from "./journal.ts";
import type { MemoryState } from "./open-buffer.ts";
import { memorySettlement } from "./settlement.ts";
import { clean, endedLeases } from "./sweeps.ts";
import type { MemoryTransaction } from "./tables.ts";
import { memoryTransactions } from "./transactions.ts";

const capabilities: StoreCapabilities = Object.freeze({
  transactions: true,
  inProgress: "immediate",
  durability: "may-lose-acknowledged",
  commitNotice: true,
  // A restart forgets everything, so numbers start again.
  fenceSurvivesFailover: false,
  statusReads: "primary",
});

/** A store on the given rows and tables. */
export function assembleMemoryStore(state: MemoryState): Store<MemoryTransaction> {
  const { rows, now } = state;
  return {
    name: "memory",
    capabilities,
    transactions: memoryTransactions(state),
    journal: memoryJournal(rows, now),
    settlement: memorySettlement(state),
    async verify() {},
    read: async (key) => ({ record: rows.find(key)?.record ?? null, now: now() }),
    create: async (life, replaces, terms) => create(rows, now(), { life, replaces }, terms),
    accept: async (life, replaces, expiresAfterMs) => accept(rows, now(), { life, replaces }, expiresAfterMs),
    takeOver: async (key, guard, fingerprint, token, terms) =>
      takeOver(rows, now(), { key, guard, fingerprint }, token, terms),
    renew: async (key, id, fence, leaseMs) => renew(rows, now(), { key, id, fence }, leaseMs),
    end: async (key, id, fence, end) => endAttempt(rows, now(), { key, id, fence }, end),
    giveUp: async (key, guard, errorCode, reconcileAfterMs) =>
      giveUp(rows, now(), { key, guard }, errorCode, reconcileAfterMs),
    loseTransaction: async (life, replaces, errorCode) =>
      loseTransaction(rows, now(), { life, replaces }, errorCode),
    endedLeases: async (limit) => endedLeases(rows, now(), limit),
    clean: async (limit) => clean(rows, now(), limit),
  };
}
