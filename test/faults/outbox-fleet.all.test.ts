/**
 * A few dispatchers that are killed in turn, and a Postgres that is killed, while effects are enqueued and delivered; a
 * transaction is held open meanwhile, so that no dead row can go. Whatever happens, every effect ends, once.
 *
 * By default 600 effects, 3 dispatchers, 4 kills in the middle of sends, one restart. LATCHKEY_PROVE=1: 20,000 effects, 4
 * dispatchers, a kill each second as long as there is one to kill, two restarts, and a transaction that is open for three
 * minutes.
 */
import pg from "pg";
import { expect, test } from "vitest";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { WorkerProcess } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { isProof } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { type Order, type OutboxLab, openOutboxLab, patienceMs, type Row } from "./outbox-lab.ts";
import { openReceiver, type Receiver } from "./outbox-receiver.ts";
import type { EffectPlan } from "./outbox-work.ts";

const volume = isProof
  ? { transactions: 1_000, dispatchers: 4, kills: 60, restarts: 2, heldMs: 180_000 }
  : { transactions: 30, dispatchers: 3, kills: 4, restarts: 1, heldMs: 0 };
/** By kind, for one transaction: 20. */
const plans: readonly (EffectPlan & { readonly each: number })[] = [
  { effect: "provider", kind: "provider", noted: true, each: 8 },
  { effect: "ordered", kind: "provider", ordered: true, noted: true, each: 6 },
  { effect: "reopen", kind: "reopen", noted: true, each: 3 },
  { effect: "none", kind: "none", each: 3 },
];
const perTransaction = plans.reduce((sum, { each }) => sum + each, 0);
const total = volume.transactions * perTransaction;
const aggregates = 12;
/** How many effects may be on their way: more are enqueued when these have arrived. */
const aheadMax = isProof ? 5_000 : 200;
const batchSize = 25;
const endMs = isProof ? 240_000 : 60_000;

/** Its `ordered` ones: the number says the order within their aggregate. */
function ordersOf(transaction: number): readonly Order[] {
  return plans.flatMap(({ effect, ordered, each }) =>
    Array.from({ length: each }, (_, index) => {
      const number = transaction * each + index;
      const name = `${effect} ${number}`;
      return ordered === true ? { effect, name, aggregate: aggregateOf(name) } : { effect, name };
    }),
  );
}

function aggregateOf(name: string): string {
  return `a${Number(name.split(" ")[1]) % aggregates}`;
}

class Fleet {
  readonly #lab: OutboxLab;
  readonly #dispatchers: WorkerProcess[] = [];
  killed = 0;
  /** Sends whose dispatcher died before it could hear what they gave. */
  withoutHint = 0;

  constructor(lab: OutboxLab) {
    this.#lab = lab;
  }

  add(): WorkerProcess {
    const dispatcher = this.#lab.dispatch({ batchSize });
    this.#dispatchers.push(dispatcher);
    return dispatcher;
  }

  /** SIGKILL for one that waits for the receiver; another takes its place. */
  async killSender(): Promise<void> {
    const { receiver } = this.#lab;
    receiver.withhold();
    await this.#kill(({ pid }) => receiver.withheld().some((sent) => sent.pid === pid));
    receiver.answer();
  }

  /** SIGKILL for the one that has worked longest, whatever it does. */
  async killOldest(): Promise<void> {
    await this.#kill(({ lines }) => lines.some(({ ready }) => ready === true));
  }

  async #kill(which: (dispatcher: WorkerProcess) => boolean): Promise<void> {
    const what = "there is a dispatcher to kill";
    const found = await until(() => this.#dispatchers.find(which), { what, timeoutMs: patienceMs }).catch(
      async (error: unknown) => {
        throw new Error(await this.#state(), { cause: error });
      },
    );
    const victim = found as WorkerProcess;
    await victim.kill("SIGKILL");
    this.killed += 1;
    this.withoutHint += this.#lab.receiver.withheld().filter(({ pid }) => pid === victim.pid).length;
    this.#dispatchers.splice(this.#dispatchers.indexOf(victim), 1);
    this.add();
  }

