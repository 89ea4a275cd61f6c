/**
 * The store conformance suite: proves that a store keeps the contract of `latchkey/stores/store`. It includes no test runner;
 * the caller passes the runner's function. The capabilities that the store declares select the groups that run.
 */
import assert from "node:assert/strict";
import type { StoreCapabilities } from "latchkey";
import { activeKeyCases } from "./store-conformance/active-keys.ts";
import { archivalCases } from "./store-conformance/archival.ts";
import { bytesCases } from "./store-conformance/bytes.ts";
import { callLedgerCases } from "./store-conformance/call-ledger.ts";
import { callCases } from "./store-conformance/calls.ts";
import type { CaseContext, StoreCase, StoreUnderTest } from "./store-conformance/case.ts";
import { claimPendingCases } from "./store-conformance/claim-pending.ts";
import { claimCases } from "./store-conformance/claims.ts";
import { cleaningCases } from "./store-conformance/cleaning.ts";
import { createCases } from "./store-conformance/create.ts";
import { deliverCases } from "./store-conformance/deliver.ts";
import { deliverAnswerCases } from "./store-conformance/deliver-answer.ts";
import { openDeliveryCases } from "./store-conformance/deliver-open.ts";
import { earlyCases } from "./store-conformance/early.ts";
import { endCases } from "./store-conformance/end.ts";
import { factCases } from "./store-conformance/facts.ts";
import { endedLeaseCases, giveUpCases } from "./store-conformance/give-up.ts";
import { hastenCases } from "./store-conformance/hasten.ts";
import { hintCases } from "./store-conformance/hints.ts";
import { isolationCases } from "./store-conformance/isolation.ts";
import { journalCases } from "./store-conformance/journal.ts";
import { journalLifetimeCases } from "./store-conformance/journal-lifetime.ts";
import { listingCases } from "./store-conformance/listing.ts";
import { lookupCases } from "./store-conformance/lookup.ts";
import { lookupByIdCases } from "./store-conformance/lookup-by-id.ts";
import { messageCases } from "./store-conformance/messages.ts";
import { outboxBytesCases } from "./store-conformance/outbox-bytes.ts";
import { outboxClaimCases } from "./store-conformance/outbox-claim.ts";
import { outboxCleaningCases } from "./store-conformance/outbox-cleaning.ts";
import { outboxConfirmCases } from "./store-conformance/outbox-confirm.ts";
import { outboxDecideCases } from "./store-conformance/outbox-decide.ts";
import { outboxEndCases } from "./store-conformance/outbox-end.ts";
import { outboxEnqueueCases } from "./store-conformance/outbox-enqueue.ts";
import { outboxLedgerCases } from "./store-conformance/outbox-ledger.ts";
import { outboxListCases } from "./store-conformance/outbox-list.ts";
import { outboxOrderCases } from "./store-conformance/outbox-order.ts";
import { outboxRescueCases } from "./store-conformance/outbox-rescue.ts";
import { outboxStartCases } from "./store-conformance/outbox-start.ts";
import { outboxStartingClaimCases } from "./store-conformance/outbox-starting-claim.ts";
import { overviewCases } from "./store-conformance/overview.ts";
import { phaseCases } from "./store-conformance/phase.ts";
import { openPhaseCases } from "./store-conformance/phase-open.ts";
import { raceCases } from "./store-conformance/races.ts";
import { loseTransactionCases } from "./store-conformance/record-lost-transaction.ts";
import { refenceCases } from "./store-conformance/refence.ts";
import { renewCases } from "./store-conformance/renew.ts";
import { resumableCases } from "./store-conformance/resumable.ts";
import { settleCases } from "./store-conformance/settle.ts";
import { summaryCases } from "./store-conformance/summaries.ts";
import { takeOverCases } from "./store-conformance/take-over.ts";
import { tenantDataCases } from "./store-conformance/tenant-data.ts";
import { traceCases } from "./store-conformance/traces.ts";
import { transactionCases } from "./store-conformance/transactions.ts";
import { batchCases } from "./store-conformance/transactions-batch.ts";
import { transactionGuardCases } from "./store-conformance/transactions-guard.ts";
import { optimisticTransactionCases } from "./store-conformance/transactions-optimistic.ts";
import { transactionResolveCases } from "./store-conformance/transactions-resolve.ts";

