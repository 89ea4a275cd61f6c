/** Puts the parts of the memory store together. Every method is one step: no other call can come in between. */
import type { LatchkeyRecord } from "../../engine/record.ts";
import { systemPorts } from "../../ports.ts";
import type { Store, StoreCapabilities } from "../store.ts";
import { countActiveKeys } from "./active-keys.ts";
import { endAttempt, giveUp, renew, takeOver } from "./attempt.ts";
import { accept, claimPending, create, recordLostTransaction } from "./begin.ts";
import { memoryEarly } from "./early.ts";
import { memoryFacts } from "./facts.ts";
import { memoryHints } from "./hints.ts";
import { memoryJournal } from "./journal.ts";
import { memoryMessages } from "./messages.ts";
import type { MemoryState } from "./open-buffer.ts";
import { memoryOutbox } from "./outbox.ts";
import type { MemoryRows } from "./rows.ts";
import { listAudit, memorySettlement } from "./settlement.ts";
import { clean, endedLeases, memoryArchival } from "./sweeps.ts";
import type { MemoryTransaction } from "./tables.ts";
import { cleanAudit, memoryTenantData } from "./tenant-data.ts";
import { memoryTransactions } from "./transactions.ts";

const capabilities: StoreCapabilities = Object.freeze({
  transactions: true,
  optimisticAdmission: true,
  inProgress: "immediate",
  durability: "may-lose-acknowledged",
  commitNotice: true,
  // A restart loses everything, so attempt numbers start again.
  fenceSurvivesFailover: false,
  statusReads: "primary",
});

/** A store on the given rows and tables. */
export function assembleMemoryStore(state: MemoryState): Store<MemoryTransaction> {
  const { rows, effects, now } = state;
  return {
    name: "memory",
    capabilities,
    keepsTraces: true,
    transactions: memoryTransactions(state),
    journal: memoryJournal(rows, now),
    settlement: memorySettlement(state),
    early: memoryEarly(rows),
    summaries: {
      async of(key, id) {
        const row = rows.find(key);
        return row?.record.id === id ? row.life.summary : null;
      },
    },
    facts: memoryFacts(rows, now),
    archival: memoryArchival(state, now),
    tenantData: memoryTenantData({ ...state, newId: () => systemPorts.random.uuid(now()) }),
    outbox: memoryOutbox(effects, state.audit, now),
    messages: memoryMessages(state.messages, state.audit, now),
    hints: memoryHints(),
    countActiveKeys: async (tenants, countMax) => countActiveKeys(rows, now(), tenants, countMax),
    async verify() {},
    readById: async (tenant, id) => ({ record: byId(rows, tenant, id), now: now() }),
    read: async (key) => ({ record: rows.record(key), now: now() }),
    create: async (life, replaces, terms) => create(rows, now(), { life, replaces }, terms),
    accept: async (life, replaces, expiresAfterMs) => accept(rows, now(), { life, replaces }, expiresAfterMs),
    claimPending: async (wants) => claimPending(rows, now(), wants),
    takeOver: async (key, guard, fingerprint, token, terms) =>
      takeOver(rows, now(), { key, guard, fingerprint }, token, terms),
    renew: async (key, id, fence, leaseMs) => renew(rows, now(), { key, id, fence }, leaseMs),
    end: async (key, id, fence, end) => endAttempt(rows, now(), { key, id, fence }, end),
    giveUp: async (key, guard, errorCode, reconcileAfterMs) =>
      giveUp(rows, now(), { key, guard }, errorCode, reconcileAfterMs),
    recordLostTransaction: async (life, replaces, errorCode) =>
      recordLostTransaction(rows, now(), { life, replaces }, errorCode),
    endedLeases: async (limit) => endedLeases(rows, now(), limit),
    clean: async (limit) => clean(state, now(), limit),
    cleanAudit: async (keepMs, limit) => cleanAudit(state.audit, now(), keepMs, limit),
    listAudit: async (filter) => listAudit(state.audit, filter),
  };
}

function byId(rows: MemoryRows, tenant: string | null, id: string): LatchkeyRecord | null {
  const row = rows.all().find(({ record }) => record.id === id);
  if (row === undefined || tenant === null) return row?.record ?? null;
  return row.life.addressable && row.record.tenant === tenant ? row.record : null;
}
