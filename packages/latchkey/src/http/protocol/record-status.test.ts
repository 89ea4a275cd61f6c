import { describe, expect, test } from "vitest";
import type { LatchkeyRecord } from "../../engine/record.ts";
import { statusOf } from "./record-status.ts";

const base = {
  tenant: "t",
  scope: "s",
  key: "k",
  id: "id",
  operation: "s",
  fingerprint: { version: 1, digest: new Uint8Array(32) },
  principal: "ada",
  fence: { attempt: 1, token: "0".repeat(32) },
  createdAt: 0,
};
const ends = { finishedAt: 5, expiresAt: 10, forgetAt: 20, answer: null, lastErrorCode: null };
const runs = { kind: "in_progress", recordId: "id", createdAt: 0, leaseEndsAt: null };
const pending: LatchkeyRecord = { ...base, state: "pending", expiresAt: 10 };
const running: LatchkeyRecord = { ...base, state: "in_progress", leaseEndsAt: 10, expiresAt: 20 };
const retryable: LatchkeyRecord = { ...base, state: "retryable", lastErrorCode: null };
const completed: LatchkeyRecord = { ...base, ...ends, state: "completed" };
const purged: LatchkeyRecord = { ...base, state: "expired", finishedAt: 5, forgetAt: 20 };
const unknown: LatchkeyRecord = { ...base, state: "unknown", lastErrorCode: null, reconcileAfter: 9 };

const status = (record: LatchkeyRecord | null, now = 0, principal: string | null = "ada", resumes = true) =>
  statusOf(record, principal, now, resumes);

describe("a record, to its own caller", () => {
  test("that is pending waits, until workers no longer claim it", () => {
    const waiting = { kind: "waiting", state: "pending", recordId: "id", decision: runs };
    expect(status(pending, 9)).toEqual(waiting);
    expect(status(pending, 10)).toEqual({ kind: "decided", decision: { kind: "timeout", recordId: "id" } });
  });

  test("that runs is running, even after its lease has ended", () => {
    const waiting = { kind: "waiting", state: "running", recordId: "id", decision: runs };
    expect(status(running, 9)).toEqual(waiting);
    expect(status(running, 99)).toEqual(waiting);
  });

  test("whose attempt has ended early waits if a worker resumes it, but not if only a request does", () => {
    expect(status(retryable)).toMatchObject({ kind: "waiting", state: "pending" });
    expect(status(retryable, 0, "ada", false)).toEqual({ kind: "stopped", recordId: "id", decision: runs });
  });

  test("that is finished has its answer, then is expired, then forgotten", () => {
    for (const record of [completed, { ...completed, state: "failed" } as const]) {
      expect(status(record, 9)).toEqual({ kind: "decided", decision: { kind: "replay", record } });
      expect(status(record, 10)).toEqual({ kind: "decided", decision: { kind: "expired" } });
      expect(status(record, 20)).toEqual({ kind: "absent" });
    }
    expect(status(purged, 19)).toEqual({ kind: "decided", decision: { kind: "expired" } });
    expect(status(purged, 20)).toEqual({ kind: "absent" });
  });

  test("whose outcome is unknown has the time of its next look-up", () => {
    const decision = { kind: "unknown", recordId: "id", reconcileAfter: 9 };
    expect(status(unknown)).toEqual({ kind: "decided", decision });
  });
});

test("other callers see no record", () => {
  for (const record of [null, pending, running, retryable, completed, purged, unknown]) {
    for (const principal of ["bob", null]) expect(status(record, 0, principal)).toEqual({ kind: "absent" });
  }
  expect(status({ ...running, principal: null }, 0, "ada")).toEqual({ kind: "absent" });
  expect(status({ ...running, principal: null }, 0, null)).toMatchObject({ kind: "waiting" });
});
