/** Work that outlasts its lease, work that kills whoever does it, and a cleaner that is at it all the time. */
import { beforeAll, describe, expect, test } from "vitest";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { answered, type ChargingLab, openChargingLab, type Shop } from "./charging.ts";
import { nameOf, type Order } from "./charging-work.ts";

let lab: ChargingLab;

beforeAll(async () => {
  lab = await openChargingLab();
});

describe("a phase longer than its lease", () => {
  let shop: Shop;
  beforeAll(async () => {
    shop = await lab.shop("phases");
  });

  /** Where it stands inside the first phase's transaction, and inside the last one's. */
  const places = [
    ["first", 3],
    ["last", 8],
  ] as const;
  const cases = (["read committed", "repeatable read"] as const)
    .flatMap((isolation) => places.map(([place, number]) => [place, isolation, number] as const))
    .filter(([place, isolation]) => isThorough || (place === "last") === (isolation === "repeatable read"));
  test.concurrent.each(cases)("%s, at %s: keeps it, and completes", async (place, isolation, number) => {
    const leaseMs = 1_500;
    const [owner, other] = await Promise.all([
      shop.open({ leaseMs, isolation }),
      shop.open({ leaseMs, isolation }),
    ]);
    const operation = nameOf({ kind: "provider", leaseEnd: "resume", finishes: true });
    const order = { order: `${isolation}-${place}` };
    const running = owner.submit(operation, order, { stop: { number, when: "after" } });
    expect(await running.stopped()).toBe("openPhase");
    const begun = await shop.read(operation, order.order);
    if (begun?.state !== "in_progress") throw new TypeError("it must be running");
    await until(
      async () => {
        expect((await other.submit(operation, order).ended).reply).toEqual({
          kind: "other",
          what: "in_progress",
        });
        expect(await other.work("rescuer")).toMatchObject({ report: { rescued: 0, resumed: 0 } });
        const { rows } = await shop.pool.query("select extract(epoch from clock_timestamp()) * 1000 as now");
        return Number(rows[0].now) > begun.leaseEndsAt + 2 * leaseMs;
      },
      { what: "the lease has been over twice", timeoutMs: 20_000, intervalMs: 50 },
    );
    running.release();
    const { reply: ended } = await running.ended;
    const story = JSON.stringify(owner.worker.lines.slice(-12));
    expect(ended, story).toMatchObject({ kind: "executed", status: 201 });
    const { reply: again } = await other.submit(operation, order).ended;
    expect(answered(again)).toEqual(answered(ended));
    expect(await shop.read(operation, order.order)).toMatchObject({ state: "completed", fence: begun.fence });
    expect(await shop.rows(order.order)).toEqual({ orders: 1, settled: 1 });
    expect(lab.charges(order.order)).toHaveLength(1);
  });
});

