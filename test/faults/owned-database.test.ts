/**
 * Postgres is killed with -9 before, in the middle of and after the COMMIT of a phase and the end of a call, and started
 * again; the process that was at it lives. And the other way round: the process dies, and its COMMIT arrives later.
 * npm run test:all: around COMMITs, too, Postgres is back in time as well as too late.
 */

import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { holdCommits, letCommitsGo } from "../support/held-commits.ts";
import { patient } from "../support/patience.ts";
import { isCommit } from "../support/postgres-messages.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { isThorough, sample } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import {
  answered,
  type ChargingLab,
  type ChargingProcess,
  insist,
  openChargingLab,
  type Shop,
  type Submission,
} from "./charging.ts";
import type { RunEnd } from "./charging-process.ts";
import { kinds, nameOf } from "./charging-work.ts";

type Kind = (typeof kinds)[number];
const moments = ["before", "in the middle of", "after"] as const;
type Moment = (typeof moments)[number];
/** Whether Postgres is back for those who wait for it in time to keep their leases, or when others have gone on. */
const backs = ["in time", "too late"] as const;
type Back = (typeof backs)[number];
/** 1,500 ms was too short for an owner to send its writes on a machine with six other busy processes. */
const leaseMsOf = { "in time": patient(5_000), "too late": patient(3_000) } as const;
/** Of phase, call, phase: read, create, openPhase, commitPhase, startCall, send, endCall, openPhase, commitPhase. */
const ports = [
  ["the first phase's COMMIT", 4],
  ["the intent of the call", 5],
  ["the end of the call", 7],
  ["the last phase's COMMIT", 9],
] as const;

let lab: ChargingLab;
let shop: Shop;
let proxy: TcpProxy;
/** Behind the proxy; they live through everything. */
const owners = new Map<Back, ChargingProcess>();
let worker: ChargingProcess;
let client: ChargingProcess;
let between = 0;

beforeAll(async () => {
  lab = await openChargingLab();
  shop = await lab.shop("dying");
  proxy = await startProxy({ to: { port: lab.postgres.port } });
  const survivor = { leaseMs: 30_000 };
  const opened = backs.map(async (back) => {
    owners.set(back, await shop.open({ leaseMs: leaseMsOf[back], through: proxy.url(shop.url) }));
  });
  [worker, client] = await Promise.all([shop.open(survivor), shop.open(survivor), ...opened]);
});

// After a case that failed, too.
beforeEach(() => proxy.pass());

interface Case {
  readonly kind: Kind;
  readonly operation: string;
  readonly order: string;
}

function casesOf(name: string): readonly Case[] {
  return kinds.map((kind) => ({
    kind,
    operation: nameOf({ kind, leaseEnd: kind === "close" ? "reconcile" : "resume", finishes: true }),
    order: `${kind} ${name}`,
  }));
}

async function isWritten(number: number, { operation, order }: Case): Promise<boolean> {
  const names = { 4: "order_recorded", 5: "charged", 7: "charged", 9: "settled" } as Readonly<
    Record<number, string>
  >;
  const { rows } = await shop.pool.query(
    "select 1 from latchkey.steps where scope = $1 and key = $2 and name = $3 and state = $4",
    [operation, order, names[number], number === 5 ? "started" : "finished"],
  );
  return rows.length > 0;
}

const isCommitting = (backend: string) => `(${backend}.query ~* '^ *commit' or ${backend}.query ~ 'steps')`;
const committing = `select 1 from pg_stat_activity a where a.wait_event = 'SyncRep' and ${isCommitting("a")}`;
/**
 * A heartbeat may be due at any moment: it waits for the standby, too, and keeps the row that a commit wants. A commit
 * that keeps the row which a heartbeat wants is left alone: cancelled, it would have ended before Postgres is killed.
 */
const letHeartbeatsPass = `select pg_cancel_backend(b.pid) from pg_stat_activity a
  join pg_stat_activity b on b.pid = any(pg_blocking_pids(a.pid))
  where b.wait_event = 'SyncRep' and not ${isCommitting("b")}`;

