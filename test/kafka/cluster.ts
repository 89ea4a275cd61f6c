/**
 * A Kafka to test on: the one that LATCHKEY_KAFKA_URL names, else librdkafka's mock cluster inside a `kcat` process. The mock
 * speaks the protocol and keeps topics and groups in memory; it is no broker, and has no disk, replicas or transactions.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { notRun } from "../support/not-run.ts";
import type { Broker } from "../support/private-brokers.ts";
import { endTree, identify } from "../support/process-tree.ts";
import { onRelease } from "../support/resources.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { findProgram } from "../support/servers.ts";
import { until } from "../support/until.ts";
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
  // To a file: where nobody empties a pipe in time, the mock stands still, and drops members whose time is over meanwhile.
  const scratch = scratchDirectory("us");
  onRelease(() => rm(scratch, { recursive: true, force: true }));
  const log = join(scratch, "mock.log");
  const output = openSync(log, "w");
  const child = spawn(program, mock, { stdio: ["ignore", "ignore", output], detached: true });
  closeSync(output);
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => {});
  child.on("error", over.reject);
  let isEnding = false;
  child.on("exit", (code, signal) => {
    const how = `kcat, the mock cluster, exited: ${signal ?? `code ${code}`}`;
    over.reject(new Error(how));
    // Tests then fail by whatever they wait for: this is why.
    if (!isEnding) process.stderr.write(`${how}\n`);
  });
  if (!child.pid) return over.promise;
  const identity = identify(child.pid);
  const forget = watchProcess(child.pid);
  onRelease(async () => {
    isEnding = true;
    await endTree(identity, "SIGTERM");
    forget();
  });
  const listening = until(() => portIn(log), { what: "the mock cluster listens", timeoutMs: startTimeoutMs });
  const proxy = await mendedProxy({ port: Number(await Promise.race([listening, over.promise])) });
  onRelease(() => proxy.close());
  child.unref();
  return { url: proxy.url, own: null, proxy };
}

function portIn(log: string): string | undefined {
  return /bootstrap\.servers=127\.0\.0\.1:(\d+)/.exec(readFileSync(log, "utf8"))?.[1];
}
