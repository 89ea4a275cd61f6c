import type { Socket } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPool, type TestTx } from "../../../test/postgres/harness.ts";
import { type FreshDatabase, forEachPostgres, freshDatabase } from "../../../test/support/shared-postgres.ts";
import { StoreError } from "../../latchkey/src/errors.ts";
import { guardClient } from "../../latchkey/src/sql/guard-client.ts";
import { pgTransactions } from "../../latchkey/src/sql/pg.ts";
import { sqlStateOf } from "../../latchkey/src/sql/sql-state.ts";
import type {
  BridgeOutcome,
  BridgeRequest,
  BridgeSession,
  BridgeWork,
  SqlRow,
  SqlStatement,
  TransactionBridge,
} from "../../latchkey/src/sql/transaction.ts";
import { migratePostgres, postgresStore } from "../../latchkey/src/stores/postgres.ts";
import type { BridgeUnderTest } from "./transaction-conformance/case.ts";
import { transactionConformance } from "./transaction-conformance.ts";

/** A bridge over `pool`, checked through another pool. */
function underTest(url: string, pool: pg.Pool, bridge: TransactionBridge<TestTx>): BridgeUnderTest<TestTx> {
  const observer = openPool(url, { max: 2 });
  return {
    bridge,
    execute: async (tx, text, values = []) => (await tx.query(text, [...values])).rows,
    prepare:
      ({ query }, text) =>
      () =>
        query(text),
    outside: async (text, values = []) => (await observer.query(text, [...values])).rows,
    async makeStore() {
      await migratePostgres(pool);
      return postgresStore({ pool, transactions: bridge });
    },
    busyConnections: () => pool.totalCount - pool.idleCount,
    async close() {
      await Promise.all([pool.end(), observer.end()]);
    },
  };
}

forEachPostgres((_version, database) => {
  for (const pipeline of [false, true]) {
    describe(`pgTransactions, pool with pipeline: ${pipeline}`, () => {
      transactionConformance<TestTx>({
        test,
        sessions: "many",
        commitNotice: true,
        factory({ connections }) {
          const pool = openPool(database.url, { max: connections, pipeline });
          return underTest(database.url, pool, pgTransactions({ pool }));
        },
      });
    });
  }
});

/** Mistakes of a bridge, each with the cases of which at least one must detect it. */
const faults = {
  "commits although the work threw": ["throw:"],
  "commits around a closing statement that raised": ["commit: refused if a closing"],
  "reports a commit although a closing statement raised": ["commit: refused if a closing"],
  "does not look at COMMIT's tag": ["commit: in an aborted transaction"],
  "reports a doubt where the server refused": ["commit: refused if COMMIT"],
  "reports a lost COMMIT as refused": ["killed: during COMMIT"],
  "runs the opening statements before BEGIN": ["commit: opening statements"],
  "runs the closing statements after COMMIT": ["commit: opening statements"],
  "joins an open transaction": ["session: one that is rolled back"],
  "does not revoke": ["guard: a revoked"],
  "revokes too late": ["guard: a revoked"],
  "allows transaction control": ["guard: refuses transaction control"],
  "counts its own statements as use": ["guard: reports"],
  "wraps the work's error": ["throw:"],
  "runs the work although an opening statement raised": ["open: an opening"],
  "keeps the connection when an opening statement raises": ["open: an opening"],
  "shows values in its errors": ["open: an error does not show"],
  "writes null as text": ["values: every type"],
  "writes bytes as text": ["values: every type"],
  "numbers placeholders by position": ["values: placeholders"],
  "ignores the isolation level": ["isolation: serializable"],
  "sends parallel statements outside the transaction": ["parallel: statements"],
  "mixes up parallel statements": ["parallel: each statement"],
  "swallows an error of parallel statements": ["parallel: the one that fails"],
  "needs a second connection to open": ["one connection: concurrent"],
  "does not wait for a connection": ["one connection: a transaction waits"],
  "keeps a connection whose work threw": ["one connection: after any end"],
  "keeps its connection for the next transaction": ["one connection: migrations"],
  "waits before it abandons": ["abandon: does not wait"],
  "gives back an abandoned connection": ["abandon: does not wait"],
} as const satisfies Record<string, readonly string[]>;

type Fault = keyof typeof faults;

/** A `query` with the given fault for statements that are sent while others are running; null for other faults. */
function overlappingQuery(tx: TestTx, pool: pg.Pool, fault: Fault | null) {
  const handled = ["sends parallel statements outside the transaction", "mixes up parallel statements"];
  if (fault !== "swallows an error of parallel statements" && !handled.includes(fault ?? "")) return null;
  let underWay = 0;
  let previous: Promise<pg.QueryResult> | undefined;
  return async (text: string, values: unknown[] = []) => {
    const overlaps = underWay > 0;
    underWay += 1;
    try {
      if (overlaps && fault === "sends parallel statements outside the transaction")
        return await pool.query(text, values);
      const result = tx.query(text, values);
      const answered = overlaps && fault === "mixes up parallel statements" ? (previous ?? result) : result;
      previous = result;
      await result;
      return await answered;
    } catch (error) {
      if (overlaps && fault === "swallows an error of parallel statements") return { rows: [] };
      throw error;
    } finally {
      underWay -= 1;
    }
  };
}

