/** Handlers' own statements under names: what they are, and that no error of a name's reaches anybody. */
import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Answer } from "../../packages/latchkey/src/operations/answer.ts";
import { type PostgresStoreOptions, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { newKey, newLife } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "./harness.ts";

/** From this send of a text on it has a name. */
const namedFrom = 5;
const insert = "insert into items (name, amount) values ($1, $2) returning *";
const read = "select amount from items where name = $1";

describe.each(postgresVersions())("handlers' statements on PostgreSQL %i", (version) => {
  let url: string;
  let pool: pg.Pool;

  beforeAll(async () => {
    url = await migratedDatabase(version);
  });

  describe.each([false, true])("pool with pipeline: %s", (pipeline) => {
    beforeEach(async () => {
      pool = openPool(url, { max: 1, pipeline });
      await pool.query("drop table if exists items; create table items (name text, amount int)");
      return async () => {
        await expectNoLeak(pool);
        await pool.end();
      };
    });

    function service(options: Partial<PostgresStoreOptions<pg.Pool>> = {}) {
      const events: LatchkeyEvent[] = [];
      const store = postgresStore({ pool, ...options });
      const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event) });
      const operation = latchkey.operation("orders.create");
      let runs = 0;
      const submit = async (work: (tx: TestTx) => Promise<unknown>, status = 201) => {
        const key = newKey();
        const { fingerprint } = newLife(key);
        return latchkey.execute(operation, { key, fingerprint, principal: null }, async ({ tx }) => {
          runs += 1;
          const body = new TextEncoder().encode(JSON.stringify(await work(tx)));
          return { status, headers: [], body, omitted: null } satisfies Answer;
        });
      };
      const repeat = async (work: (tx: TestTx) => Promise<unknown>) => {
        for (let count = 0; count < namedFrom; count++) await submit(work);
        runs = 0;
        events.length = 0;
      };
      return { submit, repeat, runs: () => runs, events };
    }

    const add = (amount: unknown) => async (tx: TestTx) => {
      const { rows, rowCount, command, fields } = await tx.query(insert, ["a", amount]);
      return { rows, rowCount, command, fields: fields.map(({ name, dataTypeID }) => [name, dataTypeID]) };
    };

    async function prepared(): Promise<string[]> {
      const { rows } = await pool.query<{ statement: string }>(
        "select statement from pg_prepared_statements where name like 'lk\\_tx\\_%' order by 1",
      );
      return rows.map(({ statement }) => statement);
    }

    const amounts = async () =>
      (await pool.query<{ amount: unknown }>("select amount from items")).rows.map(({ amount }) => amount);

    const bodyOf = (result: unknown) =>
      JSON.parse(new TextDecoder().decode((result as { answer: Answer }).answer.body));

    test("a text has a name from its fifth time on, and gives the same result", async () => {
      const { submit } = service();
      const bodies: unknown[] = [];
      for (let count = 1; count <= namedFrom + 2; count++) {
        bodies.push(bodyOf(await submit(add(7))));
        expect(await prepared()).toEqual(count < namedFrom ? [] : [insert]);
      }
      const first = { rows: [{ name: "a", amount: 7 }], rowCount: 1, command: "INSERT" };
      expect(bodies[0]).toMatchObject(first);
      for (const body of bodies) expect(body).toEqual(bodies[0]);
    });

    test("with a config object, its own row mode and types", async () => {
      const { submit } = service();
      const types = { getTypeParser: () => (text: string) => `<${text}>` };
      const config = { text: read, rowMode: "array" as const, types };
      const work = async (tx: TestTx) => {
        await tx.query(insert, ["a", 7]);
        return [
          (await tx.query(config, ["a"])).rows[0],
          (await tx.query({ text: read, values: ["a"] })).rows[0],
        ];
      };
      for (let count = 0; count < namedFrom + 1; count++) {
        expect(bodyOf(await submit(work))).toEqual([["<7>"], { amount: 7 }]);
      }
      expect(await prepared()).toEqual([insert, read]);
      expect(config).toEqual({ text: read, rowMode: "array", types });
    });

    test("what could mean something else under a name gets none", async () => {
      const { submit } = service();
      const work = async (tx: TestTx) => {
        await tx.query("insert into items values ('b', 1); insert into items values ('c', 2)");
        await tx.query("select 1 as one", []);
        await tx.query({ name: "own", text: "select $1::int as own", values: [1] });
        await new Promise((resolve) => tx.query("select $1::int as called", [1], resolve));
        await tx.query({ text: `select $1::int as ${"long".repeat(2_000)}`, values: [1] });
      };
      for (let count = 0; count < namedFrom + 1; count++) await submit(work);
      expect(await prepared()).toEqual([]);
    });

    test.each([{ namedStatements: false }, { namedHandlerStatements: false }])(
      "not with %j",
      async (options) => {
        const { submit } = service(options);
        for (let count = 0; count < namedFrom + 1; count++) await submit(add(7));
        expect(await prepared()).toEqual([]);
      },
    );

    test("at most 100 texts are named, and texts made anew each time are none of them", async () => {
      const { submit } = service();
      for (let count = 0; count < namedFrom; count++) {
        await submit(async (tx) => {
          for (let text = 0; text < 110; text++) await tx.query(`select $1::int as t${text}`, [1]);
          for (let once = 0; once < 10; once++) await tx.query(`select $1::int as o${count}_${once}`, [1]);
          await tx.query(insert, ["a", 1]);
        });
      }
      const names = await prepared();
      expect(names).toHaveLength(100);
      expect(names.filter((text) => text.includes("as o"))).toEqual([]);
    });

    test("a table altered between two requests: the transaction runs again, and nobody sees an error", async () => {
      const { submit, repeat, runs, events } = service();
      await repeat(add(7));
      await pool.query("alter table items add column note text default 'new'");
      expect(bodyOf(await submit(add(8))).rows).toEqual([{ name: "a", amount: 8, note: "new" }]);
      expect(runs()).toBe(2);
      expect(events.map(({ type }) => type)).toEqual(["transaction_rerun", "executed"]);
      // Never named again, so never in the way again.
      for (let count = 0; count < namedFrom + 1; count++) await submit(add(9));
      await pool.query("alter table items drop column note");
      await submit(add(10));
      expect(runs()).toBe(2 + namedFrom + 2);
      expect(await amounts()).toEqual([7, 7, 7, 7, 7, 8, 9, 9, 9, 9, 9, 9, 10]);
    });

    test("a column of another type: a name keeps the old one, and the value is taken all the same", async () => {
      const { submit, repeat, runs } = service();
      await repeat(add(7));
      await pool.query("alter table items alter amount type text");
      expect(bodyOf(await submit(add("words"))).rows).toEqual([{ name: "a", amount: "words" }]);
      expect(runs()).toBe(2);
    });

    test.each(["deallocate all", "discard all"])("after %s on its connection", async (forget) => {
      const { submit, repeat, runs } = service();
      const both = async (tx: TestTx) => {
        await add(7)(tx);
        return (await tx.query(read, ["a"])).rowCount;
      };
      await repeat(both);
      await pool.query(forget);
      expect(bodyOf(await submit(both))).toBe(namedFrom + 1);
      expect(runs()).toBe(2);
      for (let count = 0; count < namedFrom + 1; count++) await submit(both);
      expect(runs()).toBe(2 + namedFrom + 1);
      expect(await prepared()).toEqual([read]);
      expect((await amounts()).length).toBe(namedFrom * 2 + 2);
    });

    test("an error of a name's that the handler swallows, or undoes, is not what it answers", async () => {
      const { submit, repeat, runs } = service();
      const swallow = async (tx: TestTx) => {
        await tx.query("savepoint attempt");
        const done = await add(7)(tx).then(
          () => "done",
          () => "failed",
        );
        if (done === "failed") await tx.query("rollback to savepoint attempt");
        return done;
      };
      await repeat(swallow);
      await pool.query("alter table items add column note text");
      expect(bodyOf(await submit(swallow))).toBe("done");
      expect(runs()).toBe(2);
      expect((await amounts()).length).toBe(namedFrom + 1);
    });

    test("an answer that is released, made of such an error, is not sent", async () => {
      const { submit, repeat } = service();
      await repeat(add(7));
      await pool.query("alter table items add column note text");
      const failing = (tx: TestTx) => add(7)(tx).catch(() => "failed");
      expect(bodyOf(await submit(failing, 503))).not.toBe("failed");
    });

    test("a statement that nobody waits for", async () => {
      const { submit, repeat, runs } = service();
      await repeat(add(7));
      await pool.query("alter table items add column note text");
      await submit(async (tx) => {
        add(7)(tx).catch(() => {});
      });
      expect(runs()).toBe(2);
      expect((await amounts()).length).toBe(namedFrom + 1);
    });

    test("an error that the statement has without a name, too, is the handler's after one more run", async () => {
      const { submit, repeat, runs } = service();
      await repeat(add(7));
      await expect(submit(add("no number"))).rejects.toMatchObject({ code: "22P02" });
      expect(runs()).toBe(2);
      await expect(submit(add("no number"))).rejects.toMatchObject({ code: "22P02" });
      expect(runs()).toBe(3);
    });

    test("another error is nothing to run again for", async () => {
      const { submit, repeat, runs } = service();
      await pool.query("alter table items add constraint small check (amount < 10)");
      await repeat(add(7));
      await expect(submit(add(11))).rejects.toMatchObject({ code: "23514" });
      expect(runs()).toBe(1);
      expect(await prepared()).toEqual([insert]);
    });
  });
});