  /** For somebody who has to find out why nothing goes on. */
  async #state(): Promise<string> {
    const rows = await this.#lab.postgres.admin(
      `select aggregatetype, state, count(*)::int, count(*) filter (where locked_until < clock_timestamp())::int as ended
        from latchkey.outbox group by 1, 2 order by 1, 2`,
    );
    const busy = await this.#lab.postgres.admin(
      "select left(query, 60) as query, (clock_timestamp() - query_start)::text as for from pg_stat_activity where state = 'active'",
    );
    const lines = this.#dispatchers.map(({ pid, lines: all, stderr }) => ({
      pid,
      lines: all.slice(-3),
      stderr,
    }));
    return `nothing goes on: ${JSON.stringify({ killed: this.killed, rows, busy, lines })}`;
  }

  async stop(): Promise<void> {
    for (const dispatcher of this.#dispatchers) {
      await dispatcher.ready(patienceMs);
      expect(await dispatcher.kill("SIGTERM")).toMatchObject({ code: 0 });
    }
  }
}

/** Enqueues while what is under way is not too much, and not faster than `pace` wants. */
async function enqueueAll(lab: OutboxLab, pace: () => number): Promise<void> {
  const { receiver, counter } = lab;
  for (let transaction = 0; transaction < volume.transactions; transaction++) {
    const enqueued = transaction * perTransaction;
    const isRoom = () =>
      enqueued - new Set(receiver.arrivals.map(({ name }) => name)).size < aheadMax &&
      transaction < volume.transactions * pace();
    const what = `room for transaction ${transaction}`;
    await until(isRoom, { what, timeoutMs: endMs, intervalMs: 25 });
    await counter.enqueue(`order-${transaction}`, ordersOf(transaction));
  }
}

/** Holds what a vacuum could remove, from now on, and says how many dead rows there are. */
async function holdDeadRows(lab: OutboxLab) {
  const client = new pg.Client(lab.postgres.connection);
  client.on("error", () => {});
  await client.connect();
  onRelease(() => client.end());
  const heldAt = performance.now();
  const claims = async () => {
    const [row] = await lab.postgres.admin<{ claims: number; delivered: number }>(
      `select sum(attempt)::int as claims, count(*) filter (where state = 'delivered')::int as delivered
        from latchkey.outbox`,
    );
    return row as { claims: number; delivered: number };
  };
  const dead = async () => {
    await lab.postgres.admin("analyze latchkey.outbox");
    const [row] = await lab.postgres.admin<{ dead: number }>(
      "select n_dead_tup::int as dead from pg_stat_user_tables where schemaname = 'latchkey' and relname = 'outbox'",
    );
    return Number(row?.dead);
  };
  await lab.postgres.admin("vacuum latchkey.outbox");
  await client.query("begin isolation level repeatable read");
  await client.query("select count(*) from latchkey.outbox");
  const first = { ...(await claims()), dead: await dead() };
  return {
    heldMs: () => performance.now() - heldAt,
    async since() {
      await client.query("select 1");
      const now = { ...(await claims()), dead: await dead() };
      return {
        dead: now.dead - first.dead,
        claims: now.claims - first.claims,
        delivered: now.delivered - first.delivered,
      };
    },
  };
}

/** Somebody decides on what is dead and holds up others. */
async function redriveOrdered(lab: OutboxLab): Promise<number> {
  const { outbox } = postgresStore({ pool: lab.counter.pool });
  const dead = await lab.counter.pool.query<{ id: string }>(
    "select id::text from latchkey.outbox where state = 'dead' and ordered",
  );
  const { clock, random } = systemPorts;
  for (const { id } of dead.rows) {
    const note = { id: random.uuid(clock.wallMs()), actor: "test", reason: null };
    await outbox?.decide(id, { event: "redrive", attempt: null, doubt: "kept" }, note);
  }
  return dead.rows.length;
}

async function untilAllOver(lab: OutboxLab): Promise<number> {
  let redriven = 0;
  const isOver = async () => {
    redriven += await redriveOrdered(lab);
    const { rows } = await lab.counter.pool.query<{ over: number }>(
      "select count(*)::int as over from latchkey.outbox where state in ('delivered', 'dead')",
    );
    return rows[0]?.over === total;
  };
  await until(isOver, { what: "every effect is delivered or dead", timeoutMs: endMs, intervalMs: 100 });
  return redriven;
}

