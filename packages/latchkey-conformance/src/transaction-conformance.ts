/**
 * The bridge conformance suite: proves that a transaction bridge keeps the contract of `sql/transaction.ts` over PostgreSQL.
 * It includes no test runner; the caller passes the runner's function.
 */
import assert from "node:assert/strict";
import { holdsNothing, makeTables } from "./transaction-conformance/arrange.ts";
import type {
  BridgeCapabilities,
  BridgeCase,
  BridgeContext,
  BridgeLimits,
  BridgeUnderTest,
} from "./transaction-conformance/case.ts";
import { endCases } from "./transaction-conformance/ends.ts";
import { faultCases } from "./transaction-conformance/faults.ts";
import { guardCases } from "./transaction-conformance/guard.ts";
import { oneConnectionCases } from "./transaction-conformance/one-connection.ts";
import { sideBySideCases } from "./transaction-conformance/side-by-side.ts";
import { valueCases } from "./transaction-conformance/values.ts";

export interface TransactionConformanceOptions<Tx> extends BridgeCapabilities {
  /** Registers one test, like `test` or `it` of any runner. */
  readonly test: (name: string, body: () => Promise<void>) => void;
  /** Creates one bridge per case, on a pool of `limits.connections`. Cases run one after the other. */
  readonly factory: (limits: BridgeLimits) => BridgeUnderTest<Tx> | Promise<BridgeUnderTest<Tx>>;
  /** How long to wait for something before the case fails, in milliseconds. Default 15,000. */
  readonly patienceMs?: number;
  /** Cases to skip, by name, each with the reason. An unknown name is a `TypeError`. Default: none. */
  readonly skip?: Readonly<Record<string, string>>;
}

const cases: readonly BridgeCase[] = [
  ...endCases,
  ...guardCases,
  ...sideBySideCases,
  ...oneConnectionCases,
  ...valueCases,
  ...faultCases,
];

/**
 * Registers one test for every sentence of the bridge contract that applies to the declared capabilities. It creates its own
 * tables, `latchkey_rows`, `latchkey_once` and `latchkey_slow`, in the current schema, and Latchkey's through `makeStore`.
 *
 * @throws {TypeError} if `skip` names a case that the suite does not have, or gives no reason
 */
export function transactionConformance<Tx>(options: TransactionConformanceOptions<Tx>): void {
  const { sessions, commitNotice, oneConnection = true } = options;
  const skip = new Map(Object.entries(options.skip ?? {}));
  for (const [name, reason] of skip) {
    if (!cases.some((candidate) => candidate.name === name))
      throw new TypeError(`No case is named "${name}"`);
    if (reason.trim() === "") throw new TypeError(`Skipping "${name}" needs a reason`);
  }
  const manifest: BridgeCase = {
    name: "manifest: the bridge declares the capabilities that the suite was given",
    run: async ({ bridge }) => assert.equal(bridge.commitNotice, commitNotice),
  };
  for (const candidate of [manifest, ...cases]) {
    const applies = candidate.needs?.({ sessions, commitNotice, oneConnection }) ?? true;
    if (applies && !skip.has(candidate.name)) {
      options.test(candidate.name, () => withBridge(options, candidate));
    }
  }
}

async function withBridge<Tx>(
  { factory, sessions, commitNotice, patienceMs = 15_000 }: TransactionConformanceOptions<Tx>,
  candidate: BridgeCase,
): Promise<void> {
  const subject = await factory({ connections: candidate.connections ?? 6 });
  const context: BridgeContext = {
    bridge: subject.bridge,
    capabilities: { sessions, commitNotice },
    patienceMs,
    execute: (tx, text, values) => subject.execute(tx as Tx, text, values),
    prepare: (tx, text) => subject.prepare(tx as Tx, text),
    outside: (text, values) => subject.outside(text, values),
    makeStore: () => subject.makeStore(),
    busyConnections: () => subject.busyConnections(),
  };
  try {
    await makeTables(context);
    await candidate.run(context);
    await holdsNothing(context);
  } finally {
    await subject.close();
  }
}
