/** A store on a private Redis, and records to see what becomes of them. */
import { setImmediate as turn } from "node:timers/promises";
import { Redis } from "ioredis";
import { createLatchkey } from "latchkey";
import type { InProgressRecord, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { linkOf, type RedisLink } from "../../packages/latchkey/src/stores/redis/client.ts";
import { type OpenOptions, openRedis } from "../../packages/latchkey/src/stores/redis/open.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import {
  completion,
  defaultTerms,
  newKey,
  newLife,
} from "../../packages/latchkey-conformance/src/store-conformance/arrange.ts";
import { type PrivateRedis, type RedisConf, startRedis } from "../support/private-redis.ts";
import { onRelease } from "../support/resources.ts";

/** A private Redis that must be there: whoever calls this has asked `redisProgram` before. */
export async function privateRedis(conf: RedisConf = {}): Promise<PrivateRedis> {
  const server = await startRedis({ conf });
  if (server === undefined) throw new Error("no redis-server");
  return server;
}

/** A client that gives up at once when the server is gone. */
export function openClient(url: string): Redis {
  const client = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => 50 });
  client.on("error", () => {});
  onRelease(() => client.disconnect());
  return client;
}

export function storeOver(link: RedisLink, options: Partial<OpenOptions> = {}): Store {
  return openRedis({
    link,
    prefix: "latchkey",
    partitions: null,
    // Far from what a loaded machine takes for one command: the tests of this limit set their own.
    commandTimeoutMs: 30_000,
    onWarning() {},
    ports: systemPorts,
    now: null,
    ...options,
  });
}

export function storeOn(url: string, options: Partial<OpenOptions> = {}): Store {
  return storeOver(linkOf(openClient(url)), options);
}

export async function reserve(store: Store, key: RecordKey = newKey()): Promise<InProgressRecord> {
  const record = await store.create(newLife(key), null, defaultTerms);
  if (record === null) throw new Error("the key was taken");
  return record;
}

export async function complete(store: Store, record: InProgressRecord, text = "answer"): Promise<void> {
  const ended = await store.end(record, record.id, record.fence, completion(text));
  if (ended === null) throw new Error("the owner has lost");
}

/** An operation whose executions are counted, as a service without transactions has it. */
export function countingService(store: Store) {
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("mail.send", { execution: "lease" });
  const starts: string[] = [];
  const send = (key: string) =>
    latchkey.run(operation, { tenant: "t", key, input: null }, async () => {
      starts.push(key);
      return { sent: key };
    });
  return { latchkey, operation, send, starts };
}

/** Requests with new keys, one after the other in each of `lanes`, until `stop`; what became of them. */
export function load(send: ReturnType<typeof countingService>["send"], lanes: number) {
  const acknowledged: string[] = [];
  const refusals: unknown[] = [];
  let stopped = false;
  const lane = async (name: number) => {
    for (let count = 0; !stopped; count += 1) {
      const key = `${name} ${count}`;
      try {
        if ((await send(key)).kind === "executed") acknowledged.push(key);
      } catch (error) {
        refusals.push(error);
      }
      // While the circuit breaker refuses, nothing else gives the event loop a turn.
      await turn();
    }
  };
  const all = Array.from({ length: lanes }, (_, name) => lane(name));
  const stop = async () => {
    stopped = true;
    await Promise.all(all);
  };
  return { acknowledged, refusals, stop };
}
