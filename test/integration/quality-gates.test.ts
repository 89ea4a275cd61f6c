/** The quality gates Q1, Q2, Q6, Q7 and Q9 of the requirements, on Postgres with two processes. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Fixture,
  type FixtureAnswer,
  type FixtureRequest,
  startFixture,
  temporaryFolder,
} from "../support/fixture.ts";
import { type HandlerGate, openHandlerGate } from "../support/handler-gate.ts";
import { releaseAll } from "../support/resources.ts";
import { forEachPostgres } from "../support/shared-postgres.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";

const book = { body: { item: "book", amount: 2 } };
const crowd = 50;

afterAll(releaseAll);

forEachPostgres((_version, database) => {
  let gate: HandlerGate;
  let data: string;

  const start = async (...args: string[]): Promise<Fixture> =>
    startFixture({
      http: "express",
      store: database.url,
      args: ["--data", data, ...args],
      env: { LATCHKEY_FIXTURE_GATE: gate.path },
    });
  const startPair = (...args: string[]): Promise<Pair> => Promise.all([start(...args), start(...args)]);

  beforeAll(async () => {
    const folder = temporaryFolder();
    gate = await openHandlerGate(folder);
    data = `${folder}/data`;
  });

  describe("with the default policy", () => {
    let pair: Pair;
    beforeAll(async () => {
      pair = await startPair();
    });
    afterAll(() => stopAll(pair));

    test("Q1: the same key and body again is a replay, another body is refused", async () => {
      const [left, right] = pair;
      const tenant = "q1";
      const first = await left.post("/orders", "k", { ...book, tenant });
      expect(first).toMatchObject({ status: 201, replayed: false });
      for (const fixture of [left, right]) {
        const again = await fixture.post("/orders", "k", { ...book, tenant });
        expect(again).toMatchObject({ status: 201, replayed: true, text: first.text });
        expect(again.lines("Location")).toEqual(first.lines("Location"));
      }
      const reordered = { raw: '{ "amount": 2.0, "item": "book" }', headers: json, tenant };
      expect(await right.post("/orders", "k", reordered)).toMatchObject({ replayed: true });
      const misuse = await right.post("/orders", "k", { body: { item: "book", amount: 3 }, tenant });
      expect(misuse.status).toBe(422);
      expect(misuse.json()).toMatchObject({ code: "key-misuse", retryable: false, safe_new_key: false });
      expect(await left.post("/orders", "k", { ...book, tenant })).toMatchObject({ text: first.text });
      expect(await left.starts("/orders", tenant)).toBe(1);
      expect(await left.ledger(tenant)).toHaveLength(1);
    });

    test.each(["/slow-tx", "/slow"])(
      "Q2: %s: of 50 at once on two processes one runs, held inside its handler until all others are answered",
      async (path) => {
        const tenant = `q2${path}`;
        const answers = postFromBoth(pair, path, { tenant });
        const arrival = await gate.arrival();
        const others = await firstOf(answers, crowd - 1);
        expect(statusesOf(others)).toEqual(Array(crowd - 1).fill(409));
        for (const other of others) expect(other.json()).toMatchObject({ code: "in-progress" });
        arrival.release();
        const winners = (await Promise.all(answers)).filter(({ status }) => status !== 409);
        expect(winners).toHaveLength(1);
        expect(winners[0]).toMatchObject({ status: path === "/slow" ? 200 : 201, replayed: false });
        expect(await pair[0].starts(path, tenant)).toBe(1);
        expect(await pair[1].ledger(tenant)).toHaveLength(path === "/slow" ? 0 : 1);
        for (const again of await Promise.all(postFromBoth(pair, path, { tenant }))) {
          expect(again).toMatchObject({ replayed: true, text: winners[0]?.text });
        }
        expect(await pair[0].starts(path, tenant)).toBe(1);
      },
    );

    test.each([
      // Both pools full of sessions that wait for the lock (one may be kept for heartbeats, one listens): as much of a race as
      // two processes can have.
      { path: "/orders", status: 201, rows: 1, sessions: 2 * (poolSize - 2) },
      // Look-ups of one turn of the event loop are one statement, so there may be a single one in each process.
      { path: "/optional", status: 200, rows: 0, sessions: 2 },
    ])(
      "Q2: $path: 50 stopped together at the store's door by a lock: one runs",
      async ({ path, status, rows, sessions }) => {
        const tenant = `q2-lock${path}`;
        const door = await lockRecords(database.url);
        const answers = postFromBoth(pair, path, { ...book, tenant });
        const waiting = until(async () => (await door.waiting()) >= sessions, { what: "both pools wait" });
        await waiting.finally(() => door.open());
        const settled = await Promise.all(answers);
        const ran = settled.filter((answer) => answer.status === status && !answer.replayed);
        expect(ran).toHaveLength(1);
        for (const answer of settled) {
          if (answer.status === 409) expect(answer.json()).toMatchObject({ code: "in-progress" });
          else expect(answer).toMatchObject({ status, text: ran[0]?.text });
        }
        expect(await pair[0].starts(path, tenant)).toBe(1);
        expect(await pair[1].ledger(tenant)).toHaveLength(rows);
      },
    );

    test("Q6: GET, PUT and DELETE need no key, and are not recorded when one is sent", async () => {
      const [left, right] = pair;
      const tenant = "q6";
      const key = "k";
      for (const amount of [2, 3]) {
        const body = { item: "book", amount };
        const put = await left.request("/orders/1", { method: "PUT", tenant, key, body });
        expect(put).toMatchObject({ status: 200, replayed: false });
        expect((await right.request("/orders/1", { tenant })).json()).toEqual({ id: "1", ...body });
      }
      const remove = { method: "DELETE", tenant };
      expect((await right.request("/orders/1", remove)).status).toBe(204);
      expect((await left.request("/orders/1", remove)).status).toBe(404);
      // The key is still new where keys count.
      const order = await left.post("/orders", key, { ...book, tenant });
      expect(order).toMatchObject({ status: 201, replayed: false });
    });

    test.each(["throw", "500"])("Q7: after a first answer 500 (%s) the retry runs again", async (ending) => {
      const tenant = `q7-${ending}`;
      for (const [index, fixture] of pair.entries()) {
        const answer = await fixture.post(`/orders?then=${ending}`, "k", { ...book, tenant });
        expect(answer).toMatchObject({ status: 500, replayed: false });
        expect(await fixture.starts("/orders", tenant)).toBe(index + 1);
        expect(await fixture.ledger(tenant)).toEqual([]);
      }
    });

    test("Q7: a retry of a failure that has passed succeeds, once", async () => {
      const tenant = "q7-mended";
      await withoutOrdersTable(database.url, async () => {
        expect(await pair[0].post("/orders", "k", { ...book, tenant })).toMatchObject({ status: 500 });
      });
      const first = await pair[1].post("/orders", "k", { ...book, tenant });
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(await pair[0].post("/orders", "k", { ...book, tenant })).toMatchObject({ replayed: true });
      // A statement that had a name by then is tried once more without it.
      expect([2, 3]).toContain(await pair[0].starts("/orders", tenant));
      expect(await pair[0].ledger(tenant)).toHaveLength(1);
    });

    test("Q7: two tenants with one key are independent", async () => {
      const [left, right] = pair;
      const [one, two] = await Promise.all([
        left.post("/orders", "k", { body: { item: "left", amount: 1 }, tenant: "q7|a" }),
        right.post("/orders", "k", { body: { item: "right", amount: 2 }, tenant: "q7" }),
      ]);
      expect([one.status, two.status]).toEqual([201, 201]);
      expect([one.replayed, two.replayed]).toEqual([false, false]);
      expect(await left.ledger("q7|a")).toMatchObject([{ item: "left" }]);
      expect(await left.ledger("q7")).toMatchObject([{ item: "right" }]);
    });

    test("Q7: another principal gets nothing of the first one's answer", async () => {
      const [left, right] = pair;
      const tenant = "q7-principals";
      const mine = { ...book, tenant, principal: "ada" };
      const first = await left.post("/orders", "k", mine);
      const { id } = first.json() as { id: string };
      for (const principal of ["grace", undefined]) {
        const theirs = { ...book, tenant, ...(principal !== undefined && { principal }) };
        const refused = await right.post("/orders", "k", theirs);
        expect(refused).toMatchObject({ status: 422, replayed: false });
        const misuse = await right.post("/orders", "k", { ...mine, body: { item: "book", amount: 3 } });
        expect(refused.text).toBe(misuse.text);
        const revealed = [refused.text, ...refused.lines("Location"), ...refused.lines("Link")].join("\n");
        expect(revealed).not.toContain(id);
        expect(revealed).not.toContain((await left.ledger(tenant))[0]?.recordId);
      }
      expect(await right.post("/orders", "k", mine)).toMatchObject({ replayed: true, text: first.text });
      expect(await left.starts("/orders", tenant)).toBe(1);
    });
  });

  describe("with the store behind a proxy", () => {
    let proxy: TcpProxy;
    let pair: Pair;
    beforeAll(async () => {
      proxy = await startProxy({ to: { port: Number(new URL(database.url).port) } });
      const through = (): Promise<Fixture> =>
        startFixture({ http: "express", store: proxy.url(database.url), args: ["--data", data] });
      pair = await Promise.all([through(), through()]);
    });
    afterAll(async () => {
      await stopAll(pair);
      await proxy?.close();
    });

    test.each([
      { path: "/orders", status: 201, rows: 1 },
      { path: "/optional", status: 200, rows: 0 },
    ])("Q7: $path: with the store down nothing starts; then the same request runs", async (row) => {
      const { path, status, rows } = row;
      const tenant = `q7-down${path}`;
      await proxy.cut();
      for (const fixture of pair) {
        const refused = await fixture.post(path, "k", { ...book, tenant });
        expect(refused.status).toBe(503);
        expect(refused.json()).toMatchObject({
          code: "store-unavailable",
          retryable: true,
          safe_new_key: false,
        });
        expect(Number(refused.lines("Retry-After")[0])).toBeGreaterThanOrEqual(1);
        expect((await fixture.request("/health")).status).toBe(503);
        expect(await fixture.starts(path, tenant)).toBe(0);
      }
      await proxy.pass();
      const [left, right] = pair;
      expect(await servedAgain(left, path, tenant)).toMatchObject({ status, replayed: false });
      expect(await servedAgain(right, path, tenant)).toMatchObject({ status, replayed: true });
      expect((await right.request("/health")).status).toBe(200);
      expect(await left.starts(path, tenant)).toBe(1);
      expect(await left.ledger(tenant)).toHaveLength(rows);
    });
  });

  describe.runIf(isThorough)("with other options", () => {
    test("Q9: by default the key runs as new, for one of all who come", async () => {
      const pair = await startPair("--retention-ms", String(hourMs));
      const tenant = "q9-new";
      const running = pair[0].post("/slow-tx", "k", { tenant });
      (await gate.arrival()).release();
      const first = await running;
      await age(database.url, tenant, 0.9);
      expect(await pair[1].post("/slow-tx", "k", { tenant })).toMatchObject({ replayed: true });
      await age(database.url, tenant, 0.2);
      const answers = postFromBoth(pair, "/slow-tx", { tenant });
      const arrival = await gate.arrival();
      expect(statusesOf(await firstOf(answers, crowd - 1))).toEqual(Array(crowd - 1).fill(409));
      arrival.release();
      const second = (await Promise.all(answers)).find(({ status }) => status === 201);
      expect(second).toMatchObject({ replayed: false });
      expect(second?.text).not.toBe(first.text);
      expect(await pair[1].post("/slow-tx", "k", { tenant })).toMatchObject({
        replayed: true,
        text: second?.text,
      });
      expect(await pair[0].starts("/slow-tx", tenant)).toBe(2);
      const rows = await pair[0].ledger(tenant);
      expect(new Set(rows.map(({ recordId }) => recordId)).size).toBe(2);
      await stopAll(pair);
    });

    test("Q9: between retention and being forgotten it is refused, and never replayed", async () => {
      const pair = await startPair("--retention-ms", String(hourMs), "--forget-after-ms", String(3 * hourMs));
      const tenant = "q9-refused";
      const first = await pair[0].post("/orders", "k", { ...book, tenant });
      await age(database.url, tenant, 2);
      for (const answer of await Promise.all(postFromBoth(pair, "/orders", { ...book, tenant }))) {
        expect(answer).toMatchObject({ status: 410, replayed: false });
        expect(answer.json()).toMatchObject({ code: "expired", retryable: false, safe_new_key: false });
        expect(answer.text).not.toContain(idOf(first));
      }
      expect(await pair[0].starts("/orders", tenant)).toBe(1);
      await age(database.url, tenant, 2);
      const second = await pair[1].post("/orders", "k", { ...book, tenant });
      expect(second).toMatchObject({ status: 201, replayed: false });
      expect(second.text).not.toBe(first.text);
      expect(await pair[0].ledger(tenant)).toHaveLength(2);
      await stopAll(pair);
    });

    test("Q7 under the policy stripe: a 500 is the answer, its writes are undone, and keys are optional", async () => {
      const pair = await startPair("--policy", "stripe");
      const tenant = "stripe-500";
      for (const fixture of pair) {
        const answer = await fixture.post("/orders?then=500", "k", { ...book, tenant });
        expect(answer).toMatchObject({ status: 500, replayed: fixture === pair[1] });
      }
      expect(await pair[0].starts("/orders", tenant)).toBe(1);
      expect(await pair[0].ledger(tenant)).toEqual([]);
      for (const fixture of pair) {
        const answer = await fixture.request("/orders", { method: "POST", ...book, tenant });
        expect(answer).toMatchObject({ status: 201, replayed: false });
      }
      expect(await pair[0].ledger(tenant)).toHaveLength(2);
      await stopAll(pair);
    });

    test("Q1 and Q9 under the policy stripe: misuse is 400, an expired key runs as new", async () => {
      const times = ["--retention-ms", String(hourMs), "--forget-after-ms", String(3 * hourMs)];
      const pair = await startPair("--policy", "stripe", ...times);
      const tenant = "stripe";
      const first = await pair[0].post("/orders", "k", { ...book, tenant });
      const misuse = await pair[1].post("/orders", "k", { body: { item: "book", amount: 3 }, tenant });
      expect(misuse.status).toBe(400);
      expect(misuse.json()).toMatchObject({ code: "key-misuse" });
      expect(await pair[1].post("/orders", "k", { ...book, tenant })).toMatchObject({ text: first.text });
      await age(database.url, tenant, 2);
      const second = await pair[1].post("/orders", "k", { ...book, tenant });
      expect(second).toMatchObject({ status: 201, replayed: false });
      expect(second.text).not.toBe(first.text);
      expect(await pair[0].ledger(tenant)).toHaveLength(2);
      await stopAll(pair);
    });
  });
});

type Pair = readonly [Fixture, Fixture];

const json = { "Content-Type": "application/json" };
/** Of the fixture, by default. */
const poolSize = 10;
const hourMs = 60 * 60 * 1000;

