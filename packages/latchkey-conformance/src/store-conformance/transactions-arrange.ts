/** Shared by the cases about transactions. */
import assert from "node:assert/strict";
import type { RecordKey, StoreCapabilities } from "latchkey";
import type {
  OpenTransaction,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "latchkey/internal";
import { defaultRetention, minute, newLife } from "./arrange.ts";
import type { BusinessPort, CaseContext } from "./case.ts";

export function withTransactions(capabilities: StoreCapabilities): boolean {
  return capabilities.transactions;
}

/** The store reports a duplicate at once, so two transactions of one key can be open at the same time. */
export function withImmediateAnswer(capabilities: StoreCapabilities): boolean {
  return capabilities.transactions && capabilities.inProgress === "immediate";
}

export interface Transactional {
  readonly support: TransactionSupport<unknown>;
  readonly otherSupport: TransactionSupport<unknown>;
  readonly business: BusinessPort<unknown>;
}

/** The parts that a store with transactions must have. */
export function transactional(context: CaseContext): Transactional {
  const support = context.store.transactions;
  const otherSupport = context.other.transactions;
  assert.ok(support && otherSupport, "a store that declares transactions must have them");
  assert.ok(context.business, "the factory of a store with transactions must return a `business` port");
  return { support, otherSupport, business: context.business };
}

export function requestFor(key: RecordKey, overrides: Partial<TransactionRequest> = {}): TransactionRequest {
  return { key, isolation: null, idleLimitMs: minute, savepoint: false, ...overrides };
}

export type Commit = Extract<TransactionWork<string>, { readonly end: "commit" }>;

/** Ends a transaction by completing a new life of `key`. */
export function commitOf(key: RecordKey, overrides: Partial<Omit<Commit, "end">> = {}): Commit {
  return {
    end: "commit",
    value: "value",
    life: newLife(key),
    replaces: null,
    answer: new TextEncoder().encode("answer"),
    retention: defaultRetention,
    undoWrites: false,
    effects: [],
    ...overrides,
  };
}

let rowsMade = 0;

/** A business row that no other case writes. */
export function newRow(): string {
  rowsMade += 1;
  return `row-${rowsMade}`;
}

/** One whole transaction: writes `row`, then ends as `work` says. */
export function writing(
  { support, business }: Pick<Transactional, "support" | "business">,
  key: RecordKey,
  row: string,
  work: (open: OpenTransaction<unknown>) => TransactionWork<string> | Promise<TransactionWork<string>>,
): Promise<TransactionOutcome<string>> {
  return support.run(requestFor(key), async (open) => {
    await business.write(open.tx, row);
    return work(open);
  });
}

/** Checks whether `key` is free for a transaction, and leaves it as it was. */
export async function isExclusive(support: TransactionSupport<unknown>, key: RecordKey): Promise<boolean> {
  const outcome = await support.run(requestFor(key), async (open) => ({
    end: "rollback",
    value: open.exclusive,
  }));
  assert.ok(outcome.kind === "rolled_back");
  return outcome.value;
}
