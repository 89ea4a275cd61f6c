/** Mistakes, planted into the statements on their way to the server; each must be found in the scenario that is named. */
import type { IsolationLevel } from "../../../packages/latchkey/src/sql/transaction.ts";
import type { Rewrite } from "./parts.ts";
import type { FaultKind } from "./scenario.ts";

export interface Plant {
  readonly name: string;
  readonly recreates: string | null;
  readonly scenario: string;
  readonly faults: readonly FaultKind[];
  readonly isolation?: IsolationLevel;
  readonly rewrite: Rewrite;
}

/** In statements of these kinds, by what the text is replaced; each must be there. */
function change(kinds: readonly string[], find: RegExp, replace: string): Rewrite {
  return (kind, text) => {
    if (!kinds.includes(kind)) return null;
    const changed = text.replace(find, replace);
    if (changed === text) throw new Error(`Nothing to plant in ${kind}: ${text}`);
    return changed;
  };
}

const owned = /r\.attempt = (\$\d+)::int and r\.token = (\$\d+)::uuid/g;
/** The parameters stay: the server wants to know their types. */
const unfenced = "$1::int is not null and $2::uuid is not null";

export const plants: readonly Plant[] = [
  {
    name: "the last write of a transaction does not raise when the record has changed",
    recreates: null,
    scenario: "commit-against-take-over",
    faults: [],
    rewrite: change(
      ["complete_over"],
      /1 \/ \(pg_catalog\.count\(\*\) filter \(where w\.attempt > 0\)\)::int/,
      "pg_catalog.count(*)::int",
    ),
  },
  {
    name: "the last write of a transaction inserts nothing where a record has appeared, and COMMIT succeeds",
    recreates: null,
    scenario: "commits-twice",
    faults: [],
    rewrite: change(["complete"], / returning /, " on conflict do nothing returning "),
  },
  {
    name: "a life that is over and forgotten is completed once more",
    recreates: "found by this tier",
    scenario: "life-over-meanwhile",
    faults: [],
    rewrite: change(
      ["complete_over"],
      /filter \(where w\.attempt > 0\)/,
      "filter (where w.attempt is not null)",
    ),
  },
  {
    name: "a COMMIT in doubt is resolved by a plain SELECT",
    recreates: null,
    scenario: "late-commit",
    faults: ["late"],
    rewrite: change(["wait_lock"], /^.*$/, "select 1 as held where $1::text is not null"),
  },
  {
    name: "an owner's end is not fenced",
    recreates: "river #1302",
    scenario: "owner-against-take-over",
    faults: [],
    rewrite: change(["finish"], owned, unfenced),
  },
  {
    name: "a phase is not fenced",
    recreates: null,
    scenario: "phase-against-take-over",
    faults: [],
    rewrite: change(["advance", "advance_enqueuing"], owned, unfenced),
  },
  {
    name: "a lease is renewed after its end",
    recreates: null,
    scenario: "phase-against-take-over",
    faults: [],
    rewrite: change(["renew"], / and l\.locked_until > t\.at/, ""),
  },
  {
    name: "an attempt is taken over without looking at its lease",
    recreates: "river #1302",
    scenario: "owner-against-take-over",
    faults: [],
    rewrite: change(["take_over_ended"], / and l\.locked_until <= \(select at from t\)/, ""),
  },
  {
    name: "a take-over waits for whoever holds the row",
    recreates: null,
    scenario: "owner-against-take-over",
    faults: [],
    rewrite: change(["take_over_ended"], / for update skip locked/g, " for update"),
  },
  {
    name: "two claims take one effect",
    recreates: null,
    scenario: "two-dispatchers",
    faults: [],
    rewrite: change(
      ["claim_effects"],
      / for update of o skip locked(.*) and o\.state = 'pending' returning/,
      "$1 returning",
    ),
  },
  {
    name: "a delivery is ended by whoever had claimed it",
    recreates: null,
    scenario: "starting-claims",
    faults: [],
    rewrite: change(
      ["deliver_effects", "end_effects"],
      / and o\.attempt = c\.attempt and o\.token = c\.token/,
      "",
    ),
  },
  {
    name: "a key is forgotten while an effect of it waits",
    recreates: null,
    scenario: "cleaned-effects",
    faults: [],
    rewrite: change(["forget"], /o\.state <> 'delivered'/, "o.state <> o.state"),
  },
  {
    name: "a new token leaves the old one valid",
    recreates: null,
    scenario: "refenced-phase",
    faults: ["late"],
    rewrite: change(["refence"], /(update \S+ ([lr]) set) token = \$\d+::uuid/g, "$1 token = $2.token"),
  },
  {
    name: "a SERIALIZABLE transaction looks its key up inside",
    recreates: null,
    scenario: "strangers",
    faults: [],
    isolation: "serializable",
    rewrite: (kind, text, schema) =>
      kind === "open" ? `${text}, (select pg_catalog.count(*)::int from ${schema}.records) as looked` : null,
  },
];
