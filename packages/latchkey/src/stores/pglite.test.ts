import { inspect } from "node:util";
import type { PGlite, Transaction } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { emptyTables } from "../../../../test/support/empty-tables.ts";
import { readyPglite } from "../../../../test/support/ready-pglite.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { deferred, signal } from "../../../../test/support/until.ts";
import { wholeShapes } from "../../../../test/support/whole-shapes.ts";
import { storeConformance } from "../../../latchkey-conformance/src/store-conformance.ts";
import { createLatchkey } from "../index.ts";
import { migratePglite, type PgliteTx, pgliteStore } from "./pglite.ts";

const capabilities = {
  transactions: true,
  inProgress: "immediate",
  durability: "may-lose-acknowledged",
  commitNotice: true,
  fenceSurvivesFailover: false,
  statusReads: "primary",
} as const;

const turnableClock = `
  create table business (row text primary key);
  create table clock (at timestamptz not null);
  insert into clock values (date_trunc('milliseconds', clock_timestamp()));
  create function my_clock() returns timestamptz language sql volatile as 'select at from public.clock';`;

/** The protocol's message "Q", which runs a text as it is. */
function queryMessage(text: string): Uint8Array {
  const message = Buffer.alloc(6 + text.length);
  message.write("Q");
  message.writeInt32BE(5 + text.length, 1);
  message.write(text, 5);
  return message;
}

const oneSession = "PGlite has one session: nothing else on the database runs while a transaction is open";

let database: PGlite;

beforeAll(async () => {
  database = await readyPglite();
  await migratePglite(database);
  await database.exec(wholeShapes());
  await database.exec(turnableClock);
});

afterAll(() => database.close());

/** Its SQL is that of Postgres: without `npm run test:all` only what its one session could change. */
const ofOneSession = /^(transactions|phase|deliver|races)/;

describe("the PGlite store keeps the store contract", () => {
  storeConformance({
    test: (name, body) => (isThorough || ofOneSession.test(name) ? test(name, body) : undefined),
    capabilities,
    clock: "frozen",
    skip: {
      "transactions: others see nothing before the commit, and reading does not wait": oneSession,
      "transactions: other keys and other tenants are not blocked": oneSession,
      "transactions: a record that appeared since admission makes the commit lose": oneSession,
      "transactions: of many with one key, all past their look-up, exactly one commits": oneSession,
      "refence: a phase that is open under the old token is lost, and leaves no row": oneSession,
      "phase: a phase whose record is taken over while it is open is lost, and leaves no row": oneSession,
      "phase: the heartbeat continues while a phase is open, and neither undoes the other": oneSession,
      "phase: a heartbeat while a phase is open does not undo it at any isolation level": oneSession,
      "phase: the last phase, with a heartbeat while it is open, commits or may be run again": oneSession,
      "phase: others see nothing of it before its commit, and reading does not wait": oneSession,
      "phase: a phase does not block those of other records": oneSession,
      "phase: of many with the same name at once, exactly one commits": oneSession,
      "enqueue: an effect whose transaction commits late is found like any other": oneSession,
      "deliver: a delivery whose claim is rescued while it is open is lost, and leaves no row": oneSession,
      "deliver: others see nothing of it before its commit, and reading does not wait": oneSession,
      "deliver: of many under one claim, all open at once, exactly one commits": oneSession,
    },
    async factory() {
      await database.exec(emptyTables);
      const options = { database, timeFunction: "public.my_clock()" };
      return {
        store: pgliteStore(options),
        secondStore: pgliteStore(options),
        async advance(milliseconds) {
          await database.query("update clock set at = at + $1::float8 * interval '1 millisecond'", [
            milliseconds,
          ]);
        },
        business: {
          async write(tx, row) {
            await tx.query("insert into business values ($1)", [row]);
          },
          async committedRows() {
            const { rows } = await database.query<{ row: string }>("select row from business");
            return rows.map(({ row }) => row);
          },
        },
        close() {
          expect(database.isInTransaction()).toBe(false);
        },
      };
    },
  });
});

