/** Keys, lives and records in a given state, as starting points for the cases. */
import assert from "node:assert/strict";
import { type Fence, type LatchkeyRecord, type RecordKey, type RecordState, systemPorts } from "latchkey";
import {
  type AttemptEnd,
  type Fingerprint,
  guardOf,
  type InProgressRecord,
  type LeaseTerms,
  type NewLife,
  type Retention,
} from "latchkey/internal";
import type { CaseContext } from "./case.ts";

export const second = 1_000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;
export const year = 365 * day;

export const states: readonly RecordState[] = [
  "pending",
  "in_progress",
  "completed",
  "failed",
  "retryable",
  "unknown",
  "expired",
];

/** Short enough to pass with one `advance`, long enough not to end during a case. */
export const leaseMs = 10 * minute;

export const defaultTerms: LeaseTerms = {
  leaseMs,
  leaseEnd: "rerun",
  attemptsMax: 5,
  abandonAfterMs: 30 * day,
};

export const defaultRetention: Retention = { retentionMs: hour, forgetAfterMs: 2 * hour };

let keysMade = 0;

/** A key that no other case uses. */
export function newKey(overrides: Partial<RecordKey> = {}): RecordKey {
  keysMade += 1;
  return { tenant: "tenant-1", scope: "payments.create", key: `key-${keysMade}`, ...overrides };
}

export function newToken(): string {
  return systemPorts.random.token();
}

/** The other half is right, so only a comparison of this half can reject it. */
export function foreignFences(fence: Fence): readonly (readonly [what: string, fence: Fence])[] {
  return [
    ["another token with the same number", { attempt: fence.attempt, token: newToken() }],
    ["a token that differs in its last digit", { attempt: fence.attempt, token: flipLast(fence.token) }],
    ["a token that differs in its first digit", { attempt: fence.attempt, token: flipFirst(fence.token) }],
    ["the next number with the same token", { attempt: fence.attempt + 1, token: fence.token }],
    ["the previous number with the same token", { attempt: fence.attempt - 1, token: fence.token }],
  ];
}

function flipLast(token: string): string {
  return token.slice(0, -1) + (token.endsWith("0") ? "1" : "0");
}

function flipFirst(token: string): string {
  return (token.startsWith("0") ? "1" : "0") + token.slice(1);
}

export function fingerprint(fill = 7, version = 1): Fingerprint {
  return { version, digest: new Uint8Array(32).fill(fill) };
}

export function newId(): string {
  return systemPorts.random.uuid(systemPorts.clock.wallMs());
}

/** A first attempt of a new life of `key`. */
export function newLife(key: RecordKey, overrides: Partial<NewLife> = {}): NewLife {
  return {
    ...key,
    id: newId(),
    operation: key.scope,
    fingerprint: fingerprint(),
    principal: "principal-1",
    fence: { attempt: 1, token: newToken() },
    ...overrides,
  };
}

export async function createRunning(
  context: CaseContext,
  key: RecordKey,
  terms: Partial<LeaseTerms> = {},
  life: NewLife = newLife(key),
): Promise<InProgressRecord> {
  const record = await context.store.create(life, null, { ...defaultTerms, ...terms });
  assert.ok(record, "creating a record under a free key must succeed");
  return record;
}

export function completion(text = "answer", retention: Retention = defaultRetention): AttemptEnd {
  return { event: "complete", answer: new TextEncoder().encode(text), retention, errorCode: null };
}

/** One end of each kind that leaves a record. */
export const ends = {
  completed: completion(),
  failed: {
    event: "fail",
    answer: new Uint8Array([1, 2]),
    retention: defaultRetention,
    errorCode: "declined",
  },
  retryable: { event: "retry_later", errorCode: "not-executed", resumeAfterMs: null },
  unknown: { event: "doubt", errorCode: "socket-lost", reconcileAfterMs: minute },
} as const satisfies Partial<Record<RecordState, AttemptEnd>>;

/** Brings `key` into `state` and returns the record. For `expired`, the clock moves past the answer's retention. */
export async function putInState(
  context: CaseContext,
  state: RecordState,
  key: RecordKey = newKey(),
): Promise<LatchkeyRecord> {
  switch (state) {
    case "pending":
      assert.ok(await context.store.accept(newLife(key), null, day), "accepting a new key must succeed");
      break;
    case "in_progress":
      await createRunning(context, key);
      break;
    case "expired":
      await endRunning(context, key, completion("old", { retentionMs: minute, forgetAfterMs: day }));
      await context.advance(2 * minute);
      await context.store.clean(100);
      break;
    default:
      await endRunning(context, key, ends[state]);
  }
  const record = await readRecord(context, key);
  assert.equal(record.state, state, `the record was brought to ${state} and must read back so`);
  return record;
}

export async function endRunning(
  context: CaseContext,
  key: RecordKey,
  end: AttemptEnd,
): Promise<InProgressRecord> {
  const record = await createRunning(context, key);
  const ended = await context.store.end(key, record.id, record.fence, end);
  assert.ok(ended, "the owner must be able to end its attempt");
  return record;
}

/** Reads a record that must exist. */
export async function readRecord(context: CaseContext, key: RecordKey): Promise<LatchkeyRecord> {
  const { record } = await context.store.read(key);
  assert.ok(record, `a record must be stored under ${JSON.stringify(key)}`);
  return record;
}

/** Makes the key free for a new life: a record past `forgetAt`, not yet cleaned. */
export async function putForgettable(context: CaseContext, key: RecordKey): Promise<LatchkeyRecord> {
  await endRunning(context, key, completion("old", { retentionMs: minute, forgetAfterMs: minute }));
  await context.advance(2 * minute);
  return readRecord(context, key);
}

/** Guards that name another version of the record than the stored one. */
export function staleGuards(record: LatchkeyRecord) {
  const guard = guardOf(record);
  const otherState: RecordState = record.state === "unknown" ? "retryable" : "unknown";
  return [
    ["another id", { ...guard, id: newId() }],
    ["another state", { ...guard, state: otherState }],
    ...foreignFences(record.fence).map(([what, fence]) => [what, { ...guard, fence }] as const),
  ] as const;
}
