/**
 * Three nodes of NATS or of RabbitMQ as one cluster: each is a process with its files, which can be killed and started again.
 */
import { appendFileSync, chmodSync, chownSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { freePort } from "./postgres-cluster.ts";
import {
  type BrokerRecipe,
  natsRecipe,
  type PrivateBroker,
  privateBroker,
  rabbitmqRecipe,
} from "./private-brokers.ts";
import type { ServerPlace } from "./private-server.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";

const size = 3;

export type BrokerCluster = readonly PrivateBroker[];

/** The nodes' places, and a port for each on which the others reach it. */
interface Seat extends ServerPlace {
  readonly innerPort: number;
}

async function seats(): Promise<readonly Seat[]> {
  const all = [];
  for (let count = 0; count < size; count += 1) {
    all.push({ folder: scratchDirectory(), port: await freePort(), innerPort: await freePort() });
  }
  return all;
}

/** Nodes that are not started yet; undefined after a "not run" report. */
function nodes(all: readonly Seat[], recipeOf: (seat: Seat) => BrokerRecipe): BrokerCluster | undefined {
  const found = all.map((seat) => privateBroker(recipeOf(seat), seat)).filter((node) => node !== undefined);
  return found.length === size ? found : undefined;
}

/** JetStream with its files on each node. */
export async function startNatsCluster(): Promise<BrokerCluster | undefined> {
  const all = await seats();
  const url = ({ innerPort }: Seat) => `nats://127.0.0.1:${innerPort}`;
  const cluster = nodes(all, (seat) => ({
    ...natsRecipe,
    async prepare(place) {
      const { args, env } = await natsRecipe.prepare(place);
      const routes = all.filter((other) => other !== seat).map(url);
      const own = ["-n", natsNodeName(seat), "--cluster_name", "tests", "--cluster", url(seat)];
      return { args: [...args, ...own, "--routes", routes.join(",")], env };
    },
  }));
  await Promise.all((cluster ?? []).map((node) => node.start()));
  return cluster;
}

/** The name by which JetStream refers to its leaders. */
export function natsNodeName({ folder }: { readonly folder: string }): string {
  return basename(folder);
}

/** The first node runs before the others join it. */
export async function startRabbitmqCluster(): Promise<BrokerCluster | undefined> {
  const all = await seats();
  const name = ({ folder }: Seat) => `${basename(folder).replaceAll(/[^a-zA-Z0-9]/g, "")}@localhost`;
  const peers = all.map(
    (seat, index) => `cluster_formation.classic_config.nodes.${index + 1} = ${name(seat)}\n`,
  );
  const cluster = nodes(all, (seat) => ({
    ...rabbitmqRecipe,
    async prepare(place) {
      const { args, env } = await rabbitmqRecipe.prepare(place);
      appendFileSync(
        join(place.folder, "rabbitmq.conf"),
        `cluster_formation.peer_discovery_backend = classic_config\n${peers.join("")}`,
      );
      writeCookie(place.folder);
      return { args, env: { ...env, RABBITMQ_DIST_PORT: String(seat.innerPort) } };
    },
  }));
  const [first, ...others] = cluster ?? [];
  await first?.start();
  await Promise.all(others.map((node) => node.start()));
  return cluster;
}

/** The secret by which the nodes recognise each other. */
function writeCookie(folder: string): void {
  const file = join(folder, ".erlang.cookie");
  chmodSync(folder, 0o755);
  writeFileSync(file, "TESTSOFACLUSTER", { flag: "w" });
  chmodSync(file, 0o400);
  const user = serverUser();
  if (user) chownSync(file, user.uid, user.gid);
}