describe("a job that kills its own process, each time", () => {
  const attemptsMax = 3;
  const triesMax = 3;
  const settings = { leaseMs: 1_000, attemptsMax, triesMax };

  /** Workers try until none of them dies of it, and it waits for a person. Answers how many have died. */
  async function deathsOfWorkers(shop: Shop, operation: string, { order }: Order): Promise<number> {
    let worker = await shop.open(settings);
    let deaths = 0;
    const round = async () => {
      for (const service of ["rescuer", "reconciler"] as const) {
        const report = await worker.work(service).catch(() => null);
        if (report !== null) continue;
        expect(await worker.worker.exited).toMatchObject({ signal: "SIGKILL" });
        deaths += 1;
        worker = await shop.open(settings);
        return false;
      }
      const record = await shop.read(operation, order);
      return record?.state === "unknown" && record.reconcileAfter === null;
    };
    await until(round, { what: "it waits for a person", timeoutMs: 40_000, intervalMs: 50 });
    for (let again = 0; again < 5; again++) expect(await round()).toBe(true);
    return deaths;
  }

  const cases = (["phase", "call"] as const)
    .flatMap((deadly) => (["resume", "reconcile"] as const).map((leaseEnd) => [deadly, leaseEnd] as const))
    .filter(([deadly, leaseEnd]) => isThorough || (deadly === "phase") === (leaseEnd === "resume"));
  test.concurrent.each(cases)(
    "in a %s, lease end %s: unknown in the end, and no loop",

    async (deadly, leaseEnd) => {
      const operation = nameOf({ kind: "provider", leaseEnd, finishes: true });
      const order: Order = { order: `deadly-${deadly}-${leaseEnd}`, deadly };
      const shop = await lab.shop(`deadly_${deadly}_${leaseEnd}`);
      const first = await shop.open(settings);
      first.submit(operation, order);
      expect(await first.worker.exited).toMatchObject({ signal: "SIGKILL" });
      const deaths = 1 + (await deathsOfWorkers(shop, operation, order));
      expect(deaths, "as often as it may").toBeLessThanOrEqual(attemptsMax);
      // On a busy machine an attempt may lose its lease before it dies of its work.
      expect(deaths).toBeGreaterThan(1);
      const record = await shop.read(operation, order.order);
      expect(record).toMatchObject({
        state: "unknown",
        reconcileAfter: null,
        fence: { attempt: attemptsMax },
      });
      expect((await shop.list("unknown")).map(({ key }) => key)).toContain(order.order);
      const client = await shop.open(settings);
      for (let again = 0; again < 3; again++) {
        expect((await client.submit(operation, order).ended).reply).toEqual({
          kind: "unknown",
          retryAfterMs: null,
        });
      }
      expect(lab.charges(order.order), "however often it was sent").toHaveLength(1);
      expect(await shop.rows(order.order)).toEqual({ orders: 1, settled: 0 });
    },
  );

  test("a client's own processes, too", async () => {
    const operation = nameOf({ kind: "provider", leaseEnd: "resume", finishes: true });
    const order: Order = { order: "deadly-clients", deadly: "phase" };
    const shop = await lab.shop("deadly_clients");
    let client = await shop.open(settings);
    let deaths = 0;
    const retry = async () => {
      const submitted = await client.submit(operation, order).ended.catch(() => null);
      if (submitted !== null) return submitted.reply.kind === "unknown" ? submitted.reply : undefined;
      expect(await client.worker.exited).toMatchObject({ signal: "SIGKILL" });
      deaths += 1;
      client = await shop.open(settings);
      return undefined;
    };
    const ended = await until(retry, { what: "it waits for a person", timeoutMs: 40_000, intervalMs: 50 });
    expect(ended).toEqual({ kind: "unknown", retryAfterMs: null });
    expect(deaths).toBeLessThanOrEqual(attemptsMax);
    expect(await shop.read(operation, order.order)).toMatchObject({ lastErrorCode: "attempts-spent" });
  });
});

test("the cleaner forgets what is finished, and never what is running, resumable or unknown", async () => {
  const shop = await lab.shop("cleaner");
  const soon = { retentionMs: 1, leaseMs: 1_000 };
  const [owner, victim, cleaner] = await Promise.all([
    shop.open(soon),
    shop.open(soon),
    shop.open({ retentionMs: 1 }),
  ]);
  const operation = nameOf({ kind: "none", leaseEnd: "resume", finishes: true });
  const at = { number: 6, when: "after" } as const;
  const running = owner.submit(operation, { order: "clean-running" }, { stop: at });
  const dead = victim.submit(operation, { order: "clean-dead" }, { stop: { number: 5, when: "before" } });
  const doubtful = victim.submit(operation, { order: "clean-unknown" }, { stop: at });
  await Promise.all([running, dead, doubtful].map((submission) => submission.stopped()));
  await victim.worker.kill("SIGKILL");
  await cleaner.start("cleaner");
  const forgotten = async (order: string) => (await shop.read(operation, order)) === null;
  /** Cleaned at least once from now on. */
  const cleaned = async (order: string) => {
    expect((await owner.submit(operation, { order }).ended).reply).toMatchObject({ status: 201 });
    await until(() => forgotten(order), { what: "a finished record is forgotten" });
  };
  await cleaned("clean-finished-1");
  const stateOf = async (order: string) => (await shop.read(operation, order))?.state ?? null;
  expect(await stateOf("clean-running")).toBe("in_progress");
  expect(await stateOf("clean-dead")).toBe("in_progress");
  for (const order of ["clean-unknown", "clean-dead"]) {
    await until(async () => (await cleaner.work("rescuer")) && (await stateOf(order)) === "unknown", {
      what: "its lease is over, and its expiry past",
    });
  }
  await cleaned("clean-finished-2");
  await cleaned("clean-finished-3");
  expect(await stateOf("clean-running"), "past its retention by far").toBe("in_progress");
  expect(await stateOf("clean-unknown")).toBe("unknown");
  expect(await stateOf("clean-dead")).toBe("unknown");
  running.release();
  expect((await running.ended).reply).toMatchObject({ kind: "executed", status: 201 });
  await until(() => forgotten("clean-running"), { what: "once finished it goes, too" });
  expect(await stateOf("clean-unknown")).toBe("unknown");
  expect(await stateOf("clean-dead")).toBe("unknown");
  expect(lab.charges("clean-unknown")).toHaveLength(1);
});
