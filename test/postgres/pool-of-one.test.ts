/** A pool with one connection, as functions have it: what runs there, and what is refused before anything does. */

import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey, type LatchkeyEvent } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { patient } from "../support/patience.ts";
import { until } from "../support/until.ts";
import { committedRows, expectNoLeak, migratedDatabase, openPool } from "./harness.ts";

let url = "";
let watching: pg.Pool;
beforeAll(async () => {
  url = await migratedDatabase();
  watching = openPool(url);
});
afterAll(() => watching?.end());

const rowsOf = async (text: string) => (await committedRows(watching)).filter((row) => row === text).length;
const run = async () => ({ status: 201 });

function serviceOn(pool: pg.Pool, given: object = pool) {
  const events: LatchkeyEvent[] = [];
  const store = postgresStore({ pool: given as pg.Pool, connectTimeoutMs: patient(500) });
  const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event) });
  return { store, latchkey, events };
}

test.each([
  ["lease", { execution: "lease" }],
  ["lease with steps", { execution: "lease", version: "1", run }],
  ["deferred", { execution: "deferred", version: "1", run }],
] as const)("%s is refused when it is defined, with what to do", async (_, options) => {
  const pool = openPool(url, { max: 1 });
  const { latchkey } = serviceOn(pool);
  const define = () => latchkey.operation("op", options as never);
  expect(define).toThrow(TypeError);
  expect(define).toThrow(
    'execution "' +
      options.execution +
      '" needs a pool of at least 2 connections, as one is kept for heartbeats: set `max` of the pool',
  );
  expect(pool.totalCount, "nothing was asked").toBe(0);
  await pool.end();
});

test("a pool that does not say its size: the request is refused, and the connection is free again", async () => {
  const pool = openPool(url, { max: 1 });
  const { connect } = pool;
  const { latchkey } = serviceOn(pool, { connect: connect.bind(pool), on: pool.on.bind(pool) });
  const mail = latchkey.operation("mail", { execution: "lease" });
  let ran = false;
  const sending = latchkey.run(mail, { tenant: "t", key: "silent", input: null }, async () => {
    ran = true;
  });
  await expect(sending).rejects.toMatchObject({ code: "store-unavailable", certainty: "not_sent" });
  expect(ran).toBe(false);
  await expectNoLeak(pool);
  const order = latchkey.operation("order");
  const request = { tenant: "t", key: "silent", input: null };
  expect(
    await latchkey.run(order, request, async ({ tx }) => {
      await tx.query("insert into business values ('silent')");
    }),
  ).toMatchObject({ kind: "executed" });
  expect(await rowsOf("silent")).toBe(1);
  await pool.end();
});

test("transactions run one after the other, duplicates and what rolls back included", async () => {
  const pool = openPool(url, { max: 1 });
  const { latchkey } = serviceOn(pool);
  const order = latchkey.operation("order");
  const place = (key: string, fails = false) =>
    latchkey.run(order, { tenant: "t", key, input: null }, async ({ tx }) => {
      await tx.query("insert into business values ('placed')");
      if (fails) throw new Error("refused");
      return key;
    });
  await expect(place("a", true)).rejects.toThrow("refused");
  const results = await Promise.all(["a", "b", "c", "d"].map((key) => place(key)));
  expect(results.map(({ kind }) => kind)).toEqual(Array(4).fill("executed"));
  expect(await place("a")).toMatchObject({ kind: "replay", value: "a" });
  expect(await rowsOf("placed")).toBe(4);
  await expectNoLeak(pool);
  await pool.end();
});

describe.each(["startWorker", "work"] as const)("%s", (how) => {
  test("delivers effects, their onDelivered included, with the one connection", async () => {
    const pool = openPool(url, { max: 1 });
    const { latchkey, store } = serviceOn(pool);
    const receipt = latchkey.effect("receipt", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      execute: async ({ to }: { to: string }) => ({ to }),
      onDelivered: async ({ input }, tx) => {
        await tx.query("insert into business values ($1)", [input.to]);
      },
    });
    const order = latchkey.operation("order", { writes: "none" });
    for (const key of ["1", "2", "3"]) {
      const request = { tenant: "t", key: `${how} ${key}`, input: null };
      await latchkey.run(order, request, async ({ attempt }) => {
        attempt.enqueue(receipt, { to: how });
      });
    }
    if (how === "work") {
      expect(await latchkey.work()).toMatchObject({ ended: "nothing_due", inTime: true });
    } else {
      const worker = latchkey.startWorker();
      await until(async () => (await rowsOf(how)) === 3);
      expect(await worker.stop()).toBe(true);
    }
    expect(await rowsOf(how)).toBe(3);
    await store.close();
    await expectNoLeak(pool);
    await pool.end();
  });
});
