/** What the store says about the settings of the server it is given. */
import { describe, expect, test, vi } from "vitest";
import { openClient, privateRedis, reserve, storeOn, storeOver } from "../../../../test/redis/arrange.ts";
import { redisProgram } from "../../../../test/support/private-redis.ts";
import { until } from "../../../../test/support/until.ts";
import {
  completion,
  defaultTerms,
  ends,
  minute,
  newKey,
  newLife,
  newToken,
} from "../../../latchkey-conformance/src/store-conformance/arrange.ts";
import { callEnds, intentOf } from "../../../latchkey-conformance/src/store-conformance/journal-arrange.ts";
import { completedOutside } from "../../../latchkey-conformance/src/store-conformance/settlement-arrange.ts";
import { guardOf } from "../engine/record.ts";
import { StoreError } from "../errors.ts";
import type { RedisWarning } from "./redis/check-server.ts";
import { linkOf, type RedisLink } from "./redis/client.ts";
import { redisStore } from "./redis.ts";

const persistent = { appendonly: "yes" };
const unsuitable = { code: "store-unsuitable" };
const refused = { code: "store-unavailable", certainty: "not_sent", cause: unsuitable };

function recording() {
  const warnings: RedisWarning[] = [];
  return { warnings, onWarning: (warning: RedisWarning) => void warnings.push(warning) };
}

