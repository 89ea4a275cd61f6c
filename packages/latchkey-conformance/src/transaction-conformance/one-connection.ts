/** A pool with a single connection: transactions take turns, and the bridge never needs a second connection. */
import assert from "node:assert/strict";
import { createLatchkey } from "latchkey";
import {
  backendOf,
  commit,
  failing,
  gone,
  inserting,
  insertText,
  inTime,
  newRow,
  stayed,
  transact,
  works,
  writing,
} from "./arrange.ts";
import type { BridgeCapabilities, BridgeCase, BridgeContext } from "./case.ts";

const withOneConnection = ({ sessions, oneConnection }: BridgeCapabilities) =>
  sessions === "one" || oneConnection !== false;

/** A transaction that does not wait would need 2 round trips to open. */
const roundTripsWhileHeld = 50;

/** A transaction that writes `row` and then holds its connection until it is released. */
async function holding(context: BridgeContext, row: string) {
  const [opened, letGo] = [Promise.withResolvers<number>(), Promise.withResolvers<void>()];
  const done = writing(context, row, async ({ tx }) => {
    opened.resolve(await backendOf(context, tx));
    await letGo.promise;
    for (let count = 0; count < roundTripsWhileHeld; count++) await backendOf(context, tx);
    return commit();
  });
  done.catch(opened.reject);
  return { pid: await inTime(context, "a transaction", opened.promise), letGo: letGo.resolve, done };
}

const cases: readonly Omit<BridgeCase, "needs" | "connections">[] = [
  {
    name: "one connection: concurrent transactions take turns, including opening and closing statements",
    async run(context) {
      const rows = Array.from({ length: 6 }, newRow);
      let running = 0;
      const outcomes = await Promise.all(
        rows.map((row) =>
          transact(
            context,
            async ({ tx }) => {
              running += 1;
              assert.equal(running, 1, "one transaction at a time");
              await context.execute(tx, insertText, [row]);
              running -= 1;
              return commit([inserting(`${row}, closed`)]);
            },
            { opening: [inserting(`${row}, opened`)] },
          ),
        ),
      );
      assert.deepEqual(new Set(outcomes.map(({ kind }) => kind)), new Set(["committed"]));
      for (const row of rows) {
        for (const written of [row, `${row}, opened`, `${row}, closed`]) await stayed(context, written);
      }
    },
  },
  {
    name: "one connection: a transaction waits while a handler holds the connection, and then gets it",
    async run(context) {
      const [held, waited] = [newRow(), newRow()];
      const first = await holding(context, held);
      let firstEnded = false;
      const second = transact(context, async ({ tx }) => {
        assert.equal(firstEnded, true, "the second must wait until the first has ended");
        const pid = await backendOf(context, tx);
        assert.equal(pid, first.pid, "there must be one connection");
        await context.execute(tx, insertText, [waited]);
        return commit();
      });
      const ended = first.done.finally(() => {
        firstEnded = true;
      });
      // Its outcome is asserted on below; this only prevents an unhandled rejection.
      second.catch(() => {});
      first.letGo();
      assert.equal((await ended).kind, "committed");
      assert.equal((await second).kind, "committed");
      await stayed(context, held);
      await stayed(context, waited);
    },
  },
  {
    name: "one connection: after any end of a transaction, the next one gets the connection",
    async run(context) {
      const rows = Array.from({ length: 4 }, newRow);
      const [rolledBack = "", abandoned = "", refused = "", thrown = ""] = rows;
      await writing(context, rolledBack, () => ({ end: "rollback", value: "" }));
      await works(context);
      await writing(context, abandoned, () => ({ end: "abandon", value: "" }));
      await works(context);
      assert.equal((await writing(context, refused, () => commit([failing]))).kind, "refused");
      await works(context);
      const failure = new Error("the handler failed");
      const run = writing(context, thrown, () => Promise.reject(failure));
      await assert.rejects(run, (error) => error === failure);
      await works(context);
      for (const row of rows) await gone(context, row, "of a transaction that was not committed");
    },
  },
  {
    name: "one connection: migrations wait for a handler, and concurrent requests each take effect once",
    async run(context) {
      const first = await holding(context, newRow());
      const migrating = context.makeStore();
      migrating.catch(() => {});
      first.letGo();
      assert.equal((await first.done).kind, "committed");
      const store = await inTime(context, "to migrate", migrating);
      const latchkey = createLatchkey({ store });
      const operation = latchkey.operation("latchkey-suite");
      const rows = Array.from({ length: 5 }, newRow);
      const serve = async () => {
        const requests = [...rows, ...rows].map((row) =>
          latchkey.run(operation, { tenant: "latchkey-suite", key: row, input: row }, async ({ tx }) => {
            await context.execute(tx, insertText, [row]);
            return row;
          }),
        );
        const results = await inTime(context, "to serve requests", Promise.all(requests));
        return results.map(({ kind }) => kind);
      };
      const executed = (await serve()).filter((kind) => kind === "executed");
      assert.equal(executed.length, rows.length, "each key must be executed once");
      assert.deepEqual(new Set(await serve()), new Set(["replay"]), "and replayed from then on");
      const written = await context.outside(
        "select row from latchkey_rows where row = any (string_to_array($1::text, ','))",
        [rows.join(",")],
      );
      assert.deepEqual(written.map(({ row }) => row).sort(), [...rows].sort());
      await store.close?.();
    },
  },
];

export const oneConnectionCases: readonly BridgeCase[] = cases.map((one) => ({
  ...one,
  needs: withOneConnection,
  connections: 1,
}));
