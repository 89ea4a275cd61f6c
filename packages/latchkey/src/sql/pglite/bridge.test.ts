import type { PGlite, Transaction } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { readyPglite } from "../../../../../test/support/ready-pglite.ts";
import { transactionConformance } from "../../../../latchkey-conformance/src/transaction-conformance.ts";
import { migratePglite, pgliteStore } from "../../stores/pglite.ts";
import type { SqlRow } from "../transaction.ts";
import { pgliteBridge } from "./bridge.ts";
import type { PgliteTx } from "./database.ts";

let database: PGlite;

beforeAll(async () => {
  database = await readyPglite();
});

afterAll(() => database.close());

describe("the PGlite bridge keeps the bridge contract", () => {
  transactionConformance<PgliteTx<PGlite>>({
    test,
    sessions: "one",
    commitNotice: true,
    factory: () => ({
      bridge: pgliteBridge(database),
      execute: async (tx, text, values = []) => (await tx.query<SqlRow>(text, [...values])).rows,
      prepare:
        ({ query }, text) =>
        () =>
          query(text),
      outside: async (text, values = []) => (await database.query<SqlRow>(text, [...values])).rows,
      async makeStore() {
        await migratePglite(database);
        return pgliteStore({ database });
      },
      busyConnections: () => (database.isInTransaction() ? 1 : 0),
      close() {},
    }),
  });
});

test("`tx` is PGlite's own transaction, without `rollback`", () => {
  expectTypeOf<PgliteTx<PGlite>>().toEqualTypeOf<Omit<Transaction, "rollback">>();
});

const request = { isolation: null, opening: [] };

describe("what only PGlite has", () => {
  test("a COMMIT past the guard is noticed at every end", async () => {
    const bridge = pgliteBridge(database);
    const commitPastTheGuard = () => database.execProtocol(Buffer.from("Q\0\0\0\x0bcommit\0", "latin1"));
    const ending = (end: "commit" | "rollback") =>
      bridge.transact(request, async () => {
        await commitPastTheGuard();
        return { end, value: 1, closing: [] };
      });
    expect(await ending("commit")).toMatchObject({ kind: "refused", sqlState: "25P01", during: "closing" });
    await expect(ending("rollback")).rejects.toMatchObject({ code: "transaction-changed" });
    const failure = new Error("the handler failed");
    const throwing = bridge.transact(request, async () => {
      await commitPastTheGuard();
      throw failure;
    });
    await expect(throwing).rejects.toMatchObject({ code: "transaction-changed", cause: failure });
  });

  test("a database that is closed is `not_sent`", async () => {
    const closed = await readyPglite();
    await closed.close();
    const opening = pgliteBridge(closed).transact(request, async () => ({ end: "rollback", value: 1 }));
    await expect(opening).rejects.toMatchObject({ code: "store-unavailable", certainty: "not_sent" });
  });
});
