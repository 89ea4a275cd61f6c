/** Deferred work over real Postgres and over PGlite: a record that refuses to be claimed. */

import type { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Clock, systemPorts } from "../../packages/latchkey/src/ports.ts";
import { migratePglite, pgliteStore } from "../../packages/latchkey/src/stores/pglite.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { PendingWant, Store } from "../../packages/latchkey/src/stores/store.ts";
import { readyPglite } from "../support/ready-pglite.ts";
import { onRelease } from "../support/resources.ts";
import { newKey, newLife, terms } from "./arrange.ts";
import { migratedDatabase, openPool } from "./harness.ts";

const { random } = systemPorts;

/** The system's clock, which the test moves on. */
function movedClock() {
  let movedMs = 0;
  const monotonicMs = () => systemPorts.clock.monotonicMs() + movedMs;
  const clock: Clock = { ...systemPorts.clock, monotonicMs };
  return { clock, move: (ms: number) => (movedMs += ms) };
}

/** Of the operation's records those that are to be claimed, under fresh tokens. */
function want(operation: string, room: number): PendingWant {
  return { operation, tokens: Array.from({ length: room }, () => random.token()), terms };
}

/** The first has waited longest. */
async function accept({ store, sql }: World, operation: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    const accepted = await store.accept(newLife(newKey({ scope: operation })), null, 3_600_000);
    if (accepted === null) throw new Error("it is a new key");
    await sql(`update latchkey.records set created_at = created_at - ${count - index} * interval '1 second'
      where id = '${accepted.id}'`);
    ids.push(accepted.id);
  }
  return ids;
}

/** Raises for this record when it is claimed. */
const refusing = (id: string) => `
  create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
  drop trigger if exists refuse on latchkey.records;
  create trigger refuse before update on latchkey.records for each row
    when (new.id = '${id}' and new.state = 'in_progress') execute function refuse()`;
const willing = "drop trigger refuse on latchkey.records";

interface World {
  readonly store: Pick<Store, "accept" | "claimPending">;
  sql(text: string): Promise<unknown>;
  move(ms: number): void;
}

function cases(world: () => World) {
  const claim = async (...wants: readonly PendingWant[]) =>
    (await world().store.claimPending(wants)).map(({ id }) => id);

  test("does not stop the others, nor other operations, and takes no place of theirs", async () => {
    const { sql, move } = world();
    const [bad = "", ...good] = await accept(world(), "report", 5);
    const other = await accept(world(), "other", 1);
    await sql(refusing(bad));
    expect((await claim(want("report", 3), want("other", 3))).sort()).toEqual(
      [...good.slice(0, 2), ...other].sort(),
    );
    expect(await claim(want("report", 1)), "it is left alone for a while").toEqual([good[2]]);
    await sql(willing);
    move(59_000);
    expect(await claim(want("report", 9))).toEqual([good[3]]);
    move(1_100);
    expect(await claim(want("report", 9)), "it is tried again").toEqual([bad]);
  });

  test("alone: nothing is claimed, and nothing is thrown", async () => {
    const { sql } = world();
    const [bad = ""] = await accept(world(), "alone", 1);
    await sql(refusing(bad));
    expect(await claim(want("alone", 3))).toEqual([]);
    await sql(willing);
  });

  test("each that is claimed besides has a token of its own and its lease", async () => {
    const { store, sql } = world();
    const [bad = "", ...good] = await accept(world(), "fenced", 3);
    await sql(refusing(bad));
    const wanted = want("fenced", 3);
    const claimed = await store.claimPending([wanted]);
    expect(claimed.map(({ id }) => id)).toEqual(good);
    const tokens = claimed.map(({ fence }) => fence.token);
    expect(new Set(tokens).size).toBe(2);
    for (const token of tokens) expect(wanted.tokens).toContain(token);
    for (const record of claimed)
      expect(record).toMatchObject({ state: "in_progress", fence: { attempt: 1 } });
    await sql(willing);
  });
}

describe("a record that refuses to be claimed, on Postgres", () => {
  let world: World;
  let inUse: () => number;
  let dropHolds: () => Promise<void>;
  beforeAll(async () => {
    const pool = openPool(await migratedDatabase());
    const { clock, move } = movedClock();
    const store = postgresStore({ pool, ports: { clock }, notify: false });
    world = { store, sql: (text) => pool.query(text), move };
    inUse = () => pool.totalCount - pool.idleCount;
    dropHolds = () => store.close();
    onRelease(dropHolds);
  });
  cases(() => world);

  test("holds no heartbeat connection, and those that are claimed do", async () => {
    await dropHolds();
    const { store, sql } = world;
    const [bad = ""] = await accept(world, "held", 1);
    await sql(refusing(bad));
    expect(await store.claimPending([want("held", 3)])).toEqual([]);
    expect(inUse()).toBe(0);
    const [good] = await accept(world, "held", 1);
    const [other = ""] = await accept(world, "held", 1);
    await sql(refusing(other));
    const claimed = await store.claimPending([want("held", 3)]);
    expect(claimed.map(({ id }) => id)).toEqual([good]);
    expect(inUse()).toBe(1);
  });

  test("an error that no record causes is reported", async () => {
    await world.sql("alter table latchkey.records rename to gone");
    await expect(world.store.claimPending([want("report", 1)])).rejects.toThrow();
    await world.sql("alter table latchkey.gone rename to records");
  });
});

describe("a record that refuses to be claimed, on PGlite", () => {
  let world: World;
  let database: PGlite;
  beforeAll(async () => {
    database = await readyPglite();
    await migratePglite(database);
    const { clock, move } = movedClock();
    world = { store: pgliteStore({ database, ports: { clock } }), sql: (text) => database.exec(text), move };
  });
  afterAll(() => database?.close());
  cases(() => world);
});
