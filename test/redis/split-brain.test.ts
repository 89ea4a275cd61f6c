/** Two Redis that both take writes: a primary that froze while its replica was promoted, and the clients that it still has. */
import { describe, expect, test } from "vitest";
import type { InProgressRecord, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { StoreError } from "../../packages/latchkey/src/errors.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import { completion } from "../../packages/latchkey-conformance/src/store-conformance/arrange.ts";
import { redisProgram } from "../support/private-redis.ts";
import { until } from "../support/until.ts";
import { complete, privateRedis, reserve, storeOn } from "./arrange.ts";

const persistent = { appendonly: "yes" };

/** A primary, and a replica that has everything. */
async function pair(conf: Record<string, string> = {}) {
  const primary = await privateRedis({ ...persistent, ...conf });
  const replica = await privateRedis({ ...persistent, replicaof: `127.0.0.1 ${primary.port}` });
  const linked = async () =>
    String(await replica.admin("INFO", "replication")).includes("master_link_status:up");
  await until(linked, { what: "the replica follows" });
  return { primary, replica, linked };
}

/** Until the server takes it. */
async function reserveAtLast(store: Store, key?: RecordKey): Promise<InProgressRecord> {
  const record = await until(() => reserve(store, key).catch(() => null), { what: "it is reserved" });
  if (record === null) throw new Error("it is reserved");
  return record;
}

describe.skipIf(redisProgram() === undefined)("split brain", () => {
  test("a primary that froze while its replica took over: what it acknowledges to old clients is lost when it gives way", async () => {
    const { primary, replica, linked } = await pair();
    const old = storeOn(primary.url);
    const before = await reserve(old);
    await until(async () => (await primary.admin("WAIT", "1", "1000")) === 1, { what: "it is replicated" });
    const thaw = await primary.freeze();
    await replica.admin("REPLICAOF", "NO", "ONE");
    const young = storeOn(replica.url);
    expect((await young.read(before)).record).toMatchObject({ id: before.id, state: "in_progress" });
    const there = await reserve(young);
    await complete(young, there, "there");

    thaw();
    const key = { tenant: there.tenant, scope: there.scope, key: there.key };
    const here = await reserveAtLast(old, key);
    expect(here.id, "one key runs on both sides").not.toBe(there.id);
    await complete(old, before, "acknowledged by the old primary");

    await primary.admin("REPLICAOF", "127.0.0.1", String(replica.port));
    await until(async () =>
      String(await primary.admin("INFO", "replication")).includes("master_link_status:up"),
    );
    expect(await linked(), "the new primary follows nobody").toBe(false);
    await expect(old.end(here, here.id, here.fence, completion("here"))).rejects.toBeInstanceOf(StoreError);
    expect((await young.read(there)).record).toMatchObject({ id: there.id, state: "completed" });
    expect((await young.read(before)).record, "its completion is lost").toMatchObject({
      state: "in_progress",
    });
    expect(await young.end(here, here.id, here.fence, completion("here"))).toBeNull();
  });

  test("with min-replicas-to-write a primary that its replica has left begins nothing and ends nothing", async () => {
    const { primary, replica } = await pair({ "min-replicas-to-write": "1", "min-replicas-max-lag": "1" });
    const old = storeOn(primary.url);
    const before = await reserveAtLast(old);
    await replica.admin("REPLICAOF", "NO", "ONE");
    await until(
      () =>
        reserve(old).then(
          () => false,
          (error: unknown) =>
            String(error).includes("NOREPLICAS") || String((error as Error).cause).includes("NOREPLICAS"),
        ),
      { what: "it refuses" },
    );
    await expect(old.end(before, before.id, before.fence, completion())).rejects.toMatchObject({
      certainty: "rolled_back",
    });
  });
});
