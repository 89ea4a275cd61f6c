/**
 * The broker conformance suite: proves that an adapter keeps the contract of `messages/broker.ts`. It brings no test runner,
 * no broker and no database; the runner's function is handed in, and a driver that publishes and starts consumers.
 */
import { arrange } from "./broker-conformance/arrange.ts";
import type { BrokerCapabilities, BrokerCase, BrokerUnderTest } from "./broker-conformance/case.ts";
import { deliveryCases } from "./broker-conformance/deliveries.ts";
import { failureCases } from "./broker-conformance/failures.ts";
import { stopCases } from "./broker-conformance/stops.ts";

export interface BrokerConformanceOptions extends BrokerCapabilities {
  /** Registers one test, as `test` or `it` of any runner does. */
  readonly test: (name: string, body: () => Promise<void>) => void;
  /** Makes one empty queue per case. Cases run one after the other. */
  readonly factory: () => BrokerUnderTest | Promise<BrokerUnderTest>;
  /** After this long something that does not happen is a failure; longer than a redelivery takes. Default 20 000. */
  readonly patienceMs?: number;
  /** Cases to leave out, by name, each with the reason. An unknown name is a `TypeError`. None when absent. */
  readonly skip?: Readonly<Record<string, string>>;
}

const cases: readonly BrokerCase[] = [...deliveryCases, ...failureCases, ...stopCases];

/**
 * Registers one test for every sentence of the contract that applies to the declared capabilities.
 *
 * @throws {TypeError} when `skip` names no case of the suite, or gives no reason
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
