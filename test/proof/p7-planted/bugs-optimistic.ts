/** Mistakes of optimistic admission, under which a handler starts before its key is looked up. */
import type { Bug } from "./bug.ts";

export const optimisticBugs: readonly Bug[] = [
  {
    name: "under optimistic admission the handler's first statement goes out without BEGIN",
    recreates: null,
    changes: [
      {
        file: "sql/pg/optimistic-opening.ts",
        find: "const statements = [begin(isolation), ...opening];",
        replace: "const statements = isolation === null ? [begin(isolation), ...opening] : [...opening];",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "under optimistic admission a handler is believed to be admitted before its key is looked up",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/run-optimistic.ts",
        find: "admitted = await admit(job, seen, request, (retried) => (retried === null ? life : null));",
        replace:
          "admitted = await admit(job, { ...seen, reading: { ...seen.reading, record: null }, exclusive: true }, request, () => life);",
      },
    ],
    tiers: ["P1", "P4"],
  },
  {
    name: "under optimistic admission the reply to the first statement is passed on before the look-up is judged",
    recreates: null,
    changes: [
      {
        file: "sql/pg/handler-statements.ts",
        find: "const admitted = opening.open(query).then((ok) => (ok ? ran : Promise.reject(notAdmitted())));",
        replace:
          "const admitted = Promise.race([ran, opening.open(query).then((ok) => (ok ? ran : Promise.reject(notAdmitted())))]);",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "under optimistic admission a handler that was not admitted commits what it has written",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/run-optimistic.ts",
        find: 'return admitted.kind === "runs";',
        replace: "return true;",
      },
      {
        file: "execution/transaction/run-optimistic.ts",
        find: "result: () => admitted,",
        replace: 'result: () => ({ kind: "runs", admittedLife: { life, replaces: null } }),',
      },
    ],
    tiers: ["P1", "P4"],
  },
  {
    name: "under optimistic admission the caller gets the error of a handler that was not admitted",
    recreates: null,
    changes: [
      {
        file: "execution/transaction/run-handler.ts",
        find: "if (instead !== null) return rollback(instead);",
        replace: "",
      },
    ],
    tiers: ["P1", "P4"],
  },
];
