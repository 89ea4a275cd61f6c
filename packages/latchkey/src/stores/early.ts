/**
 * Early settlements: they arrive before the record's outcome is known to be in doubt, because a webhook may be faster than
 * the attempt that it reports on. Only an `unknown` record is settled, so an earlier settlement is kept, and applied once the
 * record is `unknown`; a record that ends otherwise does not need it.
 *
 * Keeping is one atomic step. A kept settlement belongs to one life and goes with it; a store may remove it later than the life.
 */
import type { Guard, RecordKey, UnknownRecord } from "../engine/record.ts";
import type { AuditNote, Settlement } from "./settlement.ts";

export interface EarlySettlement {
  readonly settlement: Settlement;
  /** For the audit row that the settlement gets when it is applied. */
  readonly note: AuditNote;
  /** The attempt during which the settlement arrived. */
  readonly attempt: number;
  /** The only call that it settles. Null: the operation as a whole. */
  readonly call: { readonly name: string; readonly generation: number } | null;
}

export interface EarlySettlements {
  /**
   * Keeps it for the life that the guard names, which is `in_progress` or `retryable`. A repetition with the same note adds
   * nothing and returns true. False if the record is in another state or version by now; nothing was written.
   */
  keep(key: RecordKey, guard: Guard, early: EarlySettlement): Promise<boolean>;

  /** The settlements kept for this life, in the order of their arrival, including every one for which `keep` returned true. */
  of(key: RecordKey, recordId: string): Promise<readonly EarlySettlement[]>;

  /** At most `limit` `unknown` records for which a settlement is kept and was not applied yet. */
  due(limit: number): Promise<readonly UnknownRecord[]>;
}

/** As text, for stores that store it in one field. */
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
