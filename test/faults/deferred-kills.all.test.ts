/**
 * Deferred work whose worker is killed with SIGKILL at each step, frozen beyond its lease, or asked to stop; and an API that is
 * killed once it has accepted. Others go on: one effect, one row, and one answer, the same from the status resource and to a
 * repeated request. Each victim works for an operation of its own; the survivors know all of them.
 */
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { migratePostgres } from "../../packages/latchkey/src/stores/postgres.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { until } from "../support/until.ts";
import type { ServiceSettings } from "./deferred-process.ts";
import { noticeOf, type ReportPlan, type StopPoint } from "./deferred-work.ts";
import { openReceiver, type Receiver } from "./outbox-receiver.ts";

const script = new URL("./deferred-process.ts", import.meta.url);
/** Many processes start at once on a busy machine. */
const patienceMs = 60_000;
/** Of those who are killed or frozen. */
const shortLeaseMs = 1_500;

const finish = (operation: string): ReportPlan => ({ operation, answeredBy: "finish" });
const delivery = (operation: string): ReportPlan => ({ operation, answeredBy: "delivery" });
/** Where a worker dies; once for each of the two ways to answer. */
const deaths: readonly (ReportPlan & { readonly stopAt: StopPoint })[] = [
  ...(["begun", "in-placed", "before-send", "after-send", "in-settled"] as const).map((stopAt) => ({
    ...finish(`dies-${stopAt}`),
    stopAt,
  })),
  ...(["in-settled", "parked", "in-on-delivered"] as const).map((stopAt) => ({
    ...delivery(`waits-dies-${stopAt}`),
    stopAt,
  })),
];
const freezes = (["before-send", "in-settled"] as const).map((stopAt) => ({
  ...finish(`freezes-${stopAt}`),
  stopAt,
}));
const stops = [{ ...finish("stops"), stopAt: "before-send" as const }];
const plans: readonly ReportPlan[] = [
  ...deaths,
  ...freezes,
  ...stops,
  finish("answered"),
  finish("unanswered"),
].map(({ operation, answeredBy }) => ({ operation, answeredBy }));

interface Reply {
  readonly status: number;
  readonly location: string | null;
  readonly text: string;
}

let postgres: PrivatePostgres;
let receiver: Receiver;
let pool: pg.Pool;
/** It outlives everything. */
let api: WorkerProcess;

function open(role: ServiceSettings["role"], settings: Partial<ServiceSettings> = {}): WorkerProcess {
  const own = { role, databaseUrl: postgres.url, receiverUrl: receiver.url, plans, ...settings };
  return spawnWorker(script, { args: [JSON.stringify(own)] });
}

/** @param settings by default it goes on where others have stopped */
async function workerOf(plan: ReportPlan, settings: Partial<ServiceSettings> = {}): Promise<WorkerProcess> {
  const { operation, answeredBy } = plan;
  const worker = open("worker", { plans: [{ operation, answeredBy }], ...settings });
  await worker.ready(patienceMs);
  return worker;
}

async function ask(to: WorkerProcess, path: string, init: RequestInit = {}): Promise<Reply> {
  const { port } = await to.ready(patienceMs);
  const headers = { "x-tenant": "t", "content-type": "application/json", ...init.headers };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { ...init, headers });
  return { status: response.status, location: response.headers.get("location"), text: await response.text() };
}

const nameOf = ({ operation }: ReportPlan) => `report-${operation}`;

function submit(plan: ReportPlan, to = api): Promise<Reply> {
  const name = nameOf(plan);
  const headers = { "idempotency-key": name };
  return ask(to, `/${plan.operation}`, { method: "POST", headers, body: JSON.stringify({ name }) });
}

async function accepted(plan: ReportPlan): Promise<string> {
  const reply = await submit(plan);
  expect(reply.status).toBe(202);
  return String(reply.location);
}

async function stoppedAt(worker: WorkerProcess, stopAt: StopPoint): Promise<void> {
  await worker.line((line) => line.stopped === stopAt, patienceMs);
}

async function count(table: "placed" | "settled" | "noted", name: string): Promise<number> {
  const { rows } = await pool.query(`select 1 from ${table} where name = $1`, [name]);
  return rows.length;
}

/** What must hold whatever happened. */
async function expectDoneOnce(plan: ReportPlan, location: string): Promise<void> {
  const name = nameOf(plan);
  const what = `${name} is answered`;
  const isAnswered = async () => (await ask(api, location)).status !== 202;
  await until(isAnswered, { what, timeoutMs: 15_000, intervalMs: 50 });
  const answer = await ask(api, location);
  expect(answer).toMatchObject({ status: 201 });
  expect(JSON.parse(answer.text)).toEqual({
    recordId: location.split("/").at(-1),
    receipt: expect.stringMatching(/^r_/u),
  });
  expect((await submit(plan)).text, "the repeated request").toBe(answer.text);
  expect(await count("placed", name)).toBe(1);
  expect(await count("settled", name)).toBe(1);
  expect(receiver.effectsOf(name), "by the receiver's own ledger").toBe(1);
  expect(new Set(receiver.arrivalsOf(name).map(({ reference }) => reference)).size).toBe(1);
  const notice = noticeOf(name);
  await until(async () => (await count("noted", notice)) === 1, {
    what: `the notice of ${name}`,
    timeoutMs: 15_000,
  });
  expect(receiver.effectsOf(notice)).toBe(1);
}