/** A textbook bridge: six round trips, correct unless `fault` is given. */
class TextbookBridge implements TransactionBridge<TestTx> {
  readonly name = "textbook";
  readonly commitNotice = false;
  readonly #pool: pg.Pool;
  readonly #fault: Fault | null;
  #shared: pg.PoolClient | null = null;
  #kept: pg.PoolClient | null = null;

  constructor(pool: pg.Pool, fault: Fault | null) {
    this.#pool = pool;
    this.#fault = fault;
  }

  #has(...some: readonly Fault[]): boolean {
    return some.some((fault) => fault === this.#fault);
  }

  async transact<T>(
    request: BridgeRequest,
    work: (session: BridgeSession<TestTx>) => Promise<BridgeWork<T>>,
  ): Promise<BridgeOutcome<T>> {
    const { client, end } = await this.#take();
    let opened: readonly (readonly SqlRow[])[] = [];
    try {
      const early = this.#has("runs the opening statements before BEGIN");
      if (early) opened = await this.#runAll(client, request.opening);
      const isolation = this.#has("ignores the isolation level") ? null : request.isolation;
      await client.query(`begin ${isolation === null ? "" : `isolation level ${isolation}`} read write`);
      if (this.#has("needs a second connection to open")) (await this.#pool.connect()).release();
      if (!early) opened = await this.#runAll(client, request.opening);
    } catch (cause) {
      if (!this.#has("runs the work although an opening statement raised")) {
        const keep = this.#has("keeps the connection when an opening statement raises");
        if (!keep) await this.#rollBack(client, end);
        const shown = this.#has("shows values in its errors") ? JSON.stringify(request.opening) : "";
        throw new StoreError("rolled_back", { cause, message: `not opened ${shown}` });
      }
    }
    return this.#inTransaction(client, end, opened, work);
  }

  async #take(): Promise<{ client: pg.PoolClient; end: (destroy: boolean) => void }> {
    if (this.#has("joins an open transaction") && this.#shared !== null) {
      return { client: this.#shared, end: () => {} };
    }
    const { idleCount, totalCount, options } = this.#pool;
    if (this.#has("does not wait for a connection") && idleCount === 0 && totalCount === options.max)
      throw new StoreError("not_sent", { cause: new Error("all connections are in use") });
    const connecting = this.#kept === null ? this.#pool.connect() : Promise.resolve(this.#kept);
    this.#kept = null;
    const client = await connecting.catch((cause: unknown) => {
      throw new StoreError("not_sent", { cause });
    });
    const ignore = () => {};
    client.on("error", ignore);
    this.#shared = client;
    const end = (destroy: boolean) => {
      this.#shared = null;
      client.removeListener("error", ignore);
      if (this.#has("keeps its connection for the next transaction") && !destroy) this.#kept = client;
      else client.release(destroy);
    };
    return { client, end };
  }

  async #inTransaction<T>(
    client: pg.PoolClient,
    end: (destroy: boolean) => void,
    opened: readonly (readonly SqlRow[])[],
    work: (session: BridgeSession<TestTx>) => Promise<BridgeWork<T>>,
  ): Promise<BridgeOutcome<T>> {
    const lax = this.#has("allows transaction control");
    const guard = guardClient(client, {
      statementMethods: lax ? [] : ["query"],
      refusedMethods: ["release"],
    });
    let touched = this.#has("counts its own statements as use");
    const query = overlappingQuery(guard.tx, this.#pool, this.#fault);
    const tx = new Proxy(guard.tx, {
      get(target, name) {
        touched ||= lax && name === "query";
        return name === "query" && query !== null ? query : Reflect.get(target, name);
      },
    });
    let done: BridgeWork<T>;
    const revoke = () => {
      if (!this.#has("does not revoke", "revokes too late")) guard.revoke();
    };
    const revokeAtEnd = () => {
      if (!this.#has("does not revoke")) guard.revoke();
    };
    try {
      done = await work({ opened, tx, used: () => touched || guard.used(), revoke });
    } catch (error) {
      revokeAtEnd();
      if (this.#has("commits although the work threw")) {
        await client.query("commit").catch(() => {});
        end(false);
      } else {
        const keep = this.#has("keeps a connection whose work threw");
        await this.#rollBack(client, keep ? () => {} : end);
      }
      throw this.#has("wraps the work's error") ? new Error("wrapped", { cause: error }) : error;
    }
    revokeAtEnd();
    if (done.end === "commit") return this.#commit(client, end, done);
    if (done.end === "abandon" && !this.#has("waits before it abandons")) {
      if (this.#has("gives back an abandoned connection")) end(false);
      else end(true);
    } else await this.#rollBack(client, end);
    return { kind: "rolled_back", value: done.value };
  }

  async #rollBack(client: pg.PoolClient, end: (destroy: boolean) => void): Promise<void> {
    const failed = await client.query("rollback").then(
      () => false,
      () => true,
    );
    end(failed);
  }

  async #commit<T>(
    client: pg.PoolClient,
    end: (destroy: boolean) => void,
    { value, closing }: Extract<BridgeWork<T>, { end: "commit" }>,
  ): Promise<BridgeOutcome<T>> {
    const late = this.#has("runs the closing statements after COMMIT");
    let closed: readonly (readonly SqlRow[])[] = [];
    try {
      if (!late) closed = await this.#close(client, closing);
    } catch (error) {
      await this.#rollBack(client, end);
      if (this.#has("reports a commit although a closing statement raised")) {
        return { kind: "committed", value, closed };
      }
      return { kind: "refused", value, sqlState: sqlStateOf(error) ?? "08003", error };
    }
    try {
      const { command } = await client.query("commit");
      if (late) closed = await this.#runAll(client, closing);
      end(false);
      if (command === "COMMIT" || this.#has("does not look at COMMIT's tag")) {
        return { kind: "committed", value, closed };
      }
      return { kind: "refused", value, sqlState: "25P02", error: new Error(command) };
    } catch (error) {
      return this.#afterCommitFailed(value, error, end);
    }
  }

  #afterCommitFailed<T>(value: T, error: unknown, end: (destroy: boolean) => void): BridgeOutcome<T> {
    const sqlState = sqlStateOf(error) ?? "08006";
    const lost = ["08006", "57P01"].includes(sqlState);
    end(lost);
    const doubt =
      (lost && !this.#has("reports a lost COMMIT as refused")) ||
      this.#has("reports a doubt where the server refused");
    return doubt ? { kind: "in_doubt", value, error } : { kind: "refused", value, sqlState, error };
  }

  async #close(client: pg.PoolClient, closing: readonly SqlStatement[]) {
    if (!this.#has("commits around a closing statement that raised")) return this.#runAll(client, closing);
    await client.query("savepoint before_closing");
    return this.#runAll(client, closing).catch(async () => {
      await client.query("rollback to savepoint before_closing");
      return [];
    });
  }

  async #runAll(client: pg.PoolClient, statements: readonly SqlStatement[]) {
    const all: (readonly SqlRow[])[] = [];
    for (const statement of statements)
      all.push((await client.query<SqlRow>(this.#configOf(statement))).rows);
    return all;
  }

  #configOf({ text, values }: SqlStatement): pg.QueryConfig {
    let count = 0;
    return {
      text: this.#has("numbers placeholders by position")
        ? text.replaceAll(/\$\d+/g, () => `$${++count}`)
        : text,
      values: values.map((value) => {
        if (value === null && this.#has("writes null as text")) return "null";
        if (!(value instanceof Uint8Array)) return value;
        return this.#has("writes bytes as text") ? String(value) : Buffer.from(value);
      }),
    };
  }
}

/** A pool that has lost a client never ends on its own. */
async function endByForce(clients: ReadonlySet<pg.PoolClient>): Promise<void> {
  for (const client of clients) {
    client.on("error", () => {});
    (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
  }
}

/** Runs the whole suite over a bridge; returns the names of the cases that failed. */
async function failuresOf(
  url: string,
  fault: Fault | null,
  only: readonly string[] = [""],
): Promise<string[]> {
  const failed: string[] = [];
  const bodies: [string, () => Promise<void>][] = [];
  transactionConformance<TestTx>({
    test: (name, body) => void bodies.push([name, body]),
    sessions: "many",
    commitNotice: false,
    patienceMs: fault === null ? 15_000 : 500,
    factory({ connections }) {
      const pool = new pg.Pool({ connectionString: url, max: connections });
      const clients = new Set<pg.PoolClient>();
      pool.on("error", () => {}).on("connect", (client) => clients.add(client));
      const subject = underTest(url, pool, new TextbookBridge(pool, fault));
      return { ...subject, close: () => endByForce(clients) };
    },
  });
  for (const [name, body] of bodies) {
    if (!only.some((start) => name.startsWith(start))) continue;
    await body().catch(() => failed.push(name));
  }
  return failed;
}

describe("the suite itself", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  test("passes a correct bridge", async () => {
    expect(await failuresOf(database.url, null)).toEqual([]);
  });

  test.each(Object.entries(faults) as [Fault, readonly string[]][])(
    "detects a bridge that %s",
    async (fault, cases) => {
      expect(await failuresOf(database.url, fault, cases)).not.toEqual([]);
    },
  );

  test("rejects a skip of an unknown case, or one without a reason", () => {
    const options = { test, sessions: "one", commitNotice: true, factory: () => Promise.reject() } as const;
    expect(() => transactionConformance({ ...options, skip: { nothing: "because" } })).toThrow(TypeError);
    const skip = { "commit: keeps what was written, and returns the value": " " };
    expect(() => transactionConformance({ ...options, skip })).toThrow(TypeError);
  });
});
