/** ioredis sends what has no reply again after it has reconnected, as it does by default. */
import { Redis } from "ioredis";
import { beforeAll, describe, expect, test } from "vitest";
import { linkOf } from "../../packages/latchkey/src/stores/redis/client.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import {
  completion,
  defaultTerms,
  leaseMs,
  minute,
  newKey,
  newLife,
  newToken,
} from "../../packages/latchkey-conformance/src/store-conformance/arrange.ts";
import { intentOf } from "../../packages/latchkey-conformance/src/store-conformance/journal-arrange.ts";
import { type PrivateRedis, redisProgram } from "../support/private-redis.ts";
import { onRelease } from "../support/resources.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { openClient, privateRedis, reserve, storeOver } from "./arrange.ts";

describe.skipIf(redisProgram() === undefined)("a reply that is lost with its connection", () => {
  let server: PrivateRedis;
  let proxy: TcpProxy;
  let store: Store;
  let observer: Redis;

  beforeAll(async () => {
    server = await privateRedis({ appendonly: "yes" });
    proxy = await startProxy({ to: { port: server.port }, protocol: "bytes" });
    const client = new Redis(proxy.url(server.url), { retryStrategy: () => 20 });
    client.on("error", () => {});
    onRelease(() => client.disconnect());
    observer = openClient(server.url);
    store = storeOver(linkOf(client), { commandTimeoutMs: 10_000 });
    await store.verify();
    // Every script is known, so that a call is one command.
    const record = await reserve(store);
    await store.renew(record, record.id, record.fence, minute);
    await store.end(record, record.id, record.fence, completion());
  });

  async function scriptCalls(): Promise<number> {
    const text = await observer.info("commandstats");
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(text)?.[1] ?? 0);
  }

  /** The server does it, its reply is lost, and the client sends it again. */
  async function twice<T>(act: () => Promise<T>): Promise<T> {
    proxy.stall("down");
    const before = await scriptCalls();
    const acting = act();
    await until(async () => (await scriptCalls()) > before, { what: "the server has done it" });
    proxy.reset();
    await proxy.pass();
    const result = await acting;
    expect(await scriptCalls(), "the client must have sent it again").toBeGreaterThan(before + 1);
    return result;
  }

  test("create: the same attempt is answered, and it owns the record", async () => {
    const life = newLife(newKey());
    const record = await twice(() => store.create(life, null, defaultTerms));
    expect(record).toMatchObject({ id: life.id, fence: life.fence });
    expect(await store.renew(life, life.id, life.fence, minute)).toBe(true);
  });

  test("end: the owner gets the reply that it has completed", async () => {
    const record = await reserve(store);
    const ended = await twice(() => store.end(record, record.id, record.fence, completion()));
    expect(ended?.expiresAt).toEqual(expect.any(Number));
  });

  test("start call: one send is counted", async () => {
    const record = await reserve(store);
    const owner = { key: record, id: record.id, fence: record.fence };
    const started = await twice(() => store.journal.startCall(owner, intentOf()));
    expect(started?.step.sends).toBe(1);
  });

  test("refence: the new token is the owner's", async () => {
    const record = await reserve(store);
    const owner = { key: record, id: record.id, fence: record.fence };
    const token = newToken();
    const refenced = await twice(() => store.journal.refence(owner, token, leaseMs, minute));
    expect(refenced?.fence.token).toBe(token);
  });
});
