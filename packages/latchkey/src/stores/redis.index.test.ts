/** The index beside the records: complete, without leftovers, and never believed. */
import type { Redis } from "ioredis";
import { beforeAll, describe, expect, test } from "vitest";
import { openClient, privateRedis, reserve, storeOver } from "../../../../test/redis/arrange.ts";
import { newPrefix } from "../../../../test/redis/clients.ts";
import { type PrivateRedis, redisProgram } from "../../../../test/support/private-redis.ts";
import {
  completion,
  day,
  defaultTerms,
  ends,
  leaseMs,
  minute,
  newKey,
  newLife,
  newToken,
  states,
} from "../../../latchkey-conformance/src/store-conformance/arrange.ts";
import { callEnds, intentOf } from "../../../latchkey-conformance/src/store-conformance/journal-arrange.ts";
import { guardOf } from "../engine/record.ts";
import { linkOf } from "./redis/client.ts";
import { recordFields } from "./redis/fields.ts";
import { Layout } from "./redis/keys.ts";
import { lua } from "./redis/scripts/texts.ts";
import { partitionTags, slotOf } from "./redis/slots.ts";
import type { Store } from "./store.ts";

const startMs = Date.UTC(2026, 0, 1);
const operation = "payments.create";

test("scripts read the fields of a record in the order in which replies are decoded", () => {
  const [, list = ""] = /^local F = \{([^}]*)\}/mu.exec(lua.prelude) ?? [];
  expect(list.split(",").map((name) => name.trim())).toEqual(recordFields.map((name) => `'${name}'`));
});

describe("slots", () => {
  test.each([1, 2, 3, 16, 32, 512])("of %d partitions lie in equal parts", (count) => {
    const parts = partitionTags(count).map((tag) => Math.floor((slotOf(tag) * count) / 16_384));
    expect(parts).toEqual(Array.from({ length: count }, (_, index) => index));
  });

  test("tags never change: what is stored lies under them", () => {
    expect(partitionTags(1)).toEqual(["0.0"]);
    expect(partitionTags(32).slice(0, 3)).toEqual(["0.13", "1.21", "2.1q"]);
    expect(new Layout("latchkey", 32).locationOf({ tenant: "t", scope: "s", key: "k" })).toEqual({
      partition: 8,
      digest: "q9XTCEC-Td-ohFru4C27TU2lDELh6ExtQvLlX2TIZic",
    });
  });
});

