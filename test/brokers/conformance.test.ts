/** The adapters of real brokers keep the contract that the exported suite tests. */
import { afterAll, beforeAll, beforeEach, describe, test } from "vitest";
import { type BrokerUnderTest, brokerConformance } from "../../packages/latchkey-conformance/src/index.ts";
import { type Broker, startNats, startRabbitmq } from "../support/private-brokers.ts";
import { isThorough } from "../support/thorough.ts";
import { natsUnderTest, rabbitmqUnderTest } from "./conformance-drivers.ts";

const caseLimitMs = 90_000;

function conformance(
  start: () => Promise<Broker | undefined>,
  make: (url: string) => Promise<BrokerUnderTest>,
  putsAside: boolean,
): void {
  let broker: Broker | undefined;
  beforeAll(async () => {
    broker = await start();
  });
  afterAll(() => broker?.own?.stop());
  beforeEach(({ skip }) => {
    if (broker === undefined) skip("there is no broker");
  });
  brokerConformance({
    test: (name, body) => test(name, body, caseLimitMs),
    dies: true,
    cuts: true,
    putsAside,
    patienceMs: 30_000,
    factory: () => make(broker?.url ?? ""),
  });
}

describe.runIf(isThorough)("RabbitMQ", () => conformance(startRabbitmq, rabbitmqUnderTest, true));
describe("NATS JetStream", () => conformance(startNats, natsUnderTest, false));
