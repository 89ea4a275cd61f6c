import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AdmissionRequest, decide, giveUpReason, sameFingerprint, type Verdict } from "./decide.ts";
import {
  type Fingerprint,
  guardOf,
  type InProgressRecord,
  type LatchkeyRecord,
  type RecordState,
} from "./record.ts";
import { transition } from "./transition.ts";

const leaseEndsAt = 1_500;
const expiresAt = 2_000;
const abandonAt = 2_500;
const forgetAt = 3_000;

const fingerprint: Fingerprint = { version: 1, digest: new Uint8Array([1, 2, 3]) };

const life = {
  tenant: "tenant-1",
  scope: "payments.create",
  key: "key-1",
  id: "record-1",
  operation: "payments.create",
  fingerprint,
  principal: "principal-1",
  fence: { attempt: 2, token: "token-of-the-record" },
  createdAt: 100,
};

const inProgress: InProgressRecord = { ...life, state: "in_progress", leaseEndsAt, expiresAt: abandonAt };
const finished = { finishedAt: 1_000, expiresAt, forgetAt, lastErrorCode: null };

const records: Readonly<Record<RecordState, LatchkeyRecord>> = {
  pending: { ...life, state: "pending", expiresAt },
  in_progress: inProgress,
  completed: { ...life, ...finished, state: "completed", answer: new Uint8Array([1]) },
  failed: { ...life, ...finished, state: "failed", answer: null },
  retryable: { ...life, state: "retryable", lastErrorCode: null },
  unknown: { ...life, state: "unknown", lastErrorCode: "socket-lost", reconcileAfter: 1_234 },
  expired: { ...life, state: "expired", finishedAt: 1_000, forgetAt },
};

const request: AdmissionRequest = {
  operation: life.operation,
  fingerprint: { version: 1, digest: new Uint8Array([1, 2, 3]) },
  principal: life.principal,
  token: "token-of-the-request",
  reuse: "reject",
  leaseEnd: "rerun",
  attemptsMax: 3,
};

/** One word for a verdict: its kind, or that of the decision it answers with. */
function wordOf(verdict: Verdict): string {
  switch (verdict.kind) {
    case "answer":
      return verdict.decision.kind;
    case "give_up":
      return `give_up: ${verdict.because}`;
    default:
      return verdict.kind;
  }
}

const ages = [0, leaseEndsAt - 1, leaseEndsAt, expiresAt, abandonAt, forgetAt, 1e15];

