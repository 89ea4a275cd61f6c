/** What is known after a call to Redis has failed. */

import { createClient } from "redis";
import { describe, expect, test } from "vitest";
import { openClient, privateRedis, reserve, storeOn, storeOver } from "../../../../test/redis/arrange.ts";
import { patient } from "../../../../test/support/patience.ts";
import { type PrivateRedis, redisProgram } from "../../../../test/support/private-redis.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { until } from "../../../../test/support/until.ts";
import {
  completion,
  defaultTerms,
  newKey,
  newLife,
  newToken,
} from "../../../latchkey-conformance/src/store-conformance/arrange.ts";
import { intentOf } from "../../../latchkey-conformance/src/store-conformance/journal-arrange.ts";
import { StoreError } from "../errors.ts";
import { certaintyOf } from "./redis/certainty.ts";
import { linkOf, type RedisLink } from "./redis/client.ts";

/** As servers and clients of different versions word it. */
const worded: readonly (readonly [message: string, certainty: string])[] = [
  ["READONLY You can't write against a read only replica. script: 1f2e, on @user_script:12.", "rolled_back"],
  ["ERR Error running script (call to f_1f2e): @user_script:12: -READONLY You can't write", "rolled_back"],
  [
    "ERR Error running script (call to f_1f2e): @user_script:12: @user_script: 12: -OOM command not allowed",
    "rolled_back",
  ],
  ["OOM command not allowed when used memory > 'maxmemory'.", "rolled_back"],
  ["LOADING Redis is loading the dataset in memory", "rolled_back"],
  ["CLUSTERDOWN The cluster is down", "rolled_back"],
  ["MOVED 3999 127.0.0.1:6381", "rolled_back"],
  ["ASK 3999 127.0.0.1:6381", "rolled_back"],
  ["TRYAGAIN Multiple keys request during rehashing of slot", "rolled_back"],
  [
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist on disk.",
    "rolled_back",
  ],
  ["NOREPLICAS Not enough good replicas to write.", "rolled_back"],
  ["BUSY Redis is busy running a script.", "rolled_back"],
  ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "rolled_back"],
  ["NOAUTH Authentication required.", "rolled_back"],
  ["NOPERM User app has no permissions to run the 'evalsha' command", "rolled_back"],
  ["Stream isn't writeable and enableOfflineQueue options is false", "not_sent"],
  [
    "ERR Error running script (call to f_1f2e): @user_script:40: user_script:40: attempt to index a nil value",
    "in_doubt",
  ],
  ["WRONGTYPE Operation against a key holding the wrong kind of value", "in_doubt"],
  ["Connection is closed.", "in_doubt"],
  [
    'Reached the max retries per request limit (which is 20). Refer to "maxRetriesPerRequest" option for details.',
    "in_doubt",
  ],
  ["Command timed out", "in_doubt"],
  ["Socket closed unexpectedly", "in_doubt"],
  ["read ECONNRESET", "in_doubt"],
  ["the answer is OOM", "in_doubt"],
];

describe("certainty", () => {
  test.each(worded)("of %j is %s", (message, certainty) => {
    expect(certaintyOf(new Error(message))).toBe(certainty);
  });

  test("of a connection that was refused: nothing was sent", () => {
    const error = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:6379"), { code: "ECONNREFUSED" });
    expect(certaintyOf(error)).toBe("not_sent");
  });

  test("of what is no error is doubt", () => {
    expect(certaintyOf("x")).toBe("in_doubt");
  });
});

const persistent = { appendonly: "yes" };