describe.skipIf(redisProgram() === undefined)("on a server", () => {
  let server: PrivateRedis;
  let client: Redis;
  beforeAll(async () => {
    server = await privateRedis({ appendonly: "yes" });
    client = openClient(server.url);
  });

  function setUp() {
    const prefix = newPrefix();
    let now = startMs;
    const store = storeOver(linkOf(client), { prefix, now: () => now });
    const [index = "", lookUp = ""] = new Layout(prefix, 1).partitionKeys(0);
    const left = async () => ({ entries: await client.zcard(index), lookUps: await client.hlen(lookUp) });
    const advance = (milliseconds: number) => {
      now += milliseconds;
    };
    return { store, index, lookUp, prefix, left, advance };
  }

  test("slots are those that the server computes", async () => {
    const cluster = await privateRedis({ "cluster-enabled": "yes" });
    for (const tag of [...partitionTags(8), "", "a", "123456789", "ключ"]) {
      if (tag !== "") expect(await cluster.admin("CLUSTER", "KEYSLOT", `x:{${tag}}:y`)).toBe(slotOf(tag));
    }
  });

  test("a forgotten record leaves nothing but its audit", async () => {
    const { store, prefix, left, advance } = setUp();
    await putEverything(store, advance);
    expect((await left()).entries).toBeGreaterThan(10);
    for (let round = 0; round < 4; round += 1) {
      advance(100 * day);
      await store.clean(1_000);
    }
    expect(await left()).toEqual({ entries: 0, lookUps: 0 });
    const keys = await client.keys(`${prefix}*`);
    expect(keys.filter((key) => !/:a:/.test(key))).toEqual([`${prefix}:partitions`]);
    expect(keys.length).toBeGreaterThan(1);
  });

  test("a record in each state has its entries, and those alone", async () => {
    const { store, index, advance } = setUp();
    const expected = {
      pending: ["Ppayments.create", "p", "spending"],
      in_progress: ["Rpayments.create", "l", "sin_progress"],
      completed: ["f", "scompleted"],
      failed: ["f", "sfailed"],
      retryable: ["Rpayments.create", "sretryable"],
      unknown: ["Upayments.create", "sunknown"],
      expired: ["e", "sexpired"],
    };
    const before: string[] = [];
    for (const state of states) {
      await putInState(store, state, advance);
      const entries = await client.zrangebylex(index, "-", "+");
      const added = entries.filter((entry) => !before.includes(entry));
      before.push(...added);
      expect(added.map((entry) => entry.split("\0")[0])).toEqual(expected[state]);
    }
  });

  test.each(["reading the record", "the next write to it"])(
    "an index that was lost comes back with %s",
    async (how) => {
      const { store, index, lookUp, advance } = setUp();
      const life = newLife(newKey(), { addressable: true });
      const record = await store.create(life, null, { ...defaultTerms, leaseEnd: "resume", attemptsMax: 2 });
      if (record === null) throw new Error("taken");
      await client.del(index, lookUp);
      advance(leaseMs / 2);
      if (how === "reading the record") await store.read(life);
      else await store.renew(life, life.id, life.fence, leaseMs);
      expect((await store.readById(life.tenant, life.id)).record?.id).toBe(life.id);
      advance(leaseMs);
      const found = await store.settlement.resumable([operation], 10);
      expect(found.map(({ id }) => id)).toEqual([life.id]);
      const listed = { state: "in_progress", tenant: null, operation: null, limit: 10, after: null } as const;
      expect(await store.settlement.list(listed)).toHaveLength(1);
    },
  );

  test("entries that lie are not believed", async () => {
    const { store, index, lookUp, prefix, advance } = setUp();
    const lives: ReturnType<typeof newLife>[] = [];
    for (const state of states) lives.push(await putInState(store, state, advance));
    const past = "0".repeat(16);
    const kinds = ["p", "f", "e", "l", `P${operation}`, `U${operation}`, `R${operation}`];
    const unknownKey = "A".repeat(43);
    const digests = [unknownKey, ...lives.map((life) => new Layout(prefix, 1).locationOf(life).digest)];
    for (const digest of digests) {
      for (const kind of kinds) await client.zadd(index, 0, `${kind}\0${past}${digest}`);
      for (const state of states) await client.zadd(index, 0, `s${state}\0${past}x\0${digest}`);
      await client.zadd(index, 0, `cpayments\0${past}key\0${digest}`);
      await client.hset(lookUp, {
        [`i${digest}`]: digest,
        ckey: `${digest}charge`,
        cother: `${unknownKey}x`,
      });
    }
    for (const { id } of lives) await client.hset(lookUp, `i${id}`, digests[1] ?? "");
    const all = () => Promise.all(lives.map(async (life) => (await store.read(life)).record));
    const before = await all();
    expect(before.map((record) => record?.state)).toEqual(states);

    expect(await store.clean(100)).toEqual({
      abandoned: 0,
      purged: 0,
      forgotten: 0,
      effects: 0,
      messages: 0,
    });
    expect(await store.endedLeases(100)).toEqual([]);
    expect(await store.settlement.claimUnknowns([operation], 100, minute)).toEqual([]);
    expect(await store.settlement.resumable([operation], 100)).toEqual([]);
    for (const { tenant, id } of lives) expect((await store.readById(tenant, id)).record).toBeNull();
    expect(await store.journal.callsByDownstreamKey(["key", "other"])).toEqual([]);
    const calls = { effect: "payments", from: 0, to: 1e15, limit: 10, after: null };
    expect(await store.journal.finishedCalls(calls)).toEqual([]);
    for (const state of states) {
      const filter = { state, tenant: null, operation: null, limit: 100, after: null };
      const found = await store.settlement.list(filter);
      expect(new Set(found.map((record) => record.state))).toEqual(new Set([state]));
    }
    expect(await all()).toEqual(before);
    const want = { operation, tokens: [newToken(), newToken(), newToken()], terms: defaultTerms };
    const claimed = await store.claimPending([want]);
    expect(claimed.map(({ id }) => id)).toEqual([before.find((record) => record?.state === "pending")?.id]);
  });

  test("what is due is found behind any number of entries that are not", async () => {
    const { store, index, advance } = setUp();
    const past = "0".repeat(16);
    for (let count = 0; count < 50; count += 1) {
      await client.zadd(index, 0, `l\0${past}${String(count).padStart(43, "A")}`);
    }
    const record = await store.create(newLife(newKey()), null, { ...defaultTerms, leaseEnd: "reconcile" });
    advance(leaseMs);
    expect((await store.endedLeases(3)).map((ended) => ended.record.id)).toEqual([record?.id]);
  });

  test("the bytes of an answer that was purged are nowhere, nor is the input of what has ended", async () => {
    const { store, prefix, advance } = setUp();
    const life = newLife(newKey(), { input: Buffer.from("secret input") });
    await store.create(life, null, defaultTerms);
    const short = completion("secret answer", { retentionMs: minute, forgetAfterMs: day });
    await store.end(life, life.id, life.fence, short);
    expect(await dump(prefix)).not.toMatch(/secret input/);
    expect(await dump(prefix)).toMatch(/secret answer/);
    advance(minute);
    await store.clean(10);
    expect(await dump(prefix)).not.toMatch(/secret/);
  });

  async function dump(prefix: string): Promise<string> {
    const hashes = await client.keys(`${prefix}:*:[rs]:*`);
    return JSON.stringify(await Promise.all(hashes.map((key) => client.hgetall(key))));
  }

  test("no name of a key in Redis says what the client's key is", async () => {
    const { store, prefix } = setUp();
    await reserve(store, newKey({ tenant: "secret-tenant", key: "secret-key" }));
    for (const key of await client.keys(`${prefix}*`)) expect(key).not.toMatch(/secret/);
  });
});