describe("a request that matches its record", () => {
  test.each<readonly [RecordState, now: number, reject: string, execute: string]>([
    ["completed", 1_000, "replay", "replay"],
    ["completed", expiresAt - 1, "replay", "replay"],
    ["completed", expiresAt, "expired", "create"],
    ["completed", forgetAt - 1, "expired", "create"],
    ["completed", forgetAt, "create", "create"],
    ["failed", 1_000, "replay", "replay"],
    ["failed", expiresAt - 1, "replay", "replay"],
    ["failed", expiresAt, "expired", "create"],
    ["failed", forgetAt - 1, "expired", "create"],
    ["failed", forgetAt, "create", "create"],
    ["expired", expiresAt, "expired", "create"],
    ["expired", forgetAt - 1, "expired", "create"],
    ["expired", forgetAt, "create", "create"],
    ["pending", 0, "in_progress", "in_progress"],
    ["pending", expiresAt - 1, "in_progress", "in_progress"],
    ["pending", expiresAt, "timeout", "timeout"],
    ["pending", 1e15, "timeout", "timeout"],
    ...ages.map((now) => ["retryable", now, "take_over", "take_over"] as const),
    ...ages.map((now) => ["unknown", now, "unknown", "unknown"] as const),
  ])("%s at %d: %s, or %s where expired keys may run", (state, now, reject, execute) => {
    const record = records[state];
    expect(wordOf(decide(record, { ...request, reuse: "reject" }, now))).toBe(reject);
    expect(wordOf(decide(record, { ...request, reuse: "execute" }, now))).toBe(execute);
  });

  test.each<readonly [now: number, Pick<AdmissionRequest, "leaseEnd" | "attemptsMax">, string]>([
    [leaseEndsAt - 1, { leaseEnd: "reconcile", attemptsMax: 3 }, "in_progress"],
    [leaseEndsAt, { leaseEnd: "reconcile", attemptsMax: 3 }, "give_up: lease-ended"],
    [abandonAt, { leaseEnd: "reconcile", attemptsMax: 1 }, "give_up: lease-ended"],
    [leaseEndsAt - 1, { leaseEnd: "rerun", attemptsMax: 3 }, "in_progress"],
    [leaseEndsAt, { leaseEnd: "rerun", attemptsMax: 3 }, "take_over"],
    [abandonAt - 1, { leaseEnd: "rerun", attemptsMax: 3 }, "take_over"],
    [abandonAt, { leaseEnd: "rerun", attemptsMax: 3 }, "give_up: past-expiry"],
    [leaseEndsAt - 1, { leaseEnd: "rerun", attemptsMax: 2 }, "in_progress"],
    [leaseEndsAt, { leaseEnd: "rerun", attemptsMax: 2 }, "give_up: attempts-spent"],
    [leaseEndsAt, { leaseEnd: "rerun", attemptsMax: 1 }, "give_up: attempts-spent"],
    [abandonAt, { leaseEnd: "rerun", attemptsMax: 2 }, "give_up: attempts-spent"],
    [leaseEndsAt - 1, { leaseEnd: "resume", attemptsMax: 3 }, "in_progress"],
    [leaseEndsAt, { leaseEnd: "resume", attemptsMax: 3 }, "take_over"],
    [abandonAt - 1, { leaseEnd: "resume", attemptsMax: 3 }, "take_over"],
    [abandonAt, { leaseEnd: "resume", attemptsMax: 3 }, "give_up: past-expiry"],
    [leaseEndsAt, { leaseEnd: "resume", attemptsMax: 2 }, "give_up: attempts-spent"],
  ])("in_progress at %d under %o: %s, whatever expired keys may do", (now, policy, word) => {
    for (const reuse of ["reject", "execute"] as const) {
      expect(wordOf(decide(inProgress, { ...request, ...policy, reuse }, now))).toBe(word);
    }
  });

  test("an attempt that outlives its abandonment is running as long as its lease is", () => {
    const late = { ...inProgress, leaseEndsAt: abandonAt + 10 };
    expect(wordOf(decide(late, request, abandonAt))).toBe("in_progress");
    expect(wordOf(decide(late, request, abandonAt + 10))).toBe("give_up: past-expiry");
  });

  test("retention and forgetting at one moment leave no time for a refusal", () => {
    const record = { ...records.completed, forgetAt: expiresAt };
    expect(wordOf(decide(record, request, expiresAt - 1))).toBe("replay");
    expect(wordOf(decide(record, request, expiresAt))).toBe("create");
  });

  test.each(ages)("its own attempt, whose reply was lost, is its own at %d", (now) => {
    const own = { ...request, token: life.fence.token };
    for (const leaseEnd of ["reconcile", "resume", "rerun"] as const) {
      expect(decide(inProgress, { ...own, leaseEnd }, now)).toEqual({ kind: "own", record: inProgress });
    }
  });

  test.each(Object.values(records).filter(({ state }) => state !== "in_progress"))(
    "its token is worth nothing on a record that is $state",
    (record) => {
      const own = { ...request, token: life.fence.token };
      expect(decide(record, own, 1_000)).toEqual(decide(record, request, 1_000));
    },
  );
});

describe("without a record", () => {
  test.each(ages)("a new life begins on nothing (at %d)", (now) => {
    expect(decide(null, request, now)).toEqual({ kind: "create", replaces: null });
  });
});

describe("what an answer tells", () => {
  test("a replay carries the record", () => {
    const expected = { kind: "answer", decision: { kind: "replay", record: records.completed } };
    expect(decide(records.completed, request, 1_000)).toEqual(expected);
  });

  test("a running attempt tells how old it is and when its lease ends, a waiting one has none", () => {
    const decisionFor = (record: LatchkeyRecord) => decide(record, request, 1_000);
    const recordId = life.id;
    expect(decisionFor(inProgress)).toEqual({
      kind: "answer",
      decision: { kind: "in_progress", recordId, createdAt: 100, leaseEndsAt },
    });
    expect(decisionFor(records.pending)).toEqual({
      kind: "answer",
      decision: { kind: "in_progress", recordId, createdAt: 100, leaseEndsAt: null },
    });
  });

  test("an unknown outcome tells when reconciliation asks next", () => {
    const decision = { kind: "unknown", recordId: life.id, reconcileAfter: 1_234 };
    expect(decide(records.unknown, request, 1_000)).toEqual({ kind: "answer", decision });
  });
});

