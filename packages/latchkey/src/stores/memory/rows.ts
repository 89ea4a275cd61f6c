/** The rows of the memory store. Values are copied when they are stored and when they are returned, so no caller holds a row. */
import { type Guard, type LatchkeyRecord, type RecordKey, sameFence } from "../../engine/record.ts";
import type { KeptFacts } from "../facts.ts";
import type { Step } from "../journal.ts";
import type { LeaseTerms } from "../store.ts";

/** The terms of a lease that a rescuer needs. */
export type KeptTerms = Pick<LeaseTerms, "leaseEnd" | "attemptsMax">;

/** Values that a life keeps from one state to the next. They go with the life. */
export interface KeptLife {
  /** Null if its operation does not own its work, or the life has ended. */
  readonly input: Uint8Array | null;
  /** Name of the last finished step. */
  readonly recoveryPoint: string | null;
  /** In the order in which they were written. */
  readonly steps: readonly Step[];
  /** How often it was claimed for reconciliation. */
  readonly tries: number;
  /** Whether `readById` finds it. */
  readonly addressable: boolean;
  /** The short form of its request. */
  readonly summary: Uint8Array | null;
  /** Early settlements, in the order of their arrival. */
  readonly early: readonly string[];
  readonly facts: readonly KeptFacts[];
}

export interface MemoryRow {
  readonly record: LatchkeyRecord;
  /** Null without a lease. */
  readonly terms: KeptTerms | null;
  readonly life: KeptLife;
  /** When a worker may resume it; null unless it is `retryable`, or if the next request resumes it. */
  readonly resumeAfter: number | null;
}

/** Values to store with a record; those that are absent stay as they are in this life, or have the defaults of a new one. */
export interface RowChange extends Partial<KeptLife> {
  /** None when absent. */
  readonly terms?: KeptTerms | null;
  /** None when absent. */
  readonly resumeAfter?: number | null;
}

const newLife: KeptLife = {
  input: null,
  recoveryPoint: null,
  steps: [],
  tries: 0,
  addressable: false,
  summary: null,
  early: [],
  facts: [],
};

/** One text per key; the lengths make it unique whatever the parts contain. */
export function keyText({ tenant, scope, key }: RecordKey): string {
  return `${tenant.length}:${scope.length}:${tenant}${scope}${key}`;
}

export class MemoryRows {
  readonly #rows = new Map<string, MemoryRow>();
  readonly #textOf: (key: RecordKey) => string;
  readonly #copy: <R extends LatchkeyRecord>(record: R) => R;

  /** The defaults are correct; tests of the conformance suite pass broken ones. */
  constructor(textOf = keyText, copy = copyRecord) {
    this.#textOf = textOf;
    this.#copy = copy;
  }

  find(key: RecordKey): MemoryRow | null {
    const row = this.#rows.get(this.#textOf(key));
    return row === undefined ? null : this.#copyRow(row);
  }

  record(key: RecordKey): LatchkeyRecord | null {
    const row = this.#rows.get(this.#textOf(key));
    return row === undefined ? null : this.#copy(row.record);
  }

  all(): readonly MemoryRow[] {
    return [...this.#rows.values()].map((row) => this.#copyRow(row));
  }

  /** Stores the record under its key and returns a copy of it. The life goes on when the id is the same. */
  put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    const text = this.#textOf(record);
    const before = this.#rows.get(text);
    const life = before?.record.id === record.id ? before.life : newLife;
    const { terms = null, resumeAfter = null, ...kept } = change;
    const row = { record, terms: terms && pickTerms(terms), life: { ...life, ...kept }, resumeAfter };
    this.#rows.set(
      text,
      this.#copyRow(isOver(record) ? { ...row, life: { ...row.life, input: null } } : row),
    );
    return this.#copy(record);
  }

  /** Changes nothing of the record. */
  putFacts(key: RecordKey, facts: readonly KeptFacts[]): void {
    const text = this.#textOf(key);
    const row = this.#rows.get(text);
    if (row !== undefined) this.#rows.set(text, { ...row, life: { ...row.life, facts } });
  }

  remove(key: RecordKey): void {
    this.#rows.delete(this.#textOf(key));
  }

  #copyRow(row: MemoryRow): MemoryRow {
    return { ...row, record: this.#copy(row.record), life: copyLife(row.life) };
  }
}

function pickTerms({ leaseEnd, attemptsMax }: KeptTerms): KeptTerms {
  return { leaseEnd, attemptsMax };
}

function isOver({ state }: LatchkeyRecord): boolean {
  return state === "completed" || state === "failed" || state === "expired";
}

function copyRecord<R extends LatchkeyRecord>(record: R): R {
  const fence = { attempt: record.fence.attempt, token: record.fence.token };
  const { version, digest } = record.fingerprint;
  const fingerprint = { version, digest: new Uint8Array(digest) };
  if (!("answer" in record) || record.answer === null) return { ...record, fence, fingerprint };
  return { ...record, fence, fingerprint, answer: copyBytes(record.answer) };
}

/** Small copies are taken from Node's pool, which is faster than allocating each. */
function copyBytes(bytes: Uint8Array): Uint8Array {
  const { buffer, byteOffset, byteLength } = Buffer.from(bytes);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function copyLife(life: KeptLife): KeptLife {
  return {
    ...life,
    input: copyNullable(life.input),
    summary: copyNullable(life.summary),
    steps: life.steps.map(copyStep),
  };
}

function copyStep(step: Step): Step {
  return step.kind === "phase"
    ? { ...step, result: copyBytes(step.result) }
    : { ...step, input: copyBytes(step.input), result: copyNullable(step.result) };
}

function copyNullable(bytes: Uint8Array | null): Uint8Array | null {
  return bytes === null ? null : copyBytes(bytes);
}

/** Whether `guard` names exactly this version of the record. */
export function guardHolds(record: LatchkeyRecord, guard: Guard): boolean {
  return record.id === guard.id && record.state === guard.state && sameFence(record.fence, guard.fence);
}