describe.skipIf(redisProgram() === undefined)("on a server", () => {
  test("a frozen server is in doubt after the limit, and an end that was asked for happens later", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url, { commandTimeoutMs: patient(300) });
    const record = await reserve(store);
    const thaw = await server.freeze();
    const ended = store.end(record, record.id, record.fence, completion("late"));
    await expect(ended).rejects.toBeInstanceOf(StoreError);
    await expect(ended).rejects.toMatchObject({ certainty: "in_doubt" });
    thaw();
    const isCompleted = async () => (await store.read(record)).record?.state === "completed";
    await until(isCompleted, { what: "it has happened" });
  });

  test("what begins an attempt does not happen any more when nobody waits for it", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url, { commandTimeoutMs: patient(300) });
    const parked = await reserve(store);
    const again = { event: "retry_later", errorCode: "x", resumeAfterMs: null } as const;
    await store.end(parked, parked.id, parked.fence, again);
    const guard = { id: parked.id, state: "retryable", fence: parked.fence } as const;
    const waiting = newLife(newKey());
    await store.accept(waiting, null, 60_000);
    const owned = await reserve(store);
    const life = newLife(newKey());
    const thaw = await server.freeze();
    const owner = { key: owned, id: owned.id, fence: owned.fence };
    const acts = [
      store.create(life, null, defaultTerms),
      store.takeOver(parked, guard, parked.fingerprint, newToken(), defaultTerms),
      store.claimPending([{ operation: waiting.operation, tokens: [newToken()], terms: defaultTerms }]),
      store.journal.startCall(owner, intentOf()),
    ];
    for (const result of await Promise.allSettled(acts)) {
      expect(result).toMatchObject({ status: "rejected", reason: { certainty: "in_doubt" } });
    }
    await past(patient(400));
    thaw();
    await until(() => store.verify().then(() => true), { what: "Redis is back" });
    expect((await store.read(life)).record).toBeNull();
    expect((await store.read(parked)).record?.state).toBe("retryable");
    expect((await store.read(waiting)).record?.state).toBe("pending");
    expect((await store.journal.read(owned, owned.id))?.steps).toEqual([]);
  });

  test("a server whose clock has jumped ahead of what was known is asked again, by its own", async () => {
    const server = await privateRedis(persistent);
    const asked: string[] = [];
    const link = linkOf(openClient(server.url));
    const store = storeOver(jumping(link, asked));
    await store.verify();
    asked.length = 0;
    const life = newLife(newKey());
    expect((await store.create(life, null, defaultTerms))?.id).toBe(life.id);
    expect(asked.filter((time) => time.startsWith("<")).length).toBeGreaterThan(1);
  });

  test("a server that dies in the middle is in doubt", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url);
    await store.verify();
    await server.freeze();
    const created = store.create(newLife(newKey()), null, defaultTerms);
    const failed = expect(created).rejects.toMatchObject({
      code: "store-unavailable",
      certainty: "in_doubt",
    });
    await server.kill9();
    await failed;
  });

  test("a client that is offline and keeps no queue has sent nothing", async () => {
    const server = await privateRedis(persistent);
    const store = storeOver(linkOf(await impatientClient(server)));
    await store.verify();
    await server.kill9();
    const refused = async () => {
      const error = await store
        .create(newLife(newKey()), null, defaultTerms)
        .catch((thrown: unknown) => thrown);
      return error instanceof StoreError && error.certainty === "not_sent";
    };
    await until(refused, { what: "the client knows that it is offline" });
  });

  test("when the server is back, the same store serves again", async () => {
    const server = await privateRedis({ ...persistent, appendfsync: "always" });
    const store = storeOn(server.url);
    const record = await reserve(store);
    await server.kill9();
    await expect(store.read(record)).rejects.toBeInstanceOf(StoreError);
    await server.start();
    await until(async () => (await store.read(record)).record?.id === record.id);
    expect(await store.end(record, record.id, record.fence, completion())).not.toBeNull();
  });

  test("a server that runs somebody's long script has not run ours", async () => {
    const server = await privateRedis({ ...persistent, "busy-reply-threshold": 20 });
    const store = storeOn(server.url);
    await store.verify();
    const long = server.admin("EVAL", "while true do end", "0").catch(() => null);
    await until(
      async () => certaintyOf(await server.admin("PING").catch((error: unknown) => error)) === "rolled_back",
    );
    await expect(reserve(store)).rejects.toMatchObject({ certainty: "rolled_back" });
    await server.admin("SCRIPT", "KILL");
    await long;
    await reserve(store);
  });

  test("a cluster that does not serve the slot has not run it", async () => {
    const server = await privateRedis({ "cluster-enabled": "yes" });
    await expect(storeOn(server.url).verify()).rejects.toMatchObject({ certainty: "rolled_back" });
    await expect(reserve(storeOn(server.url))).rejects.toMatchObject({ certainty: "not_sent" });
  });

  test("a server that has forgotten the scripts is given them again", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url);
    const record = await reserve(store);
    await server.admin("SCRIPT", "FLUSH", "SYNC");
    expect((await store.read(record)).record?.id).toBe(record.id);
    expect(await store.renew(record, record.id, record.fence, 1_000)).toBe(true);
  });

  test("a client that changes replies is noticed", async () => {
    const server = await privateRedis(persistent);
    const link = linkOf(openClient(server.url));
    const changing = {
      ...link,
      call: async (...call: Parameters<typeof link.call>) => String(await link.call(...call)),
    };
    const store = storeOver(changing);
    await expect(store.verify()).rejects.toThrow(/must not transform replies/);
  });
});

/** What the server says of its time is an hour old. */
function jumping(link: RedisLink, asked: string[]): RedisLink {
  return {
    ...link,
    async call(how, by, keys, args) {
      asked.push(String(args[0]));
      const reply = await link.call(how, by, keys, args);
      if (!Array.isArray(reply) || !(reply[0] instanceof Uint8Array)) return reply;
      return [Buffer.from(String(Number(Buffer.from(reply[0]).toString()) - 3_600_000)), ...reply.slice(1)];
    },
  };
}

/** So much of the server's time, which goes on while it is frozen. */
async function past(delayMs: number): Promise<void> {
  const from = performance.now();
  await until(() => performance.now() > from + delayMs);
}

async function impatientClient({ url }: PrivateRedis) {
  const client = createClient({ url, disableOfflineQueue: true });
  client.on("error", () => {});
  await client.connect();
  onRelease(() => client.destroy());
  return client;
}
