/** The rows of the memory store. What goes in and what comes out is copied: nobody holds a row from outside. */
import { type Guard, type LatchkeyRecord, type RecordKey, sameFence } from "../../engine/record.ts";
import type { LeaseTerms } from "../store.ts";

/** The terms of a lease that a rescuer needs. */
export type KeptTerms = Pick<LeaseTerms, "leaseEnd" | "attemptsMax">;

export interface MemoryRow {
  readonly record: LatchkeyRecord;
  /** Null without a lease. */
  readonly terms: KeptTerms | null;
}

/** One text per key; quoting keeps the parts apart whatever they contain. */
export function keyText({ tenant, scope, key }: RecordKey): string {
  return JSON.stringify([tenant, scope, key]);
}

export class MemoryRows {
  readonly #rows = new Map<string, MemoryRow>();

  find(key: RecordKey): MemoryRow | null {
    const row = this.#rows.get(keyText(key));
    return row === undefined ? null : { ...row, record: copyRecord(row.record) };
  }

  all(): readonly MemoryRow[] {
    return [...this.#rows.values()].map((row) => ({ ...row, record: copyRecord(row.record) }));
  }

  /** Stores the record under its key and returns a copy of it. */
  put<R extends LatchkeyRecord>(record: R, terms: KeptTerms | null = null): R {
    const kept = terms === null ? null : { leaseEnd: terms.leaseEnd, attemptsMax: terms.attemptsMax };
    this.#rows.set(keyText(record), { record: copyRecord(record), terms: kept });
    return copyRecord(record);
  }

  remove(key: RecordKey): void {
    this.#rows.delete(keyText(key));
  }
}

function copyRecord<R extends LatchkeyRecord>(record: R): R {
  const { fence, fingerprint } = record;
  return {
    ...record,
    fence: { attempt: fence.attempt, token: fence.token },
    fingerprint: { version: fingerprint.version, digest: new Uint8Array(fingerprint.digest) },
    ...("answer" in record && record.answer !== null ? { answer: new Uint8Array(record.answer) } : {}),
  };
}

/** Whether `guard` names exactly this version of the record. */
export function guardHolds(record: LatchkeyRecord, guard: Guard): boolean {
  return record.id === guard.id && record.state === guard.state && sameFence(record.fence, guard.fence);
}
