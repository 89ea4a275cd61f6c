/** Mistakes in writes of several attempts that are sent as one statement. */
import type { Bug } from "./bug.ts";

const file = "stores/postgres/gathering/gathered-writes.ts";
const texts = "stores/postgres/sql/texts.ts";

export const gatheredLeaseBugs: readonly Bug[] = [
  {
    name: "gathered: a reservation succeeds because another of the same key has",
    recreates: null,
    changes: [
      { file: texts, find: "returning id, created_at, expires_at), l as", replace: "returning *), l as" },
      {
        file: texts,
        find: "select k.place, r.id::text as id,",
        replace: "select k.place, k.id::text as id,",
      },
      {
        file: texts,
        find: "from r join l on l.record_id = r.id join k on k.id = r.id`",
        replace:
          "from r join l on l.record_id = r.id join k on k.tenant = r.tenant and k.scope = r.scope and k.key = r.key`",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "gathered: writes whose outcome is in doubt are sent again by themselves",
    recreates: null,
    changes: [
      {
        file,
        find: 'if (!(error instanceof StoreError) || error.certainty !== "rolled_back") return false;',
        replace: 'if (error instanceof StoreError && error.certainty === "in_doubt") return true;',
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "gathered: the rows of a reply are taken for those of the first writes",
    recreates: null,
    changes: [
      {
        file,
        find: "  for (const row of rows) {",
        replace: "  for (const [index, row] of rows.entries()) {",
      },
      {
        file,
        find: 'typeof row.place === "number" ? batch[row.place] : undefined;',
        replace: "batch[index];",
      },
      {
        file,
        find: "write === undefined || row.id !== write.values.id || found.has(write)",
        replace: "write === undefined || found.has(write)",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "gathered: an attempt that has lost its lease ends its record together with others",
    recreates: null,
    changes: [
      {
        file: texts,
        find: "r.id = k.id and r.state = 'in_progress' and r.attempt = k.attempt and r.token = k.token and",
        replace: "r.id = k.id and r.state = 'in_progress' and",
      },
    ],
    tiers: ["P4"],
  },
];