/** 50 requests with one key, half of them to each process. */
function postFromBoth([left, right]: Pair, path: string, request: FixtureRequest): Promise<FixtureAnswer>[] {
  return Array.from({ length: crowd }, (_, index) =>
    (index % 2 === 0 ? left : right).post(path, "k", request),
  );
}

/** The first `count` answers, as they come. */
function firstOf(answers: readonly Promise<FixtureAnswer>[], count: number): Promise<FixtureAnswer[]> {
  const first: FixtureAnswer[] = [];
  return new Promise((resolve, reject) => {
    for (const answer of answers) {
      answer.then((one) => {
        first.push(one);
        if (first.length === count) resolve([...first]);
      }, reject);
    }
  });
}

async function stopAll(pair: Pair | undefined): Promise<void> {
  await Promise.all((pair ?? []).map((fixture) => fixture.worker.stop()));
}

function idOf(answer: FixtureAnswer): string {
  return (answer.json() as { id: string }).id;
}

function statusesOf(answers: readonly FixtureAnswer[]): number[] {
  return answers.map(({ status }) => status);
}

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Moves the ends of a tenant's records into the past, as if so much time had gone by. */
async function age(url: string, tenant: string, hours: number): Promise<void> {
  await connected(url, async (client) => {
    const { rowCount } = await client.query(
      `update latchkey.records set created_at = created_at - $2::interval, finished_at = finished_at - $2::interval,
         expires_at = expires_at - $2::interval, forget_at = forget_at - $2::interval
       where tenant = $1`,
      [tenant, `${hours} hours`],
    );
    expect(rowCount).toBe(1);
  });
}