beforeAll(async () => {
  [postgres, receiver] = await Promise.all([startPostgres(), openReceiver()]);
  pool = new pg.Pool({ connectionString: postgres.url, max: 4 });
  pool.on("error", () => {});
  await migratePostgres(pool);
  await pool.query(
    "create table placed (name text); create table settled (name text); create table noted (name text)",
  );
  api = open("api");
  await api.ready(patienceMs);
});

describe("a worker that is killed", () => {
  const locations = new Map<string, string>();

  beforeAll(async () => {
    const die = async (plan: (typeof deaths)[number]) => {
      const victim = await workerOf(plan, { stopAt: plan.stopAt, leaseMs: shortLeaseMs });
      locations.set(plan.operation, await accepted(plan));
      await stoppedAt(victim, plan.stopAt);
      expect(await victim.kill("SIGKILL")).toMatchObject({ signal: "SIGKILL" });
    };
    await Promise.all(deaths.map(die));
    // Deliveries are held for 26 seconds; outbox-fleet.all.test.ts waits for leases.
    await pool.query("update latchkey.outbox set locked_until = clock_timestamp() where state = 'claimed'");
    const survivor = open("worker", {
      plans: deaths.map(({ operation, answeredBy }) => ({ operation, answeredBy })),
    });
    await survivor.ready(patienceMs);
  });

  test.each(deaths)("$stopAt ($operation): another goes on", async (plan) => {
    await expectDoneOnce(plan, String(locations.get(plan.operation)));
  });
});

describe("a worker that is frozen beyond its lease", () => {
  test.each(freezes)("$stopAt: another goes on, and it changes nothing when it wakes up", async (plan) => {
    const frozen = await workerOf(plan, { stopAt: plan.stopAt, leaseMs: shortLeaseMs });
    const location = await accepted(plan);
    await stoppedAt(frozen, plan.stopAt);
    await frozen.freeze();
    await workerOf(plan);
    if (plan.stopAt === "in-settled") await endIdleTransactions();
    const isAnswered = async () => (await ask(api, location)).status === 201;
    await until(isAnswered, { what: "another has gone on", timeoutMs: 15_000, intervalMs: 50 });
    const answer = await ask(api, location);
    frozen.thaw();
    frozen.send("go on");
    // Where it stood in a phase, the phase's own end has notified it.
    await frozen.line(({ event }) => event === "lease_lost" || event === "attempt_failed");
    expect(await frozen.kill("SIGTERM")).toMatchObject({ code: 0 });
    await expectDoneOnce(plan, location);
    expect((await ask(api, location)).text).toBe(answer.text);
  });

  /** The frozen one's transaction has a lock on the record until the server ends it. */
  async function endIdleTransactions(): Promise<void> {
    await postgres.admin(
      "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction'",
    );
  }
});

test("a worker that is stopped ends what is under way, and begins nothing more", async () => {
  const [plan] = stops as [(typeof stops)[number]];
  const leaving = await workerOf(plan, { stopAt: plan.stopAt });
  const location = await accepted(plan);
  await stoppedAt(leaving, plan.stopAt);
  process.kill(leaving.pid, "SIGTERM");
  await leaving.line((line) => line.stopping === true);
  const other = await ask(api, `/${plan.operation}`, {
    method: "POST",
    headers: { "idempotency-key": "next" },
    body: JSON.stringify({ name: "next" }),
  });
  expect(other.status).toBe(202);
  leaving.send("go on");
  expect(await leaving.line((line) => line.inTime !== undefined)).toEqual({ inTime: true });
  expect(await leaving.exited).toEqual({ code: 0, signal: null });
  expect((await ask(api, location)).status, "it has ended what it had begun").toBe(201);
  expect((await ask(api, String(other.location))).status, "and nothing else").toBe(202);
  await workerOf(plan);
  await expectDoneOnce(plan, location);
  expect(receiver.arrivalsOf(nameOf(plan))).toHaveLength(1);
  const isDone = async () => (await ask(api, String(other.location))).status === 201;
  await until(isDone, { what: "the next worker does the other", timeoutMs: 15_000 });
});

describe("an API that is killed", () => {
  test("after its 202: the work is done", async () => {
    const plan = finish("answered");
    const victim = open("api");
    const reply = await submit(plan, victim);
    expect(reply.status).toBe(202);
    await victim.kill("SIGKILL");
    await workerOf(plan);
    await expectDoneOnce(plan, String(reply.location));
  });

  test("before its 202, and the request kept: the work is done, and the repeated request finds it", async () => {
    const plan = finish("unanswered");
    const victim = open("api", { stopAt: "accepted" });
    const reply = submit(plan, victim).catch(() => null);
    await stoppedAt(victim, "accepted");
    await victim.kill("SIGKILL");
    expect(await reply).toBeNull();
    await workerOf(plan);
    await until(async () => (await count("settled", nameOf(plan))) === 1, { what: "it is done unasked" });
    const again = await submit(plan);
    expect([201, 202]).toContain(again.status);
    const { rows } = await pool.query("select id::text from latchkey.records where key = $1", [nameOf(plan)]);
    await expectDoneOnce(plan, `/operations/${rows[0].id}`);
  });
});