/** Every way in which a request can differ from its record, in the order in which the differences are reported. */
const differences: readonly (readonly [
  because: "principal" | "operation" | "fingerprint",
  Partial<AdmissionRequest>,
])[] = [
  ["principal", { principal: "principal-2" }],
  ["principal", { principal: null }],
  ["principal", { principal: "" }],
  ["principal", { principal: "principal-2", operation: "payments.refund" }],
  ["operation", { operation: "payments.refund" }],
  ["operation", { operation: "payments.refund", fingerprint: { version: 1, digest: new Uint8Array() } }],
  ["fingerprint", { fingerprint: { version: 1, digest: new Uint8Array([1, 2, 4]) } }],
  ["fingerprint", { fingerprint: { version: 1, digest: new Uint8Array([1, 2]) } }],
  ["fingerprint", { fingerprint: { version: 1, digest: new Uint8Array([1, 2, 3, 0]) } }],
  ["fingerprint", { fingerprint: { version: 2, digest: new Uint8Array([1, 2, 3]) } }],
];

describe("a request that differs from its record", () => {
  const cells = Object.values(records).flatMap((record) =>
    differences.flatMap(([because, difference]) => ages.map((now) => ({ record, because, difference, now }))),
  );

  test("is misuse wherever the key does not run as new, whatever else it would have been", () => {
    for (const { record, because, difference, now } of cells) {
      for (const reuse of ["reject", "execute"] as const) {
        const same = decide(record, { ...request, reuse }, now);
        const other = decide(record, { ...request, ...difference, reuse }, now);
        // Only of a request that was never started, and will not be, is it known that nothing happened.
        const idle =
          because !== "principal" &&
          (record.state === "failed" || (record.state === "pending" && now >= expiresAt));
        const decision = { kind: "key_misuse", because, ...(idle ? { nothingHappened: true } : {}) };
        const misuse = { kind: "answer", decision };
        expect(other, `${record.state} at ${now}`).toEqual(same.kind === "create" ? same : misuse);
      }
    }
  });

  test("a failure with an answer may come after steps that have happened", () => {
    const record = { ...records.failed, answer: new Uint8Array([1]) } as LatchkeyRecord;
    const verdict = decide(record, { ...request, operation: "refunds.create" }, 1_000);
    expect(verdict).toEqual({ kind: "answer", decision: { kind: "key_misuse", because: "operation" } });
  });

  test("is misuse also under the record's own token", () => {
    const other = { ...request, token: life.fence.token, principal: "principal-2" };
    expect(wordOf(decide(inProgress, other, 1_000))).toBe("key_misuse");
  });

  test("a record without a principal is nobody else's", () => {
    const record = { ...records.completed, principal: null };
    expect(wordOf(decide(record, request, 1_000))).toBe("key_misuse");
    expect(wordOf(decide(record, { ...request, principal: null }, 1_000))).toBe("replay");
  });
});

describe("giving up", () => {
  test("names the policy first, then the attempts, then the age", () => {
    const spent = { leaseEnd: "reconcile", attemptsMax: 1 } as const;
    expect(giveUpReason(inProgress, spent, abandonAt)).toBe("lease-ended");
    expect(giveUpReason(inProgress, { ...spent, leaseEnd: "rerun" }, abandonAt)).toBe("attempts-spent");
    const left = { leaseEnd: "rerun", attemptsMax: 3 } as const;
    expect(giveUpReason(inProgress, left, abandonAt)).toBe("past-expiry");
    expect(giveUpReason(inProgress, left, abandonAt - 1)).toBeNull();
  });
});

const digests = fc.uint8Array({ maxLength: 4 });
const fingerprints = fc.record({ version: fc.integer({ min: 1, max: 2 }), digest: digests });

describe("equal fingerprints", () => {
  test("have one version and the same bytes", () => {
    fc.assert(
      fc.property(fingerprints, fingerprints, (left, right) => {
        const same = left.version === right.version && Buffer.compare(left.digest, right.digest) === 0;
        expect(sameFingerprint(left, right)).toBe(same);
        expect(sameFingerprint(right, left)).toBe(same);
      }),
    );
  });
});

const times = fc.integer({ min: 0, max: 5_000 });