/** The first answer that is no refusal: the circuit may be open, which the worker's services have met as well. */
async function servedAgain(
  fixture: Fixture,
  path: string,
  tenant: string,
): Promise<FixtureAnswer | undefined> {
  return until(
    async () => {
      const answer = await fixture.post(path, "k", { ...book, tenant });
      return answer.status === 503 ? undefined : answer;
    },
    { what: "served again without a restart" },
  );
}

/** Takes a lock that no reading or writing of records passes. */
async function lockRecords(url: string): Promise<{ waiting(): Promise<number>; open(): Promise<void> }> {
  const holder = new pg.Client({ connectionString: url });
  const observer = new pg.Client({ connectionString: url });
  await Promise.all([holder.connect(), observer.connect()]);
  await holder.query("begin");
  await holder.query("lock table latchkey.records in access exclusive mode");
  return {
    async waiting() {
      const { rows } = await observer.query<{ waiting: number }>(
        "select count(*)::integer as waiting from pg_locks where not granted and relation = 'latchkey.records'::regclass",
      );
      return rows[0]?.waiting ?? 0;
    },
    async open() {
      await holder.query("rollback");
      await Promise.all([holder.end(), observer.end()]);
    },
  };
}

/** Lets every insert of an order fail meanwhile. */
async function withoutOrdersTable(url: string, work: () => Promise<void>): Promise<void> {
  await connected(url, async (client) => {
    await client.query("alter table fixture_orders rename to fixture_orders_away");
    await work();
    await client.query("alter table fixture_orders_away rename to fixture_orders");
  });
}
