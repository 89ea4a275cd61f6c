/** Rows that a dispatcher must not miss, and rows that must not hold up the others. */
import { beforeAll, describe, expect, test } from "vitest";
import { isCommit } from "../support/postgres-messages.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import {
  type Counter,
  type Order,
  type OutboxLab,
  openOutboxLab,
  patienceMs,
  type Row,
} from "./outbox-lab.ts";
import { openReceiver, type Receiver } from "./outbox-receiver.ts";
import type { EffectPlan } from "./outbox-work.ts";

const plans: readonly EffectPlan[] = [
  { effect: "send", kind: "provider" },
  { effect: "once", kind: "none" },
];
const large = "a result that is refused";

/** By name, what is wrong with each of them. */
const bad = {
  unreadable: { effect: "send", name: "unreadable" },
  unclaimable: { effect: "send", name: "unclaimable" },
  unstartable: { effect: "once", name: "unstartable" },
  refusedOnce: { effect: "once", name: `${large} of none` },
  refused: { effect: "send", name: `${large} of provider` },
};
const others = named("beside", 100);

let lab: OutboxLab;
let receiver: Receiver;

function named(prefix: string, count: number): readonly Order[] {
  return Array.from({ length: count }, (_, index) => ({ effect: "send", name: `${prefix} ${index}` }));
}

beforeAll(async () => {
  receiver = await openReceiver((name) => (name.startsWith(large) ? "x".repeat(3_000) : undefined));
  lab = await openOutboxLab(plans, receiver);
  // The bad ones are in the midst of the others, and due before most of them.
  await lab.counter.enqueue("some", [...others.slice(0, 10), ...Object.values(bad)]);
  await lab.counter.enqueue("most", others.slice(10));
  await spoil();
  await lab.dispatch({ intervalMs: 100 }).ready(patienceMs);
});

async function spoil(): Promise<void> {
  const { pool } = lab.counter;
  const idOf = async ({ name }: Order) => {
    const { rows } = await pool.query<{ id: string }>(
      "select id::text from latchkey.outbox where convert_from(payload, 'UTF8')::json ->> 'name' = $1",
      [name],
    );
    return rows[0]?.id;
  };
  const never = async (order: Order, what: string) =>
    pool.query(
      `alter table latchkey.outbox add constraint "${order.name}" check (id <> '${await idOf(order)}' or not (${what}))`,
    );
  await never(bad.unclaimable, "state = 'claimed'");
  await never(bad.unstartable, "started_at is not null");
  await pool.query("alter table latchkey.outbox add constraint small check (octet_length(result) < 1000)");
  await pool.query("update latchkey.outbox set payload = convert_to($1, 'UTF8') where id = $2", [
    '"unreadable',
    await idOf(bad.unreadable),
  ]);
}

async function rowOf({ name }: Order): Promise<Row | undefined> {
  return (await lab.rows()).find((row) => row.name === name);
}

async function untilState(state: Row["state"], orders: readonly Order[]): Promise<void> {
  const reached = async () => {
    const rows = await lab.rows();
    return orders.every(({ name }) => rows.some((row) => row.name === name && row.state === state));
  };
  const what = `${orders.map(({ name }) => name)} are ${state}`;
  await until(reached, { what, timeoutMs: 15_000, intervalMs: 50 });
}

describe("a transaction that commits late", () => {
  let proxy: TcpProxy;
  let far: Counter;
  beforeAll(async () => {
    proxy = await startProxy({ to: { port: lab.postgres.port } });
    far = lab.open(proxy.url(lab.postgres.url));
  });

  test("is delivered, although later rows were delivered long before it", async () => {
    const hold = proxy.holdWhen(isCommit);
    const late = far.enqueue("late", [{ effect: "send", name: "late" }]);
    await hold.held();
    // Its row is written, and has its place; nobody sees it.
    const waits = "select 1 from pg_stat_activity where state = 'active' and wait_event = 'ClientRead'";
    await until(async () => (await lab.postgres.admin(waits)).length === 1, {
      what: "it is about to commit",
    });
    const later = named("later", 60);
    for (const [index, order] of later.entries()) await lab.counter.enqueue(`later-${index}`, [order]);
    await untilState("delivered", later);
    expect(receiver.arrivalsOf("late")).toHaveLength(0);
    hold.release();
    await late;
    await untilState("delivered", [{ effect: "send", name: "late" }]);
    const { position } = (await rowOf({ effect: "send", name: "late" })) as Row;
    for (const order of later) expect((await rowOf(order))?.position).toBeGreaterThan(position);
    expect(receiver.arrivalsOf("late")).toHaveLength(1);
  });
});

describe("among rows that cannot be claimed, read, started or ended", () => {
  test("all the others are delivered, once", async () => {
    await untilState("delivered", others);
    for (const { name } of others) expect(receiver.effectsOf(name)).toBe(1);
  });

  test("one whose input cannot be read is dead", async () => {
    await untilState("dead", [bad.unreadable]);
    expect(await rowOf(bad.unreadable)).toMatchObject({ errorCode: "input-not-readable" });
    expect(receiver.arrivalsOf(bad.unreadable.name)).toHaveLength(0);
  });

  test("one that cannot be claimed, or cannot be started, waits, and is not sent", async () => {
    for (const order of [bad.unclaimable, bad.unstartable]) {
      expect(["pending", "claimed"]).toContain((await rowOf(order))?.state);
      expect(receiver.arrivalsOf(order.name)).toHaveLength(0);
    }
  });

  test("one whose result is refused comes back with its lease, and ends as its kind allows", async () => {
    const { pool } = lab.counter;
    const both = [bad.refused, bad.refusedOnce];
    const areDead = async () => {
      // Nobody has it any more: its claim was not ended, and would be free when its lease ends.
      await pool.query(
        "update latchkey.outbox set locked_until = clock_timestamp() where state = 'claimed' and started_at < clock_timestamp() - interval '1 second'",
      );
      const rows = await Promise.all(both.map(rowOf));
      return rows.every((row) => row?.state === "dead");
    };
    await until(areDead, { what: "both are dead", timeoutMs: 15_000, intervalMs: 100 });
    expect(await rowOf(bad.refusedOnce)).toMatchObject({ errorCode: "call-in-doubt", sends: 1 });
    expect(receiver.arrivalsOf(bad.refusedOnce.name)).toHaveLength(1);
    expect(await rowOf(bad.refused)).toMatchObject({ errorCode: "kills-its-process" });
    const keys = receiver.arrivalsOf(bad.refused.name).map(({ reference }) => reference);
    expect(new Set(keys).size).toBe(1);
    expect(receiver.effectsOf(bad.refused.name)).toBe(1);
  });
});