/** Brings all of them to the port call, and kills Postgres at that moment of it. */
async function killAt(
  owner: ChargingProcess,
  moment: Moment,
  number: number,
  cases: readonly Case[],
): Promise<Submission[]> {
  const stop = { number, when: "before" } as const;
  const submissions = cases.map(({ operation, order }) => owner.submit(operation, { order }, { stop }));
  for (const submission of submissions) await submission.stopped();
  const release = () => {
    for (const submission of submissions) submission.release();
  };
  switch (moment) {
    case "before":
      await lab.postgres.kill9();
      release();
      break;
    case "in the middle of":
      // A commit that waits for a standby has been written, and no caller has a reply.
      await holdCommits(lab.postgres);
      release();
      await until(
        async () => {
          await lab.postgres.admin(letHeartbeatsPass);
          const rows = await lab.postgres.admin(committing);
          return rows.length >= cases.length;
        },
        { what: "all of them commit" },
      );
      await lab.postgres.kill9();
      break;
    case "after":
      proxy.stall("down");
      release();
      await until(
        async () => (await Promise.all(cases.map((one) => isWritten(number, one)))).every(Boolean),
        {
          what: "all of them have committed",
        },
      );
      await lab.postgres.kill9();
      proxy.reset();
      await proxy.pass();
      break;
    default:
      moment satisfies never;
  }
  return submissions;
}

async function restart(): Promise<void> {
  await lab.postgres.start();
  await letCommitsGo(lab.postgres);
}

/** Everybody works again, without a restart of his own. */
async function works(): Promise<void> {
  const order = `between ${++between}`;
  const operation = nameOf({ kind: "provider", leaseEnd: "resume", finishes: true });
  for (const process of [...owners.values(), worker, client]) {
    expect(await insist(process, operation, { order })).toMatchObject({ status: 201 });
  }
}

/** Null: workers have not done what they can. */
async function atRest({ operation, order }: Case, reply: RunEnd | null): Promise<string | null> {
  for (const service of ["rescuer", "reconciler", "cleaner"] as const) await worker.work(service);
  const record = await shop.read(operation, order);
  if (record?.state === "completed" || record?.state === "failed") return record.state;
  if (record?.state === "unknown") return record.reconcileAfter === null ? "unknown" : null;
  // Its caller got an error, and comes again.
  return reply?.kind === "threw" && record?.state !== "in_progress" ? (record?.state ?? "none") : null;
}

/**
 * An owner that keeps its lease knows what its call gave, and so does the journal where that was written. Where others
 * went on before the owner could say so, an intent that was written looks like a call in doubt to them, sent or not.
 */
function restsAs({ kind }: Case, number: number, moment: Moment, back: Back): string {
  if (back === "in time") return "completed";
  if (number === 5 && moment !== "before") return restsUnsent(kind);
  return number === 7 && moment === "before" && kind === "none" ? "unknown" : "completed";
}

/** What an intent comes to that others take for a call in doubt, and that was never sent. */
function restsUnsent(kind: Kind): string {
  if (kind === "provider" || kind === "reopen") return "completed";
  return kind === "close" ? "failed" : "unknown";
}

async function comeToRest(one: Case, submission: Submission, expected: string): Promise<string> {
  const { reply } = await submission.ended;
  const ends = async () => {
    const rest = await atRest(one, reply);
    // An owner that lives may still settle its own.
    return rest === "unknown" && expected !== "unknown" ? null : rest;
  };
  const what = `${one.operation} of ${one.order} comes to rest`;
  return (await until(ends, { what, timeoutMs: 25_000, intervalMs: 50 })) ?? "";
}

interface Ending {
  readonly rest: string;
  readonly expected: string;
  readonly wasSent: boolean;
}

async function check(
  one: Case,
  submission: Submission,
  { rest, expected, wasSent }: Ending,
): Promise<string> {
  const { kind, operation, order } = one;
  const { reply } = await submission.ended;
  const first = await insist(client, operation, { order });
  const again = await insist(worker, operation, { order });
  expect((await shop.read(operation, order))?.state).toBe(expected);
  expect(answered(again)).toEqual(answered(first));
  if (answered(reply) !== null) expect(answered(reply), "what its own caller got").toEqual(answered(first));
  const settled = expected === "completed" ? 1 : 0;
  // What was sent stays charged, also where nobody else can know.
  const charged = wasSent || settled === 1 ? 1 : 0;
  expect(lab.charges(order), "by the provider's own ledger").toHaveLength(charged);
  expect(await shop.rows(order)).toEqual({ orders: 1, settled });
  return `${kind} ${reply.kind} ${rest} ${expected}`;
}