/** Records in every state, with steps in every state, and audit rows. */
async function putEverything(store: Store, advance: (ms: number) => void): Promise<void> {
  const terms = { ...defaultTerms, leaseEnd: "resume" } as const;
  for (const end of ["finish", "refuse", "not_executed"] as const) {
    const life = newLife(newKey(), { addressable: true, input: new Uint8Array([1]) });
    await store.create(life, null, terms);
    const owner = { key: life, id: life.id, fence: life.fence };
    await store.journal.startCall(owner, intentOf());
    await store.journal.startCall(owner, intentOf({ name: "two", position: 1 }));
    await store.journal.endCall(owner, { name: "charge", generation: 0 }, callEnds[end]);
    await store.end(life, life.id, life.fence, ends.unknown);
    const guard = { id: life.id, state: "unknown", fence: life.fence } as const;
    const note = { id: `note-${life.id}`, actor: "ada", proof: "operator", reason: null };
    const reopen = { call: "two", generation: 0, downstreamKey: `again-${life.id}` };
    const settlement = {
      event: "settle_not_executed",
      calls: "never-happened",
      reopen,
      resumeAfterMs: 0,
    } as const;
    expect(await store.settlement.settle(life, guard, settlement, note)).toBe(true);
    const retryable = { ...guard, state: "retryable" } as const;
    const next = await store.takeOver(life, retryable, life.fingerprint, newToken(), terms);
    if (next === null) throw new Error("not taken over");
    await store.end(next, next.id, next.fence, completion());
  }
  await store.accept(newLife(newKey(), { addressable: true }), null, day);
  const released = await reserve(store);
  await store.end(released, released.id, released.fence, { event: "release" });
  const replaced = await reserve(store);
  const short = completion("old", { retentionMs: minute, forgetAfterMs: minute });
  await store.end(replaced, replaced.id, replaced.fence, short);
  advance(2 * minute);
  const { record } = await store.read(replaced);
  if (record === null) throw new Error("gone");
  await store.accept(newLife(replaced), guardOf(record), day);
}

async function putInState(
  store: Store,
  state: string,
  advance: (ms: number) => void,
): Promise<ReturnType<typeof newLife>> {
  const life = newLife(newKey());
  if (state === "pending") {
    await store.accept(life, null, 10 * day);
    return life;
  }
  await store.create(life, null, { ...defaultTerms, leaseEnd: "resume" });
  if (state === "in_progress") return life;
  const end = {
    completed: ends.completed,
    failed: ends.failed,
    retryable: { ...ends.retryable, resumeAfterMs: minute },
    unknown: ends.unknown,
    expired: completion("old", { retentionMs: 1, forgetAfterMs: day }),
  }[state];
  if (end === undefined) throw new Error(state);
  await store.end(life, life.id, life.fence, end);
  if (state !== "expired") return life;
  advance(1);
  await store.clean(10);
  return life;
}
