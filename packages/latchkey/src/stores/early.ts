/**
 * Early settlements: what was said of a life before anybody knew that its outcome is in doubt. A webhook may be faster than the
 * attempt that it speaks of. Only an `unknown` record is settled, so what is said before is kept, and settles the record once
 * it is `unknown`; a record that ends otherwise has no use for it.
 *
 * Keeping is one atomic step. What is kept belongs to one life and goes with it; a store may remove it later than the life.
 */
import type { Guard, RecordKey, UnknownRecord } from "../engine/record.ts";
import type { AuditNote, Settlement } from "./settlement.ts";

export interface EarlySettlement {
  readonly settlement: Settlement;
  /** Of the audit row that the settlement gets when it is used. */
  readonly note: AuditNote;
  /** The attempt during which it was said. */
  readonly attempt: number;
  /** The call that it is said of: of any other it says nothing. Null: of the operation as a whole. */
  readonly call: { readonly name: string; readonly generation: number } | null;
}

export interface EarlySettlements {
  /**
   * Keeps it for the life that the guard names, which is `in_progress` or `retryable`. The same note again keeps nothing twice
   * and answers true. False: the record is not so any more; nothing was written.
   */
  keep(key: RecordKey, guard: Guard, early: EarlySettlement): Promise<boolean>;

  /** What is kept for this life, in the order in which it came. A settlement that was reported as kept is found here. */
  of(key: RecordKey, recordId: string): Promise<readonly EarlySettlement[]>;

  /** At most `limit` `unknown` records for which a settlement is kept and was not applied yet. */
  due(limit: number): Promise<readonly UnknownRecord[]>;
}

/** As text, for stores that keep it whole. */
export function encodeEarly(early: EarlySettlement): string {
  return JSON.stringify(early, (_, value: unknown) =>
    value instanceof Uint8Array ? { bytes: Buffer.from(value).toString("base64") } : value,
  );
}

export function decodeEarly(text: string): EarlySettlement {
  return JSON.parse(text, (_, value: unknown) => (isBytes(value) ? bytesOf(value.bytes) : value));
}

function isBytes(value: unknown): value is { readonly bytes: string } {
  return typeof value === "object" && value !== null && "bytes" in value && typeof value.bytes === "string";
}

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, "base64"));
}
