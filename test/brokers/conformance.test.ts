/** The adapters of real brokers keep the contract that the exported suite tests. */
import { afterAll, beforeAll, describe, test } from "vitest";
import { type BrokerUnderTest, brokerConformance } from "../../packages/latchkey/src/testing/index.ts";
import { type Broker, startNats, startRabbitmq } from "../support/private-brokers.ts";
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
  }, 120_000);
  afterAll(() => broker?.own?.stop());
  brokerConformance({
    test: (name, body) => test(name, body, caseLimitMs),
    dies: true,
    cuts: true,
    putsAside,
    patienceMs: 30_000,
    factory() {
      if (broker === undefined) throw new Error("not run: there is no broker");
      return make(broker.url);
    },
  });
}

describe("RabbitMQ", () => conformance(startRabbitmq, rabbitmqUnderTest, true));
describe("NATS JetStream", () => conformance(startNats, natsUnderTest, false));