describe.skipIf(redisProgram() === undefined)("settings of the server", () => {
  test("a policy that drops any key is refused, before anything is written, and not once it is mended", async () => {
    const server = await privateRedis({
      ...persistent,
      maxmemory: "64mb",
      "maxmemory-policy": "allkeys-lru",
    });
    const store = storeOn(server.url);
    await expect(store.verify()).rejects.toMatchObject(unsuitable);
    await expect(store.verify()).rejects.toThrow(/maxmemory-policy is allkeys-lru.*twice/);
    await expect(reserve(store)).rejects.toMatchObject(refused);
    await expect(store.read(newKey())).rejects.toMatchObject(refused);
    expect(await server.admin("DBSIZE")).toBe(0);
    await server.admin("CONFIG", "SET", "maxmemory-policy", "noeviction");
    await reserve(store);
    await store.verify();
  });

  test("the same policy without a limit of memory is warned of", async () => {
    const server = await privateRedis({ ...persistent, "maxmemory-policy": "allkeys-lfu" });
    const { warnings, onWarning } = recording();
    await storeOn(server.url, { onWarning }).verify();
    expect(warnings.map(({ code }) => code)).toEqual(["LATCHKEY_REDIS_EVICTION"]);
  });

  test("a policy that drops what expires never drops a record: Redis refuses writes instead", async () => {
    const server = await privateRedis({ ...persistent, "maxmemory-policy": "volatile-lru" });
    const { warnings, onWarning } = recording();
    const store = storeOn(server.url, { onWarning });
    await store.verify();
    expect(warnings).toEqual([]);
    const records = [];
    for (let count = 0; count < 20; count += 1) records.push(await reserve(store));
    await server.admin("SETEX", "of somebody else", "1000", "x".repeat(100_000));
    await server.admin("CONFIG", "SET", "maxmemory", "1mb");
    await until(async () => (await server.admin("EXISTS", "of somebody else")) === 0);
    await expect(reserve(store)).rejects.toMatchObject({ certainty: "rolled_back" });
    await expect(reserve(store)).rejects.toThrow(/OOM/);
    for (const record of records) expect((await store.read(record)).record?.id).toBe(record.id);
  });

  test("without an append-only file a restart forgets, and the store says so, once", async () => {
    const server = await privateRedis({ appendonly: "no" });
    const { warnings, onWarning } = recording();
    const store = storeOn(server.url, { onWarning });
    await reserve(store);
    await store.verify();
    await store.verify();
    expect(warnings.map(({ code }) => code)).toEqual(["LATCHKEY_REDIS_NOT_PERSISTENT"]);
    expect(warnings[0]?.message).toMatch(/appendonly to yes/);
  });

  test("with an append-only file there is nothing to say", async () => {
    const server = await privateRedis(persistent);
    const { warnings, onWarning } = recording();
    await storeOn(server.url, { onWarning }).verify();
    expect(warnings).toEqual([]);
  });

  test("warnings are process warnings where nobody else takes them", async () => {
    const emitted = vi.spyOn(process, "emitWarning").mockReturnValue();
    const server = await privateRedis();
    await redisStore({ client: openClient(server.url) }).verify();
    const expected = { type: "LatchkeyWarning", code: "LATCHKEY_REDIS_NOT_PERSISTENT" };
    expect(emitted).toHaveBeenCalledExactlyOnceWith(expect.any(String), expected);
    emitted.mockRestore();
  });

  test("settings that may not be read are warned of", async () => {
    const server = await privateRedis({
      ...persistent,
      "maxmemory-policy": "allkeys-lru",
      maxmemory: "64mb",
    });
    await server.admin("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info");
    const { warnings, onWarning } = recording();
    const store = storeOn(server.url.replace("redis://", "redis://app:secret@"), { onWarning });
    await reserve(store);
    expect(warnings.map(({ code }) => code)).toEqual(["LATCHKEY_REDIS_SETTINGS_UNKNOWN"]);
  });

  test("a read-only replica is refused, for reading too", async () => {
    const primary = await privateRedis(persistent);
    const record = await reserve(storeOn(primary.url));
    const replica = await privateRedis({ replicaof: `127.0.0.1 ${primary.port}` });
    await until(async () => Number(await replica.admin("DBSIZE")) > 0, {
      what: "the replica has the record",
    });
    const store = storeOn(replica.url);
    await expect(store.verify()).rejects.toMatchObject(unsuitable);
    await expect(store.verify()).rejects.toThrow(/read-only replica/);
    await expect(store.read(record)).rejects.toMatchObject(refused);
  });

  test("a primary that becomes a replica answers nothing any more, whether guards hold there or not", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url);
    const record = await reserve(store);
    const guard = guardOf(record);
    const owner = { key: record, id: record.id, fence: record.fence };
    await store.journal.startCall(owner, intentOf());
    const waiting = newLife(newKey());
    await store.accept(waiting, null, minute);
    const ended = await reserve(store);
    await store.end(ended, ended.id, ended.fence, completion());
    // There is no such primary, so it keeps what it has.
    await server.admin("REPLICAOF", "127.0.0.1", "1");
    const wrongFence = { ...record.fence, token: newToken() };
    const print = record.fingerprint;
    const [journal, settlement] = [store.journal, store.settlement];
    const note = { id: "note", actor: "ada", proof: "operator", reason: null };
    const acts: readonly (() => Promise<unknown>)[] = [
      () => store.verify(),
      () => store.read(record),
      () => store.read(newKey()),
      () => store.readById(record.tenant, record.id),
      () => store.create(newLife(newKey()), null, defaultTerms),
      () => store.create(newLife(record), null, defaultTerms),
      () => store.create({ ...newLife(record), id: record.id, fence: record.fence }, null, defaultTerms),
      () => store.accept(newLife(record), null, minute),
      () => store.accept(waiting, null, minute),
      () => store.recordLostTransaction(newLife(record), null, "x"),
      () => store.takeOver(record, guard, print, newToken(), defaultTerms),
      () => store.renew(record, record.id, record.fence, minute),
      () => store.renew(record, record.id, wrongFence, minute),
      ...Object.values(ends).flatMap((end) => [
        () => store.end(record, record.id, record.fence, end),
        () => store.end(record, record.id, wrongFence, end),
        () => store.end(ended, ended.id, ended.fence, end),
      ]),
      () => store.end(record, record.id, wrongFence, { event: "release" }),
      () => store.giveUp(record, guard, "x", null),
      () => store.claimPending([{ operation: "payments.create", tokens: [newToken()], terms: defaultTerms }]),
      () => store.endedLeases(1),
      () => store.clean(1),
      () => journal.read(record, record.id),
      () => journal.read(record, "another"),
      () => journal.startCall(owner, intentOf()),
      () => journal.startCall({ ...owner, fence: wrongFence }, intentOf()),
      () => journal.endCall(owner, { name: "charge", generation: 0 }, callEnds.finish),
      () => journal.endCall(owner, { name: "another", generation: 0 }, callEnds.finish),
      () => journal.refence(owner, newToken(), minute, minute),
      () => journal.refence({ ...owner, fence: wrongFence }, newToken(), minute, minute),
      () => journal.callsByDownstreamKey(["x"]),
      () => journal.finishedCalls({ effect: "x", from: 0, to: 1, limit: 1, after: null }),
      () => settlement.settle(record, { ...guard, state: "unknown" }, completedOutside, note),
      () => settlement.claimUnknowns(["payments.create"], 1, minute),
      () => settlement.postpone(record, guard, minute),
      () => settlement.resumable(["payments.create"], 1),
      () => settlement.list({ state: "completed", tenant: null, operation: null, limit: 1, after: null }),
      () => settlement.audit(record),
    ];
    for (const act of acts) {
      const outcome = await act().then(
        (answer) => ({ answer }),
        (error: unknown) => error,
      );
      expect(outcome, act.toString()).toMatchObject({ message: expect.stringMatching(/READONLY|read-only/) });
      if (outcome instanceof StoreError) expect(outcome.certainty).toBe("rolled_back");
    }
  });

  test("two processes that divide the records differently get an error", async () => {
    const server = await privateRedis(persistent);
    await reserve(storeOn(server.url, { partitions: 4 }));
    await expect(storeOn(server.url).verify()).rejects.toThrow(/4 partitions.*given 1/);
    await expect(reserve(storeOn(server.url, { partitions: 8 }))).rejects.toMatchObject(refused);
    await reserve(storeOn(server.url, { partitions: 4 }));
    await reserve(storeOn(server.url, { prefix: "another" }));
  });

  test.each([
    ["6.0.16", false],
    ["5.0.14", false],
    ["6.2.0", true],
    ["7.0.15", true],
    ["10.1.0", true],
  ])("Redis %s is suitable: %s", async (version, suitable) => {
    const server = await privateRedis(persistent);
    const store = storeOver(claiming(version, linkOf(openClient(server.url))));
    const verified = store.verify();
    await (suitable ? verified : expect(verified).rejects.toThrow(`Redis ${version} is older than 6.2`));
  });
});

/** The same server, saying that it is of another version. */
function claiming(version: string, link: RedisLink): RedisLink {
  return {
    ...link,
    async call(...call) {
      const reply = await link.call(...call);
      const [now, info] = Array.isArray(reply) ? reply : [];
      const text = info instanceof Uint8Array ? Buffer.from(info).toString() : "";
      if (!text.includes("redis_version")) return reply;
      return [now, Buffer.from(text.replace(/redis_version:\S+/, `redis_version:${version}`))];
    },
  };
}
