/** Turns replies of scripts into records. */
import type { Fence, InProgressRecord, LatchkeyRecord, LeaseEnd, RecordState } from "../../engine/record.ts";
import { type RecordField, recordFields } from "./fields.ts";
import { bytesOf, listOf, nullable, numberOf, textOf } from "./replies.ts";

/** A record with further values that are stored with it. */
export interface StoredRecord {
  readonly record: LatchkeyRecord;
  /** Null without a lease. */
  readonly terms: { readonly leaseEnd: LeaseEnd; readonly attemptsMax: number } | null;
  /** When a worker may resume it; null unless it is `retryable`, or if the next request resumes it. */
  readonly resumeAfter: number | null;
  readonly tries: number;
  readonly addressable: boolean;
}

export interface StoredReading {
  readonly now: number;
  readonly stored: StoredRecord | null;
}

/** A reply of the view of a record: the time, the answer, then the fields. */
export function readingOf(reply: unknown): StoredReading {
  const [now, answer, ...values] = listOf(reply);
  const fields = new Fields(values);
  return { now: numberOf(now), stored: fields.has("id") ? storedOf(fields, answer) : null };
}

/** The record of a step that succeeded; null if its guard did not hold. */
export function writtenOf(reply: unknown): StoredRecord | null {
  return reply === null ? null : readingOf(reply).stored;
}

export function runningOf(stored: StoredRecord | null): InProgressRecord | null {
  return stored?.record.state === "in_progress" ? stored.record : null;
}

const places = new Map(recordFields.map((name, index) => [name, index]));

class Fields {
  readonly #values: readonly unknown[];

  constructor(values: readonly unknown[]) {
    this.#values = values;
  }

  get(name: RecordField): unknown {
    return this.#values[places.get(name) ?? -1] ?? null;
  }

  has(name: RecordField): boolean {
    return this.get(name) !== null;
  }

  text(name: RecordField): string {
    return textOf(this.get(name));
  }

  number(name: RecordField): number {
    return numberOf(this.get(name));
  }

  time(name: RecordField): number | null {
    return nullable(this.get(name), numberOf);
  }

  maybe(name: RecordField): string | null {
    return nullable(this.get(name), textOf);
  }
}

function storedOf(fields: Fields, answer: unknown): StoredRecord {
  const leaseEnd = fields.maybe("lend");
  return {
    record: recordOf(fields, answer),
    terms: leaseEnd === null ? null : { leaseEnd: leaseEnd as LeaseEnd, attemptsMax: fields.number("am") },
    resumeAfter: fields.time("rs"),
    tries: fields.time("tr") ?? 0,
    addressable: fields.has("ad"),
  };
}

function recordOf(fields: Fields, answer: unknown): LatchkeyRecord {
  const state = fields.text("st") as RecordState;
  const life = lifeOf(fields);
  const lastErrorCode = fields.maybe("er");
  switch (state) {
    case "pending":
      return { ...life, state, expiresAt: fields.number("ex") };
    case "in_progress":
      return { ...life, state, leaseEndsAt: fields.number("le"), expiresAt: fields.number("ex") };
    case "completed":
    case "failed": {
      const times = { finishedAt: fields.number("fi"), expiresAt: fields.number("ex") };
      const kept = { answer: nullable(answer, bytesOf), lastErrorCode };
      return { ...life, state, ...times, forgetAt: fields.number("fg"), ...kept };
    }
    case "retryable":
      return { ...life, state, lastErrorCode };
    case "unknown":
      return { ...life, state, lastErrorCode, reconcileAfter: fields.time("ra") };
    case "expired":
      return { ...life, state, finishedAt: fields.number("fi"), forgetAt: fields.number("fg") };
    default:
      return state satisfies never;
  }
}

function lifeOf(fields: Fields) {
  const fence: Fence = { attempt: fields.number("at"), token: fields.text("tk") };
  const trace = fields.maybe("tp");
  return {
    ...(trace === null ? {} : { trace }),
    tenant: fields.text("t"),
    scope: fields.text("s"),
    key: fields.text("k"),
    id: fields.text("id"),
    operation: fields.text("op"),
    fingerprint: { version: fields.number("fv"), digest: bytesOf(fields.get("fd")) },
    principal: fields.maybe("pr"),
    fence,
    createdAt: fields.number("ca"),
  };
}