/** Any record at all: any state, any order of its times. */
const anyRecord: fc.Arbitrary<LatchkeyRecord> = fc
  .record({
    state: fc.constantFrom<RecordState>(
      "pending",
      "in_progress",
      "completed",
      "failed",
      "retryable",
      "unknown",
      "expired",
    ),
    fence: fc.record({ attempt: fc.integer({ min: 1, max: 5 }), token: fc.constantFrom("a", "b") }),
    fingerprint: fingerprints,
    principal: fc.constantFrom("p", "q", null),
    operation: fc.constantFrom("payments.create", "payments.refund"),
    leaseEndsAt: times,
    expiresAt: times,
    keptMs: times,
  })
  .map(({ state, leaseEndsAt, expiresAt, keptMs, ...rest }) => {
    const template = records[state];
    return {
      ...template,
      ...rest,
      ...("leaseEndsAt" in template ? { leaseEndsAt } : {}),
      ...("expiresAt" in template ? { expiresAt } : {}),
      ...("forgetAt" in template ? { forgetAt: expiresAt + keptMs } : {}),
    };
  });

const anyRequest: fc.Arbitrary<AdmissionRequest> = fc.record({
  operation: fc.constantFrom("payments.create", "payments.refund"),
  fingerprint: fingerprints,
  principal: fc.constantFrom("p", "q", null),
  token: fc.constantFrom("a", "b", "c"),
  reuse: fc.constantFrom("reject", "execute"),
  leaseEnd: fc.constantFrom("reconcile", "resume", "rerun"),
  attemptsMax: fc.integer({ min: 1, max: 5 }),
});

const property = (holds: (record: LatchkeyRecord, request: AdmissionRequest, now: number) => void) =>
  fc.assert(fc.property(anyRecord, anyRequest, times, holds), { numRuns: 5_000 });

/** What a record counts as when a new life may begin in its place. */
const ending = new Set<RecordState>(["completed", "failed", "expired"]);

describe("any request on any record", () => {
  test("a write names the record as it was seen, and takes an edge that exists", () => {
    property((record, request, now) => {
      const verdict = decide(record, request, now);
      switch (verdict.kind) {
        case "create":
          expect(verdict.replaces).toEqual(guardOf(record));
          expect(ending).toContain(record.state);
          break;
        case "take_over":
        case "give_up":
          expect(verdict.guard).toEqual(guardOf(record));
          transition(record.state, verdict.kind);
          break;
        case "own":
        case "answer":
          break;
        default:
          verdict satisfies never;
      }
    });
  });

  test("another request's body neither runs nor replays while the key is kept (I2)", () => {
    property((record, request, now) => {
      const verdict = decide(record, request, now);
      if (verdict.kind === "create" || sameFingerprint(record.fingerprint, request.fingerprint)) return;
      expect(wordOf(verdict)).toBe("key_misuse");
    });
  });

  test("an unknown outcome leads to no write (I6)", () => {
    property((record, request, now) => {
      if (record.state === "unknown") expect(decide(record, request, now).kind).toBe("answer");
    });
  });

  test("a finished answer is final until its time has come (I5)", () => {
    property((record, request, now) => {
      if (record.state !== "completed" && record.state !== "failed") return;
      if (now < record.expiresAt) expect(decide(record, request, now).kind).toBe("answer");
    });
  });

  test("nobody takes a lease that is running", () => {
    property((record, request, now) => {
      if (record.state !== "in_progress" || now >= record.leaseEndsAt) return;
      expect(["own", "answer"]).toContain(decide(record, request, now).kind);
    });
  });

  test("what has run out stays run out: time never brings a replay back", () => {
    fc.assert(
      fc.property(anyRecord, anyRequest, times, times, (record, request, now, laterMs) => {
        const later = wordOf(decide(record, request, now + laterMs));
        if (later === "replay") expect(wordOf(decide(record, request, now))).toBe("replay");
        if (wordOf(decide(record, request, now)) === "create") expect(later).toBe("create");
      }),
      { numRuns: 5_000 },
    );
  });

  test("a decision does not depend on where the clock began", () => {
    fc.assert(
      fc.property(anyRecord, anyRequest, times, fc.integer({ max: 1e12 }), (record, request, now, shift) => {
        const shifted = Object.fromEntries(
          Object.entries(record).map(([name, value]) => [name, /At$/.test(name) ? value + shift : value]),
        ) as unknown as LatchkeyRecord;
        expect(wordOf(decide(shifted, request, now + shift))).toBe(wordOf(decide(record, request, now)));
      }),
    );
  });

  test("nothing is changed, and the same question has the same answer", () => {
    property((record, request, now) => {
      const before = structuredClone({ record, request });
      const verdict = decide(record, request, now);
      expect({ record, request }).toEqual(before);
      expect(decide(record, request, now)).toEqual(verdict);
    });
  });
});
