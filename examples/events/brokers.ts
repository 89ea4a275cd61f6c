/**
 * The brokers of a run: those that the environment names, or processes of its own, which can be killed. How to start one is
 * what this repository's tests know.
 */
import { type Broker, startNats, startRabbitmq } from "../../test/support/private-brokers.ts";
import { releaseAll } from "../../test/support/resources.ts";
import type { Settings } from "./settings.ts";

export interface Brokers {
  readonly rabbitmq: Broker;
  readonly nats: Broker;
  /** Ends what was started here, and removes its files. */
  release(): Promise<void>;
}

/** Null where a program is missing, which has been reported then. */
export async function brokersOf({ rabbitmqUrl, natsUrl }: Settings): Promise<Brokers | null> {
  const [rabbitmq, nats] = await Promise.all([
    rabbitmqUrl === null ? startRabbitmq() : { url: rabbitmqUrl, own: null },
    natsUrl === null ? startNats() : { url: natsUrl, own: null },
  ]);
  if (rabbitmq !== undefined && nats !== undefined) return { rabbitmq, nats, release: releaseAll };
  await releaseAll();
  return null;
}

/** So many orders in a hundred are shipped when a broker is killed, and started again on its files. */
const moments = [
  { percent: 20, name: "rabbitmq" },
  { percent: 45, name: "nats" },
  { percent: 70, name: "rabbitmq" },
] as const;

/**
 * Kills those brokers that are our own.
 *
 * @param shipped waits until so many orders in a hundred are
 * @returns how often
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
