/** What a handler costs on the wire through every database client: its own statements, and all of Latchkey's. */
import { connect } from "node:net";
import type pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { postgresJsTransactions } from "../../packages/latchkey/src/sql/postgres-js.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { onRelease } from "../support/resources.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { clients, type OpenClient, type Say } from "./clients.ts";
import { migratedDatabase, openPool } from "./harness.ts";

/** So that no reply comes between two writes of one flight. On a busy machine the first may be too short. */
const replyDelaysMs = [5, 50, 500];

/** A connection learns statements, and a client its server, the first times. */
const warmRuns = 3;

let proxy: TcpProxy;
let url: string;
let keys = 0;

beforeAll(async () => {
  const direct = await migratedDatabase();
  proxy = await startProxy({ to: { port: Number(new URL(direct).port) } });
  url = proxy.url(direct);
});

async function flightsOf(replyDelayMs: number, act: () => Promise<unknown>): Promise<number> {
  proxy.delay({ down: replyDelayMs });
  const { flights } = proxy.counts();
  await act();
  const after = proxy.counts().flights;
  await proxy.pass();
  return after - flights;
}

interface Cost {
  /** Round trips of one statement more. */
  readonly statement: number;
  /** Round trips of all that is not the handler's. */
  readonly others: number;
}

/** The first measured cost that is as expected, or else that with the longest delay. */
async function costOf(run: (statements: number) => Promise<unknown>, isExpected: (cost: Cost) => boolean) {
  for (let count = 0; count < warmRuns; count++) await run(1);
  const costs: Cost[] = [];
  for (const delayMs of replyDelaysMs) {
    const one = await flightsOf(delayMs, () => run(1));
    const statement = ((await flightsOf(delayMs, () => run(3))) - one) / 2;
    const cost = { statement, others: one - statement };
    if (isExpected(cost)) return cost;
    costs.push(cost);
  }
  return costs.at(-1);
}

const insertText = "insert into business values ($1)";

describe.each(Object.entries(clients))("round trips through %s", (name, { open, module }) => {
  let pool: pg.Pool;
  let client: OpenClient;

  beforeAll(async () => {
    pool = openPool(url, { max: 1 });
    client = await open(pool);
  });
  afterAll(() => pool?.end());

  const inserting = (statements: number) => async (say: Say) => {
    for (let count = 0; count < statements; count++) await say(insertText, name);
    return "done";
  };

  test("Latchkey's take two, as BEGIN and COMMIT do, and a handler's statement what it takes without", async () => {
    const alone = await costOf(
      (statements) => client.alone(inserting(statements)),
      (cost) => cost.others === 2,
    );
    expect(alone?.others, "BEGIN and COMMIT").toBe(2);
    // postgres.js leaves Nagle's algorithm on: COMMIT, written after more than a kilobyte, waits for an acknowledgement, which
    // the kernel may send with the next reply. And what goes through `unsafe()` with values is prepared each time.
    const isPostgresJs = module === "postgres-js";
    const others = isPostgresJs ? [2, 3] : [2];
    const statement = isPostgresJs ? alone?.statement : 1;
    const cost = await costOf(
      (statements) => client.handle(`key ${++keys}`, inserting(statements)),
      (measured) => measured.statement === statement && others.includes(measured.others),
    );
    expect([alone?.statement, cost?.statement]).toEqual([statement, statement]);
    expect(others).toContain(cost?.others);
  });
});

test("postgres.js on sockets without delay: two, and one for each of the handler's prepared statements", async () => {
  const { port, hostname } = new URL(url);
  const options: postgres.Options<Record<string, postgres.PostgresType>> & {
    socket: () => Promise<unknown>;
  } = {
    max: 1,
    socket: () =>
      new Promise((resolve, reject) => {
        const socket = connect({ host: hostname, port: Number(port), noDelay: true });
        socket.once("error", reject).once("connect", () => resolve(socket));
      }),
  };
  const sql = postgres(url, options);
  onRelease(() => sql.end({ timeout: 0 }));
  const pool = openPool(url, { max: 1 });
  const store = postgresStore({ pool, transactions: postgresJsTransactions({ sql }) });
  const latchkey = createLatchkey({ store });
  const operation = latchkey.operation("orders");
  const cost = await costOf(
    (statements) =>
      latchkey.run(operation, { tenant: "no delay", key: `${++keys}`, input: 1 }, async ({ tx }) => {
        for (let count = 0; count < statements; count++) await tx`insert into business values (${"x"})`;
      }),
    ({ statement, others }) => statement === 1 && others === 2,
  );
  expect(cost).toEqual({ statement: 1, others: 2 });
});
