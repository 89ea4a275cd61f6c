/** What befalls a Redis of several servers, as the store and as the cache in front of Postgres, while requests come in. */
import { expect } from "vitest";
import { cached } from "../../packages/latchkey/src/caching/cached.ts";
import { StoreError } from "../../packages/latchkey/src/errors.ts";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { linkOf, type RedisClient } from "../../packages/latchkey/src/stores/redis/client.ts";
import { committedRows, migratedDatabase, openPool } from "../postgres/harness.ts";
import { countingService, storeOver } from "../redis/arrange.ts";
import type { PrivateRedis } from "../support/private-redis.ts";
import { until } from "../support/until.ts";
import { customers } from "./customers.ts";
import { measured } from "./measured.ts";

export const patience = { timeoutMs: 60_000 } as const;

/** Servers of which one is to be killed. */
export interface RedisGroup {
  readonly primary: PrivateRedis;
  /** The server that has now what the primary had in the beginning. */
  current(): Promise<PrivateRedis>;
  /** Resolves when replicas have what is written by now. */
  untilReplicated(): Promise<void>;
}

const secondsSince = (ms: number) => (performance.now() - ms) / 1_000;

/** Keys that no replica had may run again, and nothing else is lost or runs twice. */
export async function storeSurvives(name: string, client: RedisClient, group: RedisGroup): Promise<void> {
  const store = storeOver(linkOf(client), { commandTimeoutMs: 5_000 });
  const { send, starts } = countingService(store);
  const { acknowledged, refusals, stop } = customers(async (key) => (await send(key)).kind === "executed");
  await until(() => acknowledged.length > 150, patience);
  const kept = acknowledged.length;
  await group.untilReplicated();
  await until(() => acknowledged.length > kept + 20, patience);

  await group.primary.kill9();
  const [killedMs, before] = [performance.now(), acknowledged.length];
  await until(async () => (await group.current()) !== group.primary, patience);
  await until(() => acknowledged.length > before + 4, patience);
  const seconds = secondsSince(killedMs);
  const after = acknowledged.length;
  await group.primary.start();
  await until(() => acknowledged.length > after + 100, patience);
  await stop();
  expect(await group.current()).not.toBe(group.primary);

  const again: string[] = [];
  for (const key of acknowledged) {
    const result = await until(() => send(key).catch(() => null), patience);
    if (result?.kind !== "replay") again.push(key);
  }
  const mayBeLost = new Set(acknowledged.slice(kept, after));
  const unexpected = again.filter((key) => !mayBeLost.has(key));
  expect(unexpected, "what a replica had is kept").toEqual([]);
  const twice = starts.filter((key, index) => starts.indexOf(key) !== index);
  const others = twice.filter((key) => !again.includes(key));
  expect(others, "nothing else runs twice").toEqual([]);
  expect(refusals.every((error) => error instanceof StoreError)).toBe(true);
  measured(`${name}, as the store`, {
    "primary killed, s": seconds,
    acknowledged: acknowledged.length,
    lost: again.length,
  });
}

/** Pays through a cache in front of a Postgres of its own; every answer to a key must be the first one. */
async function payments(client: RedisClient) {
  const pool = openPool(await migratedDatabase());
  const latchkey = createLatchkey({ store: cached(postgresStore({ pool }), client) });
  const operation = latchkey.operation("pay");
  const answers = new Map<string, unknown>();
  const pay = async (key: string) => {
    const result = await latchkey.run(operation, { tenant: "t", key, input: null }, async ({ tx }) => {
      await tx.query("insert into business values ($1)", [key]);
      return { random: systemPorts.random.token() };
    });
    if (!("value" in result)) throw new Error(`it came to ${result.kind}`);
    const known = answers.get(key) ?? result.value;
    answers.set(key, known);
    expect(result.value).toEqual(known);
    return result.kind === "executed";
  };
  return { pool, latchkey, pay };
}

/**
 * Copies may be lost; no answer is, no request is refused, and nothing runs twice.
 *
 * @param back `takeover`: another server takes the primary's place; `restart`: the primary starts again, empty
 */
export async function cacheSurvives(
  name: string,
  client: RedisClient,
  group: RedisGroup,
  back: "takeover" | "restart" = "takeover",
): Promise<void> {
  const { pool, latchkey, pay } = await payments(client);
  const { acknowledged, refusals, stop } = customers(async (key) => {
    const isFirst = await pay(key);
    expect(await pay(key)).toBe(false);
    return isFirst;
  });
  const copies = async () => Number(await (await group.current()).admin("DBSIZE"));
  await until(async () => acknowledged.length > 100 && (await copies()) > 0, patience);

  await group.primary.kill9();
  const killedMs = performance.now();
  const during = acknowledged.length;
  await until(() => acknowledged.length > during + 20, patience);
  if (back === "restart") await group.primary.start();
  else await until(async () => (await group.current()) !== group.primary, patience);
  const old = await copies();
  await until(async () => (await copies()) > old, { what: "copies are kept again", ...patience });
  const seconds = secondsSince(killedMs);
  await stop();
  for (const key of acknowledged) expect(await pay(key)).toBe(false);
  expect(refusals).toEqual([]);
  expect((await committedRows(pool)).sort()).toEqual([...acknowledged].sort());
  await latchkey.close();
  measured(`${name}, as a cache`, {
    "copies again, s": seconds,
    requests: acknowledged.length * 2,
    refused: refusals.length,
  });
}
