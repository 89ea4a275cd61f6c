/** What befalls a cluster of three, in this order, while orders go through it. */
import { expect } from "vitest";
import type { BrokerCluster } from "../support/broker-clusters.ts";
import type { PrivateBroker } from "../support/private-brokers.ts";
import { until } from "../support/until.ts";
import { measured } from "./measured.ts";
import { type OrderQueue, openShop } from "./orders.ts";

export interface Outage {
  readonly name: string;
  readonly cluster: BrokerCluster;
  readonly queue: OrderQueue;
  /** The node that has the queue now. */
  leader(): Promise<PrivateBroker>;
}

/** One node is lost, then the majority; both come back. */
export async function surviveOutage({ name, cluster, queue, leader }: Outage): Promise<void> {
  const shop = await openShop(queue);
  await shop.secondsUntilShipped();
  const first = await leader();
  await first.kill9();
  const afterLeader = await shop.secondsUntilShipped();

  const second = cluster.find((node) => node !== first);
  if (second === undefined) throw new TypeError("a cluster has three nodes");
  await second.kill9();
  const before = shop.placed();
  await until(() => shop.placed() > before + 20, { what: "orders are taken without a majority" });
  await Promise.all([first.start(), second.start()]);
  const afterMajority = await shop.secondsUntilShipped();
  const { orders, duplicates } = await shop.close();
  expect(orders).toBeGreaterThan(before);
  measured(name, { "leader killed, s": afterLeader, "majority back, s": afterMajority, orders, duplicates });
}
