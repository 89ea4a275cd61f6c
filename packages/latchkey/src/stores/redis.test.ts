import { readFileSync } from "node:fs";
import { type Cluster, Redis } from "ioredis";
import type { Redis as Valkey } from "iovalkey";
import type { RedisClientType, RedisClusterType, RedisSentinelType } from "redis";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import {
  type ClientFactory,
  clients,
  clusterClients,
  newPrefix,
  type OpenClient,
} from "../../../../test/redis/clients.ts";
import { anyRedis, redisProgram } from "../../../../test/support/private-redis.ts";
import { startRedisCluster } from "../../../../test/support/redis-cluster.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { storeConformance } from "../../../latchkey-conformance/src/store-conformance.ts";
import { createLatchkey } from "../latchkey.ts";
import { systemPorts } from "../ports.ts";
import { linkOf, type RedisClient, type RedisLink } from "./redis/client.ts";
import { openRedis } from "./redis/open.ts";
import { recordScripts } from "./redis/scripts/records.ts";
import { type RedisStoreOptions, redisStore } from "./redis.ts";
import type { Store } from "./store.ts";

const capabilities = {
  transactions: false,
  inProgress: "immediate",
  durability: "may-lose-acknowledged",
  commitNotice: false,
  fenceSurvivesFailover: false,
  statusReads: "primary",
} as const;

/** Any day will do; the store's time moves only by `advance`. */
const startMs = Date.UTC(2026, 0, 1);

function testedStore(link: RedisLink, prefix: string, now: () => number): Store {
  return openRedis({
    link,
    prefix,
    partitions: null,
    commandTimeoutMs: 5_000,
    onWarning() {},
    ports: systemPorts,
    now,
  });
}

/** The conformance suite with a client for each of two processes, on keys of their own for each case. */
function conformance(
  urlOf: () => string,
  open: ClientFactory,
  around: (link: RedisLink) => RedisLink = (link) => link,
): void {
  let opened: readonly OpenClient[] = [];
  beforeAll(async () => {
    opened = [await open(urlOf()), await open(urlOf())];
  });
  afterAll(async () => {
    for (const { close } of opened) await close();
  });

  storeConformance<never>({
    test: (name, body) => test(name, body),
    capabilities,
    clock: "frozen",
    factory() {
      let now = startMs;
      const prefix = newPrefix();
      const [store, secondStore] = opened.map(({ client }) =>
        testedStore(around(linkOf(client)), prefix, () => now),
      );
      if (store === undefined || secondStore === undefined) throw new TypeError("no client");
      return {
        store,
        secondStore,
        advance(milliseconds) {
          now += milliseconds;
        },
        close() {},
      };
    },
  });
}

const available = redisProgram() !== undefined || process.env.LATCHKEY_REDIS_URL !== undefined;

describe.skipIf(!available)("on a server", () => {
  let url = "";
  beforeAll(async () => {
    url = (await anyRedis()) ?? "";
  });

  describe.each(isThorough ? Object.entries(clients) : [])("the store contract with %s", (_, open) => {
    conformance(() => url, open);
  });

  describe("the store contract with no other rights than docs/stores.md asks for", () => {
    const user = `app${process.pid}`;
    const withUser = () => url.replace("redis://", `redis://${user}:secret@`);
    beforeAll(async () => {
      const page = readFileSync(new URL("../../../../docs/stores.md", import.meta.url), "utf8");
      const line = page.split("\n").find((text) => text.startsWith("- **Permissions.**")) ?? "";
      const commands = [...line.matchAll(/`([A-Z]+)`/g)].map(([, name]) => `+${name?.toLowerCase()}`);
      expect(commands).toContain("+zrangebylex");
      const admin = new Redis(url);
      const rights = ["on", ">secret", "~lk-test-*", "-@all", ...commands];
      expect(await admin.call("ACL", "SETUSER", user, ...rights)).toBe("OK");
      admin.disconnect();
    });
    conformance(withUser, clients["node-redis 6"] ?? missing);
  });

  // As a client that has lost its connection before the reply and sends again what it had sent, by itself.
  const kept = isThorough ? (["first", "second"] as const) : [];
  describe.each(kept)(
    "the store contract when everything is sent twice and the %s reply is kept",
    (which) => {
      conformance(() => url, clients["ioredis 6"] ?? missing, sentTwice(which));
    },
  );
});

/** What they took away cannot answer again: the second time they answer that there is nothing to do. */
const answeredOnce: readonly string[] = [recordScripts.release, recordScripts.clean].flatMap(
  ({ sha, text }) => [sha, text],
);

function sentTwice(kept: "first" | "second") {
  return (link: RedisLink): RedisLink => ({
    ...link,
    async call(...call) {
      const [first, second] = await Promise.all([link.call(...call), link.call(...call)]);
      return kept === "first" || answeredOnce.includes(call[1]) ? first : second;
    },
  });
}

function missing(): never {
  throw new TypeError("no such client");
}

describe.runIf(isThorough && redisProgram() !== undefined)("on a cluster of three", () => {
  let url = "";
  beforeAll(async () => {
    url = (await startRedisCluster())?.nodes[0]?.url ?? "";
  });

  describe.each(Object.entries(clusterClients))("the store contract with %s", (_, open) => {
    conformance(() => url, open);
  });
});

describe("options", () => {
  const client = { sendCommand: async () => null };

  test.each(["", "a b", "a{b}", "a}", "a\n", "a".repeat(65)])("prefix %j is refused", (prefix) => {
    expect(() => redisStore({ client, prefix })).toThrow(TypeError);
  });

  test.each([0, -1, 1.5, 513, Number.NaN])("%d partitions are refused", (partitions) => {
    expect(() => redisStore({ client, partitions })).toThrow(TypeError);
  });

  test.each([0, -1, 0.5, Number.POSITIVE_INFINITY])("a limit of %d ms is refused", (commandTimeoutMs) => {
    expect(() => redisStore({ client, commandTimeoutMs })).toThrow(TypeError);
  });

  test.each([undefined, null, {}, { get: () => null }])("%j is no client", (other) => {
    expect(() => redisStore({ client: other as never })).toThrow(TypeError);
  });

  test("what it declares, and that there are no transactions", () => {
    const store = redisStore({ client });
    expectTypeOf(store).toEqualTypeOf<Store>();
    expect(store.capabilities).toEqual(capabilities);
    expect([store.transactions, store.outbox, store.hints]).toEqual([null, null, null]);
    const latchkey = createLatchkey({ store });
    expect(() => latchkey.operation("a", { execution: "transaction" })).toThrow(TypeError);
    expect(latchkey.operation("b").execution).toBe("lease");
  });

  test("it cannot count the keys of a tenant, and refuses to be asked for a cap on them", () => {
    const limits = { activeKeys: 1_000 };
    const refused = expect.objectContaining({ code: "store-cannot-count" });
    expect(() => createLatchkey({ store: redisStore({ client }), limits })).toThrow(refused);
  });

  test("the types of every client fit", () => {
    expectTypeOf<Redis>().toExtend<RedisClient>();
    expectTypeOf<Cluster>().toExtend<RedisClient>();
    expectTypeOf<Valkey>().toExtend<RedisClient>();
    expectTypeOf<RedisClientType>().toExtend<RedisClient>();
    expectTypeOf<RedisClusterType>().toExtend<RedisClient>();
    expectTypeOf<RedisSentinelType>().toExtend<RedisClient>();
    expectTypeOf<Parameters<typeof redisStore>>().toEqualTypeOf<[RedisStoreOptions]>();
  });
});
