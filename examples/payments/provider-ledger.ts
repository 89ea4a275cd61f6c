/**
 * The memory of the simulated provider: one line of JSON for everything it did, appended and synced before it answers. It is
 * read back at the start, so a kill at any moment loses nothing that was answered.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/** A request for a charge. Amounts are in minor units, such as cents. */
export interface ChargeRequest {
  readonly amount: number;
  readonly currency: string;
  readonly description: string;
  /** The name by which the caller can find and close the charge. */
  readonly reference: string | null;
}

export interface Charge extends ChargeRequest {
  readonly id: string;
}

/** `key` is the `Idempotency-Key` of the request; null: none, so a repetition is not recognised. */
export type LedgerEntry =
  | { readonly did: "charge"; readonly key: string | null; readonly charge: Charge }
  | { readonly did: "refuse"; readonly key: string | null; readonly request: ChargeRequest }
  | { readonly did: "close"; readonly reference: string };

export interface Ledger {
  readonly entries: readonly LedgerEntry[];
  /**
   * Returns when the line is on disk. Synchronous, so that nothing happens between a look and the line that results from it.
   */
  append(entry: LedgerEntry): void;
  close(): void;
}

export function openLedger(path: string): Ledger {
  mkdirSync(dirname(path), { recursive: true });
  const { entries, length } = readWhole(path);
  // A line that a kill truncated was never answered: it did not happen.
  if (existsSync(path)) truncateSync(path, length);
  const file = openSync(path, "a");
  return {
    entries,
    append(entry) {
      writeSync(file, `${JSON.stringify(entry)}\n`);
      fsyncSync(file);
      entries.push(entry);
    },
    close: () => closeSync(file),
  };
}

/** Reads the ledger in this file, even while a provider writes to it. */
export function readLedger(path: string): readonly LedgerEntry[] {
  return readWhole(path).entries;
}

/** `length`: bytes of the complete lines. */
function readWhole(path: string): { entries: LedgerEntry[]; length: number } {
  const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  const length = bytes.lastIndexOf("\n") + 1;
  const lines = bytes
    .toString("utf8", 0, length)
    .split("\n")
    .filter((line) => line !== "");
  return { entries: lines.map((line) => JSON.parse(line) as LedgerEntry), length };
}