describe.each(ports)("a Postgres that is killed around %s", (port, number) => {
  const isShort = port.endsWith("COMMIT") && !isThorough;
  const cases = moments.flatMap((moment) =>
    backs.filter((back) => back === "in time" || !isShort).map((back) => [moment, back] as const),
  );
  test.each(sample(cases, 1 + (number % 2)))(
    "%s it, and back %s: one charge, one row, one answer",

    async (moment, back) => {
      const owner = owners.get(back);
      if (owner === undefined) throw new TypeError(back);
      await works();
      const those = casesOf(`${moment} ${port}, back ${back}`);
      const submissions = await killAt(owner, moment, number, those);
      const killedAt = performance.now();
      const isOver = () => performance.now() > killedAt + leaseMsOf[back];
      if (back === "too late") {
        // Back for others first, however long it takes to start: who is first decides what can be known.
        await proxy.cut();
        await until(isOver, { what: "no lease holds any more" });
      }
      await restart();
      const all = those.map((one, index) => {
        const expected = restsAs(one, number, moment, back);
        return { one, submission: submissions[index] as Submission, expected };
      });
      const rests = await Promise.all(
        all.map(({ one, submission, expected }) => comeToRest(one, submission, expected)),
      );
      await proxy.pass();
      const ends = await Promise.all(
        all.map(({ one, submission, expected }, index) =>
          check(one, submission, { rest: rests[index] ?? "", expected, wasSent: number === 7 }),
        ),
      );
      process.stdout.write(`${moment} ${port}, back ${back}: ${ends.join(", ")}\n`);
    },
  );
});

describe("a process that is killed while its COMMIT is on its way", () => {
  const outcomes = ["release", "drop"] as const;
  const cases = ports
    .filter(([port]) => port.endsWith("COMMIT"))
    .flatMap(([port, number]) => outcomes.map((outcome) => [port, outcome, number] as const));
  test.each(sample(cases, 2))(
    "%s, and the network's hold ends in a %s",

    async (port, outcome, number) => {
      const own = await startProxy({ to: { port: lab.postgres.port } });
      const victim = await shop.open({ leaseMs: patient(1_500), through: own.url(shop.url) });
      const operation = nameOf({ kind: "provider", leaseEnd: "resume", finishes: true });
      const order = `${port} ${outcome}`;
      const submission = victim.submit(operation, { order }, { stop: { number, when: "before" } });
      expect(await submission.stopped()).toBe("commitPhase");
      const hold = own.holdWhen(isCommit);
      submission.release();
      await hold.held();
      await victim.worker.kill("SIGKILL");
      const record = await shop.read(operation, order);
      if (record?.state !== "in_progress") throw new TypeError("it must be running");
      await until(async () => {
        const { rows } = await shop.pool.query("select extract(epoch from clock_timestamp()) * 1000 as now");
        return Number(rows[0].now) > record.leaseEndsAt;
      });
      // The phase's transaction is still open: nobody can tell yet, and nobody waits to try.
      expect(await worker.work("rescuer")).toMatchObject({ report: { rescued: 0 } });
      if (outcome === "release") hold.release();
      else hold.drop();
      const one = { kind: "provider", operation, order } as const;
      expect(await until(() => atRest(one, null), { what: "it comes to rest", timeoutMs: 40_000 })).toBe(
        "completed",
      );
      const answers = await Promise.all(
        [client, worker].map((process) => insist(process, operation, { order })),
      );
      expect(answers[0]).toMatchObject({ status: 201 });
      expect(answers[1]).toEqual(answers[0]);
      expect(lab.charges(order)).toHaveLength(1);
      expect(await shop.rows(order)).toEqual({ orders: 1, settled: 1 });
    },
  );
});