export interface StoreConformanceOptions<Tx> {
  /** Registers one test, like `test` or `it` of any runner. */
  readonly test: (name: string, body: () => Promise<void>) => void;
  /**
   * Creates one empty store per case. Cases run one after the other. A store with transactions must open up to four of them
   * at once, so its pool needs at least six connections.
   */
  readonly factory: () => StoreUnderTest<Tx> | Promise<StoreUnderTest<Tx>>;
  /** What the store declares; the first case checks that the store agrees. */
  readonly capabilities: StoreCapabilities;
  /** `frozen`: the store's time moves only by `advance`. `running`: it also moves on its own. */
  readonly clock: "frozen" | "running";
  /** Cases to skip, by name, each with the reason. An unknown name is a `TypeError`. Default: none. */
  readonly skip?: Readonly<Record<string, string>>;
}

const groups: readonly (readonly StoreCase[])[] = [
  lookupCases,
  createCases,
  takeOverCases,
  renewCases,
  endCases,
  giveUpCases,
  endedLeaseCases,
  loseTransactionCases,
  cleaningCases,
  isolationCases,
  bytesCases,
  raceCases,
  transactionCases,
  optimisticTransactionCases,
  batchCases,
  transactionGuardCases,
  transactionResolveCases,
  journalCases,
  journalLifetimeCases,
  callCases,
  callLedgerCases,
  refenceCases,
  phaseCases,
  openPhaseCases,
  settleCases,
  hastenCases,
  claimCases,
  resumableCases,
  listingCases,
  claimPendingCases,
  lookupByIdCases,
  earlyCases,
  outboxEnqueueCases,
  outboxClaimCases,
  outboxOrderCases,
  outboxStartCases,
  outboxStartingClaimCases,
  outboxEndCases,
  outboxRescueCases,
  outboxListCases,
  outboxConfirmCases,
  outboxDecideCases,
  outboxLedgerCases,
  outboxCleaningCases,
  outboxBytesCases,
  deliverCases,
  deliverAnswerCases,
  openDeliveryCases,
  messageCases,
  hintCases,
  overviewCases,
  tenantDataCases,
  archivalCases,
  summaryCases,
  activeKeyCases,
  traceCases,
  factCases,
];

/**
 * Registers one test for every sentence of the store contract that applies to the declared capabilities.
 *
 * @throws {TypeError} if `skip` names a case that the suite does not have, or gives no reason
 */
export function storeConformance<Tx>(options: StoreConformanceOptions<Tx>): void {
  const cases = groups.flat();
  const skip = new Map(Object.entries(options.skip ?? {}));
  for (const [name, reason] of skip) {
    if (!cases.some((candidate) => candidate.name === name))
      throw new TypeError(`No case is named "${name}"`);
    if (reason.trim() === "") throw new TypeError(`Skipping "${name}" needs a reason`);
  }
  options.test("manifest: the store declares the capabilities that the suite was given", () =>
    withStore(options, async (context) => {
      assert.deepEqual({ ...context.store.capabilities }, { ...options.capabilities });
      const { transactions } = options.capabilities;
      assert.equal(
        context.store.transactions !== null,
        transactions,
        "transactions must exist exactly if they are declared",
      );
      assert.equal(
        context.store.transactions?.runOptimistic !== undefined,
        options.capabilities.optimisticAdmission === true,
        "`runOptimistic` must exist exactly if optimistic admission is declared",
      );
    }),
  );
  for (const candidate of cases.filter((one) => applies(one, options) && !skip.has(one.name))) {
    options.test(candidate.name, () => withStore(options, candidate.run));
  }
}

function applies<Tx>(candidate: StoreCase, options: StoreConformanceOptions<Tx>): boolean {
  if (candidate.frozenClock && options.clock !== "frozen") return false;
  return candidate.needs?.(options.capabilities) ?? true;
}

async function withStore<Tx>(
  { factory, capabilities, clock }: StoreConformanceOptions<Tx>,
  run: (context: CaseContext) => Promise<void>,
): Promise<void> {
  const subject = await factory();
  try {
    await run({
      store: subject.store,
      other: subject.secondStore ?? subject.store,
      capabilities,
      frozenClock: clock === "frozen",
      business: subject.business ?? null,
      async advance(milliseconds) {
        await subject.advance(milliseconds);
      },
    });
  } finally {
    await subject.close();
  }
}
