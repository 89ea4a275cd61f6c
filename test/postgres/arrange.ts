/** Keys, lives and whole transactions for the tests of the Postgres store. */
import type pg from "pg";
import type { Guard, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { NewLife } from "../../packages/latchkey/src/stores/life.ts";
import type { LeaseTerms, Store } from "../../packages/latchkey/src/stores/store.ts";
import type {
  OpenTransaction,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../../packages/latchkey/src/stores/transactions.ts";
import type { TestTx } from "./harness.ts";

const { random, clock } = systemPorts;
let keysMade = 0;

export const terms: LeaseTerms = {
  leaseMs: 60_000,
  leaseEnd: "rerun",
  attemptsMax: 5,
  abandonAfterMs: 3_600_000,
};
export const retention = { retentionMs: 3_600_000, forgetAfterMs: 7_200_000 };
export const answer = new TextEncoder().encode("answer");

export function newKey(overrides: Partial<RecordKey> = {}): RecordKey {
  keysMade += 1;
  return {
    tenant: "tenant-1",
    scope: "orders.create",
    key: `key-${keysMade}-${random.token()}`,
    ...overrides,
  };
}

export function newLife(key: RecordKey, overrides: Partial<NewLife> = {}): NewLife {
  return {
    ...key,
    id: random.uuid(clock.wallMs()),
    operation: key.scope,
    fingerprint: { version: 1, digest: new Uint8Array(32).fill(7) },
    principal: null,
    fence: { attempt: 1, token: random.token() },
    ...overrides,
  };
}

export function supportOf(store: Store<TestTx>): TransactionSupport<TestTx> {
  if (store.transactions === null) throw new Error("the store has transactions");
  return store.transactions;
}

export function request(key: RecordKey, overrides: Partial<TransactionRequest> = {}): TransactionRequest {
  return { key, isolation: null, idleLimitMs: 30_000, savepoint: false, ...overrides };
}

export type Commit = Extract<TransactionWork<string>, { readonly end: "commit" }>;

export function commitOf(
  life: NewLife,
  replaces: Guard | null = null,
  overrides: Partial<Commit> = {},
): Commit {
  return {
    end: "commit",
    value: "value",
    life,
    replaces,
    answer,
    retention,
    undoWrites: false,
    effects: [],
    ...overrides,
  };
}

/** Writes a business row named like the key, lets `then` happen, and commits the life. */
export function writing(
  store: Store<TestTx>,
  life: NewLife,
  then: (open: OpenTransaction<TestTx>) => Promise<unknown> = async () => {},
  overrides: Partial<TransactionRequest> = {},
): Promise<TransactionOutcome<string>> {
  return supportOf(store).run(request(life, overrides), async (open) => {
    await open.tx.query("insert into business values ($1)", [life.key]);
    await then(open);
    return commitOf(life);
  });
}

/** How many committed business rows carry the key's name. */
export async function countRows(pool: pg.Pool, key: RecordKey): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    "select count(*)::int as count from business where row = $1",
    [key.key],
  );
  return rows[0]?.count ?? 0;
}
