/**
 * A Kafka to test on: the one that LATCHKEY_KAFKA_URL names, else librdkafka's mock cluster inside a `kcat` process. The mock
 * speaks the protocol and keeps topics and groups in memory; it is no broker, and has no disk, replicas or transactions.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { notRun } from "../support/not-run.ts";
import type { Broker } from "../support/private-brokers.ts";
import { endTree, identify } from "../support/process-tree.ts";
import { onRelease } from "../support/resources.ts";
import { findProgram } from "../support/servers.ts";
import { within } from "../support/until.ts";
import { watchProcess } from "../support/watchdog.ts";
import { type MendedProxy, mendedProxy } from "./mended-proxy.ts";

export interface KafkaCluster extends Broker {
  /** Null where it is somebody else's. */
  readonly proxy: MendedProxy | null;
}

const startTimeoutMs = 20_000;

export async function startKafka(): Promise<KafkaCluster | undefined> {
  const given = process.env.LATCHKEY_KAFKA_URL;
  if (given) return { url: given, own: null, proxy: null };
  const program = findProgram({ names: ["kcat"], apt: "kcat" });
  if (program === undefined) {
    notRun("tests on Kafka", "no LATCHKEY_KAFKA_URL, and no kcat here");
    return undefined;
  }
  const mock = ["-C", "-t", "unused", "-b", "unused", "-X", "test.mock.num.brokers=1", "-d", "mock"];
  const child = spawn(program, mock, { stdio: ["ignore", "ignore", "pipe"], detached: true });
  const port = Promise.withResolvers<number>();
  child.on("error", port.reject);
  let isEnding = false;
  child.on("exit", (code, signal) => {
    const how = `kcat, the mock cluster, exited: ${signal ?? `code ${code}`}`;
    port.reject(new Error(how));
    // Tests then fail by whatever they wait for: this is why.
    if (!isEnding) process.stderr.write(`${how}\n`);
  });
  createInterface({ input: child.stderr }).on("line", (line) => {
    const found = /bootstrap\.servers=127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    if (found !== undefined) port.resolve(Number(found));
  });
  if (!child.pid) return port.promise.then(() => undefined);
  const identity = identify(child.pid);
  const forget = watchProcess(child.pid);
  onRelease(async () => {
    isEnding = true;
    await endTree(identity, "SIGTERM");
    forget();
  });
  const proxy = await mendedProxy({
    port: await within(port.promise, "the mock cluster listens", startTimeoutMs),
  });
  onRelease(() => proxy.close());
  child.unref();
  return { url: proxy.url, own: null, proxy };
}
