/** Mistakes in look-ups that are sent as one statement. */
import type { Bug } from "./bug.ts";

const file = "stores/postgres/gathering/gathered-reads.ts";

export const lookUpBugs: readonly Bug[] = [
  {
    name: "gathered: answers are matched by their place alone, and come in another order",
    recreates: null,
    changes: [
      {
        file,
        find: "return row.place === place && row.tenant === tenant && row.scope === scope && row.key === key;",
        replace: "return place >= 0;",
      },
      {
        file: "stores/postgres/store.ts",
        find: "readingOf(own, unconfirmed ? await confirmation.readAgain(look) : reading)",
        replace: "unconfirmed ? await confirmation.readAgain(look) : reading",
      },
      {
        file: "stores/postgres/sql/texts.ts",
        find: "limit 1) f on true order by k.place`",
        replace: "limit 1) f on true order by k.place desc`",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "gathered: a look-up joins a statement that has been sent and looks for its key",
    recreates: null,
    changes: [
      {
        file,
        find: "  readonly #gathering: Gathering<readonly SqlRow[], WaitingRead>;",
        replace:
          "  readonly #gathering: Gathering<readonly SqlRow[], WaitingRead>;\n  #sent: readonly WaitingRead[] = [];",
      },
      {
        file,
        find: "    const [first] = batch;",
        replace: "    this.#sent = batch;\n    const [first] = batch;",
      },
      {
        file,
        find: "(batch: readonly WaitingRead[]) => this.#send(batch);",
        replace:
          "(batch: readonly WaitingRead[]) => this.#send(batch).finally(() => {\n      if (this.#sent === batch) this.#sent = [];\n    });",
      },
      {
        file,
        find: "    return this.#gathering.add(",
        replace:
          "    const same = this.#sent.find(({ key: one }) => one.tenant === key.tenant && one.scope === key.scope && one.key === key.key);\n    if (same !== undefined) return same.result.promise;\n    return this.#gathering.add(",
      },
    ],
    tiers: ["P4"],
  },
  {
    name: "gathered: a look-up finds the record that another tenant has under its key",
    recreates: null,
    changes: [
      {
        file: "stores/postgres/sql/texts.ts",
        find: "where r.tenant = k.tenant and r.scope = k.scope and r.key = k.key limit 1) f on true",
        replace: "where r.scope = k.scope and r.key = k.key order by r.tenant desc limit 1) f on true",
      },
      {
        file: "stores/postgres/store.ts",
        find: "readingOf(own, unconfirmed ? await confirmation.readAgain(look) : reading)",
        replace: "unconfirmed ? await confirmation.readAgain(look) : reading",
      },
    ],
    tiers: ["P4"],
  },
];
