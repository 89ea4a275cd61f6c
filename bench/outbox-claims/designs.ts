/**
 * Designs of claims and ends, each a change of today's tables and statements. Only what a backlog of unordered effects needs is
 * complete: rescues, confirmations and lists do not know the designs.
 */
import { sql } from "../../packages/latchkey/src/stores/postgres/sql/texts.ts";

export interface Design {
  /** Changes the migrated tables. */
  readonly alter: string;
  /** Empties the tables that it has added. */
  readonly empty: string;
  readonly claim: string;
  readonly end: string;
  /** Whether an end removes the row. */
  readonly removes: boolean;
}

type Part = readonly [from: string, to: string];

/** @throws {TypeError} when a part is not there */
function replaced(text: string, ...parts: readonly Part[]): string {
  return parts.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new TypeError(`The statement has no part ${JSON.stringify(from)}`);
    return changed.replaceAll(from, () => to);
  }, text);
}

/** @throws {TypeError} when it is not there */
function partOf(text: string, first: string, next: string): string {
  const part = text.slice(text.indexOf(first), text.indexOf(next));
  if (!part.startsWith(first)) throw new TypeError(`The statement has no part ${JSON.stringify(first)}`);
  return part;
}

const nothing = "select 1";
const withoutCheck = "alter table latchkey.outbox drop constraint outbox_state_shape;";
const lastOfClaim = " select o.id::text as id, o.tenant";
const lastOfEnd = " select o.id::text as id, (select case";
const lease = "t.at + :'lease_ms'::float8 * interval '1 millisecond'";
const isDue = "where o.state = 'pending' and not o.ordered";
const claimUpdate = partOf(sql.claimEffects, "o as (update", lastOfClaim);
const chosen = "o.ctid = any (array(select row_id from due))";
const noneHeld: Part = [
  "where o.state = 'claimed' and o.ordered and o.claimed_at <= 'infinity'",
  "where false",
];
/** The claim changes no row: what it would have written is computed. */
const computed: Part = [
  "o.state, o.started_at is not null as started, o.attempt, o.token::text as token, o.sends,",
  "o.state, true as started, o.attempt + 1 as attempt, :'token'::text as token, o.sends + 1 as sends,",
];
const ownClaim =
  "and o.attempt = c.attempt and o.token = c.token and coalesce(o.claimed_at, '-infinity') > '-infinity'";
const computedEnd: readonly Part[] = [
  [
    "set state = 'delivered',",
    "set state = 'delivered', attempt = c.attempt, token = c.token, sends = o.sends + 1,",
  ],
  ["(o.result is null and o.started_at is not null)::int", "(o.result is null)::int"],
];

/** A claimed row stays `pending`, so that a claim changes no column that is in an index or in its predicate. */
const hotClaim = replaced(
  sql.claimEffects,
  [isDue, "where o.state = 'pending' and o.claimed_at is null and not o.ordered"],
  [`where ${chosen} and o.state = 'pending'`, `where ${chosen} and o.claimed_at is null`],
  ["set state = 'claimed', attempt", "set attempt"],
  noneHeld,
);
const hotTables = `${withoutCheck} drop index latchkey.outbox_claimed;`;

const pageTable = `create table latchkey.pages
  (token uuid primary key, claimed_at timestamptz(3) not null, locked_until timestamptz(3) not null, ids uuid[] not null);`;
const emptyPages = "truncate latchkey.pages";
const writesPage: Part = [
  lastOfClaim,
  `, page as (insert into latchkey.pages (token, claimed_at, locked_until, ids)
    select :'token'::uuid, t.at, ${lease}, array(select id from o) from t where exists (select 1 from o))${lastOfClaim}`,
];
const removesPage: Part = [
  lastOfEnd,
  `, page as (delete from latchkey.pages where token = any (:'tokens'::text::uuid[]))${lastOfEnd}`,
];
const ofLivePage =
  "and o.attempt = c.attempt - 1 and o.state = 'pending' and c.token in (select token from latchkey.pages)";
const pageClaim = replaced(
  sql.claimEffects,
  [
    isDue,
    "where o.state = 'pending' and o.id not in (select unnest(p.ids) from latchkey.pages p) and not o.ordered",
  ],
  noneHeld,
  [
    claimUpdate,
    `o as (select x.* from latchkey.outbox x where x.ctid = any (array(select row_id from due)))`,
  ],
  computed,
  writesPage,
);
const pageTables = withoutCheck + pageTable;

const claimTables = `${withoutCheck} create table latchkey.claims
  (id uuid primary key, token uuid not null, claimed_at timestamptz(3) not null, locked_until timestamptz(3) not null);`;
const narrowClaim = replaced(
  sql.claimEffects,
  [
    isDue,
    "where o.state = 'pending' and not exists (select 1 from latchkey.claims k where k.id = o.id) and not o.ordered",
  ],
  noneHeld,
  [
    claimUpdate,
    `k as (insert into latchkey.claims (id, token, claimed_at, locked_until)
      select d.id, :'token'::uuid, t.at, ${lease} from due d, t on conflict do nothing returning id),
    o as (select x.* from latchkey.outbox x
      where x.ctid = any (array(select d.row_id from due d join k on k.id = d.id)))`,
  ],
  computed,
);
const narrowEnd = replaced(
  sql.deliverEffects,
  ...computedEnd,
  [
    "o as ( update",
    `k as (delete from latchkey.claims k using unnest(:'ids'::text::uuid[], :'tokens'::text::uuid[]) as c(id, token)
      where k.id = c.id and k.token = c.token returning k.id), o as ( update`,
  ],
  [
    `, t where o.id = c.id ${ownClaim}`,
    ", t, k where k.id = c.id and o.id = c.id and o.attempt = c.attempt - 1 and o.state = 'pending'",
  ],
);

const today = {
  alter: nothing,
  empty: nothing,
  claim: sql.claimEffects,
  end: sql.deliverEffects,
  removes: false,
};

export const designs = {
  /** Two updates of each row, with new entries in indexes. */
  today,
  "today, a second time": today,
  "today, `keepMs: 0`": { ...today, end: sql.removeEffects, removes: true },
  hot: { ...today, alter: hotTables, claim: hotClaim },
  /** With the page's row as well, by which a rescue would find the claims of a dead process. */
  "hot and page": {
    ...today,
    alter: hotTables + pageTable,
    empty: emptyPages,
    claim: replaced(hotClaim, writesPage),
    end: replaced(sql.deliverEffects, removesPage),
  },
  "hot and page, `keepMs: 0`": {
    alter: hotTables + pageTable,
    empty: emptyPages,
    claim: replaced(hotClaim, writesPage),
    end: replaced(sql.removeEffects, removesPage),
    removes: true,
  },
  /** Only the page's row is written; a claim passes over the ids of all live pages. */
  page: {
    alter: pageTables,
    empty: emptyPages,
    claim: pageClaim,
    end: replaced(sql.deliverEffects, ...computedEnd, [ownClaim, ofLivePage], removesPage),
    removes: false,
  },
  "page, `keepMs: 0`": {
    alter: pageTables,
    empty: emptyPages,
    claim: pageClaim,
    end: replaced(sql.removeEffects, [ownClaim, ofLivePage], removesPage),
    removes: true,
  },
  /** A row of its own for each claim, whose primary key decides between two claims. */
  "narrow rows": {
    alter: claimTables,
    empty: "truncate latchkey.claims",
    claim: narrowClaim,
    end: narrowEnd,
    removes: false,
  },
} as const satisfies Record<string, Design>;

export type DesignName = keyof typeof designs;
export const designNames = Object.keys(designs) as DesignName[];