async function expectAllOnce(rows: readonly Row[], lab: OutboxLab): Promise<void> {
  const { receiver } = lab;
  const names = Array.from({ length: volume.transactions }, (_, index) => ordersOf(index))
    .flat()
    .map(({ name }) => name);
  expect(rows.map(({ name }) => name).sort(), "each that was enqueued is there, once").toEqual(names.sort());
  const arrivals = Map.groupBy(receiver.arrivals, ({ name }) => name);
  for (const { name, effect, state, errorCode, key } of rows) {
    const received = arrivals.get(name) ?? [];
    const happened = receiver.effectsOf(name);
    const what = `${name}, ${state} ${errorCode}, has happened`;
    if (state === "delivered") expect(happened, what).toBe(1);
    else expect(happened, what).toBeLessThanOrEqual(1);
    if (effect === "none") expect(received.length, `${name} was sent`).toBeLessThanOrEqual(1);
    if (effect === "provider" || effect === "ordered") {
      expect(new Set(received.map(({ reference }) => reference)), `keys of ${name}`).toEqual(new Set([key]));
    }
  }
  const delivered = rows.filter(({ state, effect }) => state === "delivered" && effect !== "none");
  expect((await lab.noted()).toSorted(), "`onDelivered` has been committed once for each").toEqual(
    delivered.map(({ name }) => name).sort(),
  );
}

function expectOrder(receiver: Receiver): void {
  const first = [...new Set(receiver.arrivals.map(({ name }) => name))].filter((name) =>
    name.startsWith("ordered "),
  );
  const byAggregate = Map.groupBy(first, aggregateOf);
  expect(byAggregate.size).toBe(aggregates);
  for (const [aggregate, names] of byAggregate) {
    const numbers = names.map((name) => Number(name.split(" ")[1]));
    expect(numbers, `first arrivals of ${aggregate}`).toEqual(numbers.toSorted((a, b) => a - b));
  }
}

test(`${total} effects, at least ${volume.kills} kills and ${volume.restarts} restarts: all delivered or dead, once, in order`, async () => {
  const receiver = await openReceiver();
  const lab = await openOutboxLab(plans, receiver);
  const fleet = new Fleet(lab);
  for (let count = 0; count < volume.dispatchers; count++) fleet.add();

  let pace = () => 1;
  const enqueuing = enqueueAll(lab, () => pace());
  const enqueued = enqueuing.then(
    () => true,
    () => false,
  );
  const arrived = (count: number) =>
    until(() => receiver.arrivals.length >= count, { what: `${count} arrivals`, timeoutMs: endMs });

  for (let restart = 1; restart <= volume.restarts; restart++) {
    await arrived(40 * restart);
    await lab.postgres.kill9();
    await lab.postgres.start();
  }
  const held = await holdDeadRows(lab);
  let redriven = 0;
  if (isProof) pace = () => Math.min(1, held.heldMs() / volume.heldMs);
  if (isProof) {
    for (let second = 1; held.heldMs() < volume.heldMs; second++) {
      await until(() => held.heldMs() >= second * 1_000, { timeoutMs: endMs });
      await fleet.killOldest();
      redriven += await redriveOrdered(lab);
    }
  } else {
    for (let kill = 1; kill <= volume.kills; kill++) {
      await arrived(40 + kill * 40);
      await fleet.killSender();
    }
    expect(fleet.withoutHint, "sends whose answer did not arrive").toBeGreaterThanOrEqual(volume.kills);
  }
  expect(await enqueued).toBe(true);
  await enqueuing;
  redriven += await untilAllOver(lab);

  const since = await held.since();
  const { noted, rows } = { noted: (await lab.noted()).length, rows: await lab.rows() };
  await fleet.stop();
  await expectAllOnce(rows, lab);
  expectOrder(receiver);
  const { killed, withoutHint } = fleet;
  expect(killed).toBeGreaterThanOrEqual(volume.kills);
  const again = rows.filter(({ sends }) => sends > 1);
  expect(again.length, "some were sent again").toBeGreaterThan(0);
  expect(held.heldMs()).toBeGreaterThanOrEqual(volume.heldMs);
  // Each claim is at most three versions more: claimed, started, ended. A result that is kept apart is one.
  const bound = 3 * (since.claims + volume.dispatchers * batchSize) + noted;
  expect(since.dead, "dead rows that the open transaction holds back").toBeLessThanOrEqual(bound);
  expect(since.dead, "the transaction does hold them back").toBeGreaterThan(since.delivered);
  const dead = rows.filter(({ state }) => state === "dead").length;
  process.stdout.write(
    `${JSON.stringify({ total, delivered: total - dead, dead, redriven, killed, unheard: withoutHint, sentAgain: again.length, heldMs: Math.round(held.heldMs()), since, bound })}\n`,
  );
});
