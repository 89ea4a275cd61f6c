/** The data that the memory store keeps of one tenant. A position in it is the number of rows before it that were left. */
import type { RecordKey, RecordState } from "../../engine/record.ts";
import type { EffectState } from "../outbox.ts";
import type { AuditEntry } from "../settlement.ts";
import {
  countRows,
  type SweptRow,
  type TenantData,
  type TenantRemoval,
  type TenantSweep,
  tenantDeletion,
} from "../tenant-data.ts";
import { keyOf } from "./life.ts";
import type { MemoryState } from "./open-buffer.ts";

type Kept = Pick<MemoryState, "rows" | "effects" | "messages" | "audit" | "now"> & {
  /** UUIDs for audit rows. */
  readonly newId: () => string;
};

interface Thing {
  readonly key: RecordKey;
  readonly status: SweptRow["status"];
  /** For the audit row that its removal leaves; null if it leaves none. */
  readonly note: Pick<AuditEntry, "recordId" | "effectId" | "from"> | null;
  remove(): void;
}

export function memoryTenantData(kept: Kept): TenantData {
  return {
    async sweep({ tenant, part, after, limit, remove }) {
      const all = partOf(kept, tenant, part);
      const start = Number(after ?? 0);
      const page = all.slice(start, start + limit);
      const rows = page.map((thing) => ({
        status: thing.status,
        removed: remove !== null && take(kept, thing, remove),
      }));
      const left = start + rows.filter(({ removed }) => !removed).length;
      return {
        ...countRows(rows, remove),
        keys: part === "records" ? page.map(({ key }) => key) : [],
        next: start + page.length < all.length ? String(left) : null,
      };
    },
    async note(tenant, { id, actor, reason }) {
      if (kept.audit.some((entry) => entry.id === id)) return;
      const about = {
        key: { tenant, scope: "", key: "" },
        recordId: id,
        effectId: null,
        from: "none",
      } as const;
      kept.audit.push(entryOf(kept, about, { actor, reason }, id));
    },
  };
}

function take(kept: Kept, { key, status, note, remove }: Thing, removal: TenantRemoval): boolean {
  if (status === "under_way" || (status === "undecided" && !removal.undecided)) return false;
  remove();
  if (note !== null) kept.audit.push(entryOf(kept, { key, ...note }, removal, kept.newId()));
  return true;
}

function entryOf(
  { now }: Kept,
  about: Pick<AuditEntry, "key" | "recordId" | "effectId" | "from">,
  { actor, reason }: Pick<TenantRemoval, "actor" | "reason">,
  id: string,
): AuditEntry {
  return { ...about, id, at: now(), event: tenantDeletion, to: "none", actor, proof: "operator", reason };
}

function partOf(kept: Kept, tenant: string, part: TenantSweep["part"]): readonly Thing[] {
  switch (part) {
    case "effects":
      return effectsOf(kept, tenant);
    case "messages":
      return messagesOf(kept, tenant);
    case "records":
      return recordsOf(kept, tenant);
    case "early":
      // They live and go with their record.
      return [];
    case "audit":
      return auditOf(kept, tenant);
    default:
      return part satisfies never;
  }
}

function effectsOf({ effects }: Kept, tenant: string): readonly Thing[] {
  const own = effects.all().filter(({ effect }) => effect.tenant === tenant);
  return own.map(({ effect }) => {
    const { id, state, recordId } = effect;
    const isDead = state === "dead";
    return {
      key: keyOf(effect),
      status: state === "delivered" ? "over" : isDead ? "undecided" : "under_way",
      note: isDead ? { recordId, effectId: id, from: state } : null,
      remove: () => effects.remove(id),
    };
  });
}

function messagesOf({ messages }: Kept, tenant: string): readonly Thing[] {
  const own = messages.all().filter(({ facts }) => facts.tenant === tenant);
  return own.map(({ facts: { digest, operation: scope, key }, letter }) => ({
    key: { tenant, scope, key: key ?? "" },
    status: letter === null ? "over" : "undecided",
    note: letter === null ? null : { recordId: letter.id, effectId: null, from: "dead" },
    remove: () => messages.remove(digest),
  }));
}

function recordsOf({ rows, effects }: Kept, tenant: string): readonly Thing[] {
  const own = rows.all().flatMap(({ record }) => (record.tenant === tenant ? [record] : []));
  return own.map((record) => {
    const mine = effects.all().filter(({ effect }) => effect.recordId === record.id);
    const effectStates = mine.map(({ effect }) => effect.state);
    const isOpen = record.state === "retryable" || record.state === "unknown";
    return {
      key: keyOf(record),
      status: statusOf(record.state, effectStates),
      note: isOpen ? { recordId: record.id, effectId: null, from: record.state } : null,
      remove: () => rows.remove(record),
    };
  });
}

function statusOf(state: RecordState, effects: readonly EffectState[]): SweptRow["status"] {
  const waiting = effects.filter((one) => one !== "delivered");
  const runs = state === "pending" || state === "in_progress";
  if (runs || waiting.some((one) => one !== "dead")) return "under_way";
  return state === "retryable" || state === "unknown" || waiting.length > 0 ? "undecided" : "over";
}

function auditOf({ audit }: Kept, tenant: string): readonly Thing[] {
  const own = audit.filter(({ key, event }) => key.tenant === tenant && event !== tenantDeletion);
  return own.map((entry) => ({
    key: entry.key,
    status: "over",
    note: null,
    remove: () => void audit.splice(audit.indexOf(entry), 1),
  }));
}

/** @param audit oldest first */
export function cleanAudit(audit: AuditEntry[], now: number, keepMs: number, limit: number): number {
  const old = audit.filter(({ at }) => at <= now - keepMs).slice(0, limit);
  for (const entry of old) audit.splice(audit.indexOf(entry), 1);
  return old.length;
}
