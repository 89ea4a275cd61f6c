/** Mistakes in the removal of effects as they are delivered, of which nothing is kept. */
import type { Bug } from "./bug.ts";

const texts = "stores/postgres/sql/texts.ts";
const claim = "as c(id, attempt, token) where o.id = c.id and o.attempt = c.attempt and o.token = c.token";
const held = "and coalesce(o.claimed_at, '-infinity') > '-infinity'";

export const removalBugs: readonly Bug[] = [
  {
    name: "removal: an effect is removed by a worker that had claimed it before",
    recreates: "river #1302",
    changes: [
      {
        file: texts,
        find: `${claim} ${held}`,
        replace: `as c(id, attempt, token) where o.id = c.id ${held}`,
      },
    ],
    tiers: ["P4"],
  },
  {
    // What is rescued or tried again keeps its token. The next claim needs its doubt and its counts of sends.
    name: "removal: an effect that waits for its next claim is removed under its last one",
    recreates: null,
    changes: [{ file: texts, find: `${claim} ${held}`, replace: claim }],
    tiers: ["P4"],
  },
  {
    name: "removal: an effect that is kept is removed with another one of its page",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/outbox/outbox.ts",
        find: "ends.some(({ keepMs }) => keepMs > 0)",
        replace: "ends.every(({ keepMs }) => keepMs > 0)",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "removal: an effect that has to be tried again is removed with a delivered one of its page",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/outbox/outbox-rows.ts",
        find: 'return ends.every(({ event }) => event === "deliver");',
        replace: 'return ends.some(({ event }) => event === "deliver");',
      },
      {
        // A retry has no result, which the list of results refuses.
        file: "stores/postgres/outbox/outbox-rows.ts",
        find: "results.push(hexOf(result));",
        replace: "results.push(hexOf(result ?? null));",
      },
    ],
    tiers: ["P4"],
  },
];
