/**
 * The brokers of a run: the ones named in the environment, or processes of its own, which can be killed. The helpers of this
 * repository's tests start them.
 */
import { type Broker, startNats, startRabbitmq } from "../../test/support/private-brokers.ts";
import { releaseAll } from "../../test/support/resources.ts";
import type { Settings } from "./settings.ts";

export interface Brokers {
  readonly rabbitmq: Broker;
  readonly nats: Broker;
  /** Ends the brokers that were started here, and removes their files. */
  release(): Promise<void>;
}

/** Null if a program is missing; this has been reported. */
export async function brokersOf({ rabbitmqUrl, natsUrl }: Settings): Promise<Brokers | null> {
  const [rabbitmq, nats] = await Promise.all([
    rabbitmqUrl === null ? startRabbitmq() : { url: rabbitmqUrl, own: null },
    natsUrl === null ? startNats() : { url: natsUrl, own: null },
  ]);
  if (rabbitmq !== undefined && nats !== undefined) return { rabbitmq, nats, release: releaseAll };
  await releaseAll();
  return null;
}

/** The percentages of shipped orders at which a broker is killed, and started again on its files. */
const moments = [
  { percent: 20, name: "rabbitmq" },
  { percent: 45, name: "nats" },
  { percent: 70, name: "rabbitmq" },
] as const;

/**
 * Kills the brokers that were started for this run.
 *
 * @param shipped waits until this percentage of orders is shipped
 * @returns the number of kills
 */
export async function killBrokers(
  brokers: Brokers,
  shipped: (percent: number) => Promise<void>,
): Promise<number> {
  let kills = 0;
  for (const { percent, name } of moments) {
    const { own } = brokers[name];
    if (own === null) continue;
    await shipped(percent);
    await own.restart();
    kills += 1;
  }
  return kills;
}
