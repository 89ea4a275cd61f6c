/**
 * The broker conformance suite: proves that an adapter keeps the contract of `messages/broker.ts`. It includes no test
 * runner, no broker and no database: the caller passes the runner's function, and a driver that publishes messages and starts
 * consumers.
 */
import { arrange } from "./broker-conformance/arrange.ts";
import type { BrokerCapabilities, BrokerCase, BrokerUnderTest } from "./broker-conformance/case.ts";
import { deliveryCases } from "./broker-conformance/deliveries.ts";
import { failureCases } from "./broker-conformance/failures.ts";
import { stopCases } from "./broker-conformance/stops.ts";

export interface BrokerConformanceOptions extends BrokerCapabilities {
  /** Registers one test, like `test` or `it` of any runner. */
  readonly test: (name: string, body: () => Promise<void>) => void;
  /** Creates one empty queue per case. Cases run one after the other. */
  readonly factory: () => BrokerUnderTest | Promise<BrokerUnderTest>;
  /**
   * How long to wait for something before the case fails, in milliseconds; must be longer than a redelivery takes. Default
   * 20,000.
   */
  readonly patienceMs?: number;
  /** Cases to skip, by name, each with the reason. An unknown name is a `TypeError`. Default: none. */
  readonly skip?: Readonly<Record<string, string>>;
}

const cases: readonly BrokerCase[] = [...deliveryCases, ...failureCases, ...stopCases];

/**
 * Registers one test for every sentence of the contract that applies to the declared capabilities.
 *
 * @throws {TypeError} if `skip` names a case that the suite does not have, or gives no reason
 */
export function brokerConformance(options: BrokerConformanceOptions): void {
  const { dies, cuts, putsAside } = options;
  const skip = new Map(Object.entries(options.skip ?? {}));
  for (const [name, reason] of skip) {
    if (!cases.some((candidate) => candidate.name === name))
      throw new TypeError(`No case is named "${name}"`);
    if (reason.trim() === "") throw new TypeError(`Skipping "${name}" needs a reason`);
  }
  for (const candidate of cases) {
    const applies = candidate.needs?.({ dies, cuts, putsAside }) ?? true;
    if (applies && !skip.has(candidate.name)) {
      options.test(candidate.name, () => withBroker(options, candidate));
    }
  }
}

async function withBroker(
  { factory, dies, cuts, putsAside, patienceMs = 20_000 }: BrokerConformanceOptions,
  candidate: BrokerCase,
): Promise<void> {
  const broker = await factory();
  const { context, release } = arrange(broker, { dies, cuts, putsAside }, patienceMs);
  try {
    await candidate.run(context);
  } finally {
    release();
    await broker.close();
  }
}
