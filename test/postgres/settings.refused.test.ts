/** A database that turns read-only, limits that strike, and ends that the server refuses: 503, and nothing is lost. */
import pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Message } from "../../packages/latchkey/src/messages/broker.ts";
import { createInbox } from "../../packages/latchkey/src/messages/inbox.ts";
import type { OutboxEffect } from "../../packages/latchkey/src/stores/outbox.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { DeliveryRequest } from "../../packages/latchkey/src/stores/transactions.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { newKey, newLife, request, supportOf, terms, writing } from "./arrange.ts";
import { expectNoLeak, openPool, type TestTx } from "./harness.ts";
import { claim, claimOf, delivered, enqueuing, newEffect, outboxOf } from "./outbox-arrange.ts";
import { begin, beginUnknown, note, ownerOf, writingPhase } from "./owned.ts";
import { businessRows, type SettingsDatabase, serviceOn, settingsDatabase } from "./settings-arrange.ts";

const [version = 15] = postgresVersions();
const unavailable = { code: "store-unavailable", certainty: "rolled_back" };

describe(`refusals of PostgreSQL ${version}`, () => {
  let database: SettingsDatabase;
  beforeAll(async () => {
    database = await settingsDatabase(version);
  });

  describe("read-only switched on under a running service", () => {
    let pool: pg.Pool;
    let store: PostgresStore<TestTx>;
    let readOnly: (on: boolean) => Promise<void>;

    beforeEach(() => {
      pool = openPool(database.url, { max: 4 });
      store = postgresStore({ pool });
      const clients = new Set<pg.PoolClient>();
      pool.on("acquire", (client) => clients.add(client));
      // As after a reload: in sessions that are there already.
      readOnly = async (on) => {
        for (const client of clients) await client.query(`set default_transaction_read_only = ${on}`);
      };
      return async () => {
        await readOnly(false);
        await store.close();
        await expectNoLeak(pool);
        await pool.end();
      };
    });

    test("whatever would write is refused, finished keys are replayed, and all goes on afterwards", async () => {
      const owner = ownerOf(await begin(store));
      const unknown = await beginUnknown(store);
      const life = newLife(newKey());
      await writing(store, life);
      await enqueuing(store, [newEffect()]);
      const claimed = await claim(store, 1);
      const outbox = outboxOf(store);
      await readOnly(true);
      let ran = 0;
      const run = async () => {
        ran += 1;
        return { end: "rollback", value: "" } as const;
      };
      const settlement = {
        event: "settle_not_executed",
        calls: "never-happened",
        reopen: null,
        resumeAfterMs: null,
      } as const;
      const writes: Readonly<Record<string, () => Promise<unknown>>> = {
        phase: () => supportOf(store).phase({ owner, isolation: null, idleLimitMs: 30_000 }, run),
        delivery: () => supportOf(store).deliver(deliveryOf(claimed), run),
        lease: () => store.create(newLife(newKey()), null, terms),
        "deferred work": () => store.accept(newLife(newKey(), { input: new Uint8Array(1) }), null, 60_000),
        cleaner: () => store.clean(10),
        "claim of effects": () => claim(store),
        "start of effects": () => outbox.start(claimed.map(claimOf), 60_000),
        "end of effects": () => outbox.end(claimed.map((effect) => delivered(effect))),
        settle: () => store.settlement.settle(unknown.owner.key, unknown.guard, settlement, note()),
      };
      for (const [name, write] of Object.entries(writes)) {
        await expect(write(), name).rejects.toMatchObject(unavailable);
      }
      const seen = await supportOf(store).run(request(newKey()), async ({ refusal }) => ({
        end: "rollback",
        value: refusal?.message ?? "",
      }));
      expect(seen).toMatchObject({ kind: "rolled_back", value: expect.stringContaining("read-only") });
      expect((await store.read(life)).record).toMatchObject({ state: "completed" });
      expect(ran).toBe(0);
      await readOnly(false);
      expect(await writingPhase(store, owner)).toMatchObject({ kind: "committed" });
      expect(await supportOf(store).deliver(deliveryOf(claimed), delivering)).toMatchObject({
        kind: "committed",
      });
    });

    test("a message is given back without a failure, and a handler that starts early writes nothing", async () => {
      const latchkey = createLatchkey({ store });
      const ship = latchkey.operation("ship");
      const pay = latchkey.operation("pay", { admission: "optimistic" });
      const key = newKey().key;
      const insert = (tx: TestTx) => tx.query("insert into business values ($1)", [key]);
      const inbox = createInbox(
        latchkey,
        ship,
        { tenant: "t", failuresMax: 1, holdMs: 400, backoffMs: 10 },
        async ({ tx }) => void (await insert(tx)),
      );
      const consume = () => inbox.consume(messageOf(key));
      const submit = () =>
        latchkey.run(pay, { tenant: "t", key, input: 1 }, async ({ tx }) => void (await insert(tx)));
      // Sessions that are there before the switch.
      await Promise.all(["a", "b"].map((one) => inbox.consume(messageOf(`${key} ${one}`))));
      const written = async () =>
        (await database.admin.query("select from business where row = $1", [key])).rowCount;
      const before = await written();
      await readOnly(true);
      expect(await consume()).toMatchObject({ settle: "give_back" });
      await expect(submit()).rejects.toMatchObject({ code: "store-unavailable" });
      await readOnly(false);
      expect(await written()).toBe(before);
      expect(await consume()).toEqual({ settle: "ack", because: "executed" });
      expect((await submit()).kind).toBe("executed");
      inbox.close();
    });
  });

  describe("an end that the server refuses", () => {
    const ends = {
      phase: async (store: PostgresStore<TestTx>, block: () => Promise<unknown>) => {
        const owner = ownerOf(await begin(store));
        const work = (act?: typeof block) => writingPhase(store, owner, {}, act);
        return { first: await work(block), again: work };
      },
      delivery: async (store: PostgresStore<TestTx>, block: () => Promise<unknown>) => {
        await enqueuing(store, [newEffect()]);
        const claimed = await claim(store, 1);
        const work = (act?: typeof block) =>
          supportOf(store).deliver(deliveryOf(claimed), async () => {
            await act?.();
            return delivering();
          });
        return { first: await work(block), again: work };
      },
    };

    test.each(Object.entries(ends))(
      "of a %s: all is rolled back, and it can be done again",
      async (_, end) => {
        const pool = openPool(database.url, { max: 4, options: "-c lock_timeout=300ms" });
        const store = postgresStore({ pool });
        const blocker = await database.admin.connect();
        const { first, again } = await end(store, () =>
          blocker.query("begin; lock table latchkey.steps, latchkey.outbox in share mode"),
        );
        await blocker.query("rollback");
        blocker.release();
        expect(first).toMatchObject({
          kind: "refused",
          because: "other",
          error: { ...unavailable, message: expect.stringContaining("55P03") },
        });
        expect(await again()).toMatchObject({ kind: "committed" });
        await store.close();
        await pool.end();
      },
    );
  });

  describe("statement_timeout", () => {
    test("in a statement of the handler's: the handler's own error", async () => {
      const service = serviceOn(openPool(database.url, { max: 2, options: "-c statement_timeout=1s" }));
      const slow = service.order("k", (tx) => tx.query("select pg_sleep(60)"));
      await expect(slow).rejects.toMatchObject({ code: "57014", name: expect.not.stringMatching("Store") });
      expect(await service.order("k")).toMatchObject({ kind: "executed" });
      expect(await businessRows(database, service)).toBe(1);
      await service.close();
    });

    const own = ["at the opening", "at the end", "of a lease"] as const;
    test.each(own)(
      "in a statement of Latchkey's own, %s: refused by name, and the key is free",
      async (when) => {
        const service = serviceOn(openPool(database.url, { max: 2, options: "-c statement_timeout=1s" }));
        for (const run of [service.order, service.mail]) await run("warm");
        const blocker = await database.admin.connect();
        // Its transaction reads the table before the handler runs, which a lock on reading would wait for.
        const mode = when === "at the end" ? "share" : "access exclusive";
        const block = () => blocker.query(`begin; lock table latchkey.records in ${mode} mode`);
        const begun = { order: service.runs.order, mail: service.runs.mail };
        if (when !== "at the end") await block();
        const refused =
          when === "of a lease"
            ? service.mail("k")
            : service.order("k", when === "at the end" ? block : undefined);
        await expect(refused).rejects.toMatchObject({
          code: "store-unavailable",
          message: expect.stringMatching(/statement timeout.*57014/u),
        });
        if (when !== "at the end") expect(service.runs).toEqual(begun);
        await blocker.query("rollback");
        blocker.release();
        expect(await (when === "of a lease" ? service.mail("k") : service.order("k"))).toMatchObject({
          kind: "executed",
        });
        expect(await businessRows(database, service)).toBe(when === "of a lease" ? 1 : 2);
        await service.close();
      },
    );
  });

  test("parsers set for the whole process: all is served", async () => {
    const oids = [16, 17, 20, 23, 25, 114, 701, 1184, 2950] as const;
    const parsers = oids.map((oid) => [oid, pg.types.getTypeParser(oid)] as const);
    for (const oid of oids) pg.types.setTypeParser(oid, (text: string) => `<${text}>`);
    try {
      for (const pipeline of isThorough ? [false, true] : [false]) {
        const service = serviceOn(openPool(database.url, { max: 3, pipeline }));
        for (const kind of ["executed", "replay"]) {
          expect(await service.order("k")).toMatchObject({ kind });
          expect(await service.mail("k")).toMatchObject({ kind });
        }
        await service.close();
      }
    } finally {
      for (const [oid, parser] of parsers) pg.types.setTypeParser(oid, parser);
    }
  });
});

const delivering = async () => ({ end: "commit", value: "", answers: null }) as const;

function deliveryOf(effects: readonly OutboxEffect[]): DeliveryRequest {
  const [effect] = effects;
  if (effect === undefined) throw new Error("an effect is claimed");
  return { claim: claimOf(effect), tenant: effect.tenant, idleLimitMs: 30_000, keepMs: 3_600_000 };
}

function messageOf(id: string): Message {
  return {
    id,
    source: "orders",
    body: Buffer.from("{}"),
    contentType: "application/json",
    headers: {},
    redelivered: false,
  };
}
