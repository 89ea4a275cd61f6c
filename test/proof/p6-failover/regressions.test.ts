/** What the failover half of P6 has found, each as small as it gets. */
import pg from "pg";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { StoreError } from "../../../packages/latchkey/src/errors.ts";
import { createLatchkey } from "../../../packages/latchkey/src/index.ts";
import { memoryStore } from "../../../packages/latchkey/src/stores/memory.ts";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { AttemptEnd, Store } from "../../../packages/latchkey/src/stores/store.ts";
import { until } from "../../support/until.ts";
import { Pair } from "./pair.ts";

describe("a COMMIT whose wait for the standby was cancelled", () => {
  let pair: Pair;

  beforeAll(async () => {
    pair = await Pair.open({ synchronous: true });
  });
  afterEach(() => pair.replication.pass());

  /** With a name for its sessions. */
  function service(name: string) {
    const pool = new pg.Pool({ connectionString: pair.url, max: 8, application_name: name });
    pool.on("error", () => {});
    const store = postgresStore({ pool, notify: false });
    const latchkey = createLatchkey({ store });
    const close = async () => {
      await store.close();
      await pool.end();
    };
    return {
      close,
      latchkey,
      place: latchkey.operation("place", { writes: "none" }),
      send: latchkey.operation("send", { execution: "lease" }),
    };
  }

  test.each(["place", "send"] as const)("is in no reply before the standby has it (%s)", async (name) => {
    const [first, second] = [service("first"), service("second")];
    const submit = ({ latchkey, ...operations }: ReturnType<typeof service>) =>
      latchkey.run(operations[name], { tenant: "t", key: name, input: 1 }, async () => {
        // The work is done; what follows is its last COMMIT.
        pair.replication.stall("down");
        return "done";
      });
    const own = submit(first).then(({ kind }) => kind);
    await pair.untilWaiting(["first"]);
    const state = "select 1 from latchkey.records where key = $1 and state = 'completed'";
    const isRead = async () => {
      if ((await pair.primary.admin(state, [name])).length > 0) return true;
      // On a slow machine a heartbeat may wait first.
      await pair.endWaits("cancel");
      return false;
    };
    await until(isRead, { what: "all can read it" });
    let replied: string | null = null;
    const other = submit(second).then(({ kind }) => {
      replied = kind;
      return kind;
    });
    await Promise.race([other, pair.untilWaiting(["second"])]);
    expect(replied).toBeNull();
    await pair.replication.pass();
    expect([await own, await other]).toEqual(["executed", "replay"]);
    for (const { close } of [first, second]) await close();
  });

  test("starts no handler under a lease before the standby has the admission", async () => {
    const { close, latchkey, send } = service("h");
    await latchkey.run(send, { tenant: "t", key: "first", input: 1 }, async () => "warm");
    pair.replication.stall("down");
    let started = false;
    const run = latchkey.run(send, { tenant: "t", key: "admission", input: 1 }, async () => {
      started = true;
      return "done";
    });
    // The admission itself, the write that would confirm it, and the renewal of what was read.
    for (let wait = 0; wait < 2; wait++) {
      await pair.untilWaiting(["h"]);
      await pair.endWaits("cancel");
    }
    await pair.untilWaiting(["h"]);
    expect(started).toBe(false);
    await pair.replication.pass();
    expect(await run).toMatchObject({ kind: "executed" });
    await close();
  });
});

describe("an owner whose last write was in doubt, and whose outcome was settled meanwhile", () => {
  test("tells the settled answer, not its own", async () => {
    const inner = memoryStore();
    let doubted = false;
    const store: Store<never> = {
      ...(inner as unknown as Store<never>),
      async end(key, id, fence, end: AttemptEnd) {
        if (doubted) return inner.end(key, id, fence, end);
        doubted = true;
        // It never arrived; the lease ended, and somebody has found out what became of the work.
        await inner.end(key, id, fence, { event: "doubt", errorCode: "lease-ended", reconcileAfterMs: null });
        const target = { tenant: key.tenant, operation: "send", recordId: id };
        await createLatchkey({ store: inner }).settle(target, { completed: { body: "settled" } });
        throw new StoreError("in_doubt");
      },
    };
    const latchkey = createLatchkey({ store });
    const send = latchkey.operation("send", { execution: "lease" });
    const submit = () => latchkey.run(send, { tenant: "t", key: "k", input: 1 }, async () => "own");
    const first = await submit();
    expect(first).toMatchObject({ kind: "replay", value: "settled" });
    expect(await submit()).toMatchObject({ kind: "replay", value: "settled" });
  });
});