describe("one session for everybody", () => {
  let operations = 0;
  function service() {
    const latchkey = createLatchkey({ store: pgliteStore({ database }) });
    const pay = latchkey.operation(`pay-${++operations}`, { transactionLimitMs: 2_000 });
    let runs = 0;
    const submit = (key: string, during: () => Promise<unknown> = async () => {}, input: unknown = key) =>
      latchkey.run(pay, { tenant: "t", key, input }, async ({ tx }) => {
        runs += 1;
        await tx.query("insert into business values ($1)", [`${pay.name} ${key} ${runs}`]);
        await during();
        return runs;
      });
    return { pay, submit, runs: () => runs };
  }

  test("of many at once one runs; while it runs the others get `in_progress`, afterwards they get its answer", async () => {
    const { submit, runs } = service();
    const [started, gate] = [signal("the handler runs"), deferred()];
    const first = submit("k", async () => {
      started.fire();
      await gate.promise;
    });
    await started.wait();
    const duplicates = await Promise.all(Array.from({ length: 5 }, () => submit("k")));
    expect(duplicates.map(({ kind }) => kind)).toEqual(Array(5).fill("in_progress"));
    gate.resolve();
    expect(await first).toMatchObject({ kind: "executed", value: 1 });
    const replays = await Promise.all(Array.from({ length: 10 }, () => submit("k")));
    expect(replays).toEqual(Array(10).fill(expect.objectContaining({ value: 1 })));
    expect(replays.every(({ kind }) => kind === "replay")).toBe(true);
    expect(runs()).toBe(1);
  });

  test("a record that is there at COMMIT, and was not at the look-up, makes it lose and decide again", async () => {
    const { pay } = service();
    const latchkey = createLatchkey({ store: pgliteStore({ database }) });
    let tries = 0;
    const result = await latchkey.run(pay, { tenant: "t", key: "k", input: 1 }, async ({ tx }) => {
      tries += 1;
      await tx.query("insert into business values ($1)", [`${pay.name} ${tries}`]);
      if (tries === 1) {
        await tx.query(
          `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint,
             attempt, token, created_at)
           values ('t', $1, 'k', gen_random_uuid(), 'x', 'retryable', 1, '', 1, gen_random_uuid(), now())`,
          [pay.name],
        );
      }
      return tries;
    });
    expect(result).toMatchObject({ kind: "executed", value: 2 });
    const { rows } = await database.query<{ row: string }>("select row from business where row like $1", [
      `${pay.name}%`,
    ]);
    expect(rows).toEqual([{ row: `${pay.name} 2` }]);
  });

  test("many at once from the first moment: one runs", async () => {
    const { submit, runs } = service();
    const results = await Promise.all(Array.from({ length: 10 }, () => submit("k")));
    expect(results.filter(({ kind }) => kind === "executed")).toHaveLength(1);
    expect(runs()).toBe(1);
  });

  test("many look-ups at once wait for an open transaction, and then get the records of their own keys", async () => {
    const { pay, submit } = service();
    const store = pgliteStore({ database });
    const keys = Array.from({ length: 12 }, (_, n) => `k${n}`);
    for (const key of keys) await submit(key);
    const [started, gate] = [signal("the handler runs"), deferred()];
    const open = submit("open", async () => {
      started.fire();
      await gate.promise;
    });
    await started.wait();
    const found = Promise.all(keys.map((key) => store.read({ tenant: "t", scope: pay.name, key })));
    gate.resolve();
    expect((await found).map(({ record }) => record?.key)).toEqual(keys);
    expect((await found).map(({ record }) => record?.state)).toEqual(keys.map(() => "completed"));
    expect(await open).toMatchObject({ kind: "executed" });
  });

  test("a duplicate of a key that waits for its turn learns what that one finds, without a turn of its own", async () => {
    const { submit } = service();
    const [started, gate] = [signal("the handler runs"), deferred()];
    const other = submit("other", async () => {
      started.fire();
      await gate.promise;
    });
    await started.wait();
    const queued = submit("k");
    const duplicate = submit("k");
    gate.resolve();
    expect((await other).kind).toBe("executed");
    expect((await queued).kind).toBe("executed");
    expect((await duplicate).kind).toBe("in_progress");
  });

  test("what a completed key says comes to key misuse as well", async () => {
    const { submit } = service();
    await submit("k");
    const [same, misuse] = await Promise.all([submit("k"), submit("k", undefined, "another input")]);
    expect([same.kind, misuse.kind]).toEqual(["replay", "key_misuse"]);
  });

  test("two stores on one database know of each other, two schemas do not meet", async () => {
    const [started, gate] = [signal("the handler runs"), deferred()];
    await migratePglite(database, { schema: "elsewhere" });
    const request = { tenant: "t", key: "k", input: 1 };
    const run = (schema: string, during: () => Promise<void>) => {
      const latchkey = createLatchkey({ store: pgliteStore({ database, schema }) });
      const operation = latchkey.operation("two-stores", { writes: "none" });
      return latchkey.run(operation, request, async () => {
        await during();
        return schema;
      });
    };
    const first = run("latchkey", async () => {
      started.fire();
      await gate.promise;
    });
    await started.wait();
    expect((await run("latchkey", async () => {})).kind).toBe("in_progress");
    const elsewhere = run("elsewhere", async () => {});
    gate.resolve();
    expect((await first).kind).toBe("executed");
    expect(await elsewhere).toMatchObject({ kind: "executed", value: "elsewhere" });
  });

  test("a handler that waits for the database itself is ended by its limit, and the database serves again", async () => {
    const { submit } = service();
    const stuck = submit("stuck", () => database.query("select 1"));
    await expect(stuck).rejects.toMatchObject({ code: "attempt-limit" });
    expect((await submit("stuck")).kind).toBe("executed");
    const rows = await database.query("select from business where row like '% stuck 1'");
    expect(rows.rows).toHaveLength(0);
  });

  test.each<[string, (tx: PgliteTx<PGlite>) => Promise<unknown>]>([
    ["query", (tx) => tx.query("commit")],
    ["exec", (tx) => tx.exec("select 1; rollback")],
    ["sql", (tx) => tx.sql`commit`],
    ["rollback()", (tx) => (tx as Transaction).rollback()],
  ])("transaction control through %s is refused", async (_, control) => {
    const { pay } = service();
    const latchkey = createLatchkey({ store: pgliteStore({ database }) });
    const run = latchkey.run(latchkey.operation(pay.name), { tenant: "t", key: "k", input: 1 }, ({ tx }) =>
      control(tx),
    );
    await expect(run).rejects.toMatchObject({ code: "transaction-control" });
  });

  test("a COMMIT that the guard cannot see leaves the key unknown, never run again", async () => {
    const { pay } = service();
    const latchkey = createLatchkey({ store: pgliteStore({ database }) });
    const operation = latchkey.operation(pay.name);
    const run = () =>
      latchkey.run(operation, { tenant: "t", key: "k", input: 1 }, async ({ tx }) => {
        await tx.query("insert into business values ($1)", [`${pay.name} committed inside`]);
        // Past the guard, as an extension of PGlite could do it: a simple query message.
        await database.execProtocol(queryMessage("commit"));
      });
    expect((await run()).kind).toBe("unknown");
    expect((await run()).kind).toBe("unknown");
  });

  test("an error of the store does not carry the key or the answer", async () => {
    const closed = await readyPglite();
    await migratePglite(closed);
    await closed.exec("drop table latchkey.records");
    const latchkey = createLatchkey({ store: pgliteStore({ database: closed }) });
    const request = { tenant: "t", key: "secret-key", input: 1 };
    const operation = latchkey.operation("op", { writes: "none" });
    const missing = await latchkey.run(operation, request, async () => 1).catch((error: unknown) => error);
    expect(missing).toMatchObject({ code: "schema-invalid" });
    expect(inspect(missing, { depth: 10 })).not.toContain("secret-key");
    await closed.close();
    const gone = await latchkey.run(operation, request, async () => 1).catch((error: unknown) => error);
    expect(gone).toMatchObject({ code: "store-unavailable", certainty: "not_sent" });
  });
});
