/** Mistakes in what every store shares: admission, fences, attempts. */
import type { Bug } from "./bug.ts";

export const engineBugs: readonly Bug[] = [
  {
    name: "the fingerprint is not compared",
    recreates: "a key replays another request's answer",
    changes: [
      {
        file: "engine/decide.ts",
        find: "if (sameFingerprint(record.fingerprint, request.fingerprint)) return null;",
        replace: "return null;",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "the principal is not compared",
    recreates: "tenant B is given tenant A's answer",
    changes: [
      {
        file: "engine/decide.ts",
        find: 'if (record.principal !== request.principal) return { kind: "key_misuse", because: "principal" };',
        replace: "",
      },
    ],
    tiers: ["P2"],
  },
  {
    name: "an attempt is taken over by its age, not by its lease",
    recreates: "oban #1825: a rescue re-runs jobs that still run",
    changes: [
      {
        file: "engine/decide.ts",
        find: "if (now < record.leaseEndsAt) {",
        replace: "if (now < record.createdAt) {",
      },
      {
        file: "stores/memory/attempt.ts",
        find: 'if (record.state === "in_progress" && now < record.leaseEndsAt) return null;',
        replace: "",
      },
      {
        file: "stores/memory/attempt.ts",
        find: 'if (record.state === "in_progress" && now < record.leaseEndsAt) return false;',
        replace: "",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "an ended lease is taken over although its outcome is to be found out",
    recreates: "dbos-transact-ts #1205",
    changes: [
      {
        file: "engine/decide.ts",
        find: 'if (policy.leaseEnd === "reconcile") return "lease-ended";',
        replace: "",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "expiry is left to the cleaner",
    recreates: null,
    changes: [
      {
        file: "engine/decide.ts",
        find: '      return now >= record.expiresAt;\n    default:\n      return record.state === "expired";',
        replace: '      return false;\n    default:\n      return record.state === "expired";',
      },
    ],
    tiers: ["P2", "P3"],
  },
  {
    name: "the admission whose reply was lost is taken for somebody else's",
    recreates: null,
    changes: [
      {
        file: "engine/decide.ts",
        find: 'if (record.fence.token === request.token) return { kind: "own", record };',
        replace: "",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a fence is its number only",
    recreates: null,
    changes: [
      {
        file: "engine/record.ts",
        find: "return left.attempt === right.attempt && left.token === right.token;",
        replace: "return left.attempt === right.attempt;",
      },
    ],
    tiers: ["P1", "P2", "P3"],
  },
  {
    name: "an owner's writes are not fenced",
    recreates: "river #1302: a rescuer overwrites a job that was claimed again",
    changes: [
      {
        file: "stores/memory/journal.ts",
        find: "return record.id === id && sameFence(record.fence, fence) ? { ...row, record } : null;",
        replace: "return record.id === id ? { ...row, record } : null;",
      },
    ],
    tiers: ["P1", "P2", "P3"],
  },
  {
    name: "a 5xx under a lease frees its key",
    recreates: "the key is freed when the handler fails",
    changes: [
      {
        file: "engine/classify.ts",
        find: 'return answered.execution === "transaction" ? "release" : "doubt";',
        replace: 'return "release";',
      },
    ],
    tiers: ["P2"],
  },
  {
    name: "an owner that has lost answers with its own result",
    recreates: "solid_queue #778: a zombie finishes its job",
    changes: [
      {
        file: "execution/lease/run-lease.ts",
        find: '  if (ended.kind === "ended") return resultOfOwner(record, ran, end, ended.expiresAt);',
        replace: '  if (ended.kind !== "in_doubt") return resultOfOwner(record, ran, end, null);',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "an answer is given before its completion is confirmed",
    recreates: null,
    changes: [
      {
        file: "execution/lease/run-lease.ts",
        find: '  if (ended.kind === "ended") return resultOfOwner(record, ran, end, ended.expiresAt);',
        replace: '  if (ended.kind !== "lost") return resultOfOwner(record, ran, end, null);',
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "a COMMIT in doubt is taken for committed",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/transaction-ends.ts",
        find: '      return { kind: "commit_in_doubt", retryAfterMs: doubtRetryAfterMs };\n    default:\n      return resolved satisfies never;',
        replace:
          "      return committed(job, ran, null);\n    default:\n      return resolved satisfies never;",
      },
      {
        file: "execution/transaction/transaction-ends.ts",
        find: 'return rerun(job, "commit_rolled_back");',
        replace: "return committed(job, ran, null);",
      },
    ],
    tiers: ["P1", "P2"],
  },
  {
    name: "work that was started is freed when its admission was slow",
    recreates: null,
    changes: [
      {
        file: "execution/lease/admit-lease.ts",
        find: 'if (confirmed.kind === "given_back") current = { ...job, token: random.token() };',
        replace:
          'if (confirmed.kind !== "held") return { record: admitted.record, ownedUntilMs: admitted.ownedUntilMs };',
      },
    ],
    tiers: ["P1", "P2"],
  },
];
