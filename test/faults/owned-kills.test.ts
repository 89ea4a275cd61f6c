/**
 * SIGKILL at every port call of phase, call, phase, before the call and after it, for each kind of de-duplication; then a
 * client comes again, or workers go on by themselves. One process is killed while each of its submissions stands at another
 * of these points. npm run test:all: each operation in every manner, and followed by both.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { isThorough, sample } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import {
  answered,
  type ChargingLab,
  type ChargingProcess,
  insist,
  openChargingLab,
  type Shop,
} from "./charging.ts";
import type { RunEnd } from "./charging-process.ts";
import { type Manner, manners, nameOf } from "./charging-work.ts";
import type { StopAt } from "./stops.ts";

type Continuation = "client" | "worker";
/** Long enough that a process with many submissions keeps it until it is killed. */
const leaseMs = 3_000;
/** More would keep a starved process busy for longer than its leases. */
const submittedAtOnce = 6;
/** Whoever goes on is not to lose a lease of its own, however busy the machine. */
const survivor = { leaseMs: 30_000 };
/** How many clients come again at the same time. */
const clientsAtOnce = 16;
const continuations: readonly Continuation[] = ["client", "worker"];
/** Both ends, and both ways to end a lease, are there for each kind all the same. */
const kinds = sample([...new Set(manners.map(({ kind }) => kind))], 2);
const chosen = manners.filter(
  ({ kind, leaseEnd, finishes }) =>
    kinds.includes(kind) && (isThorough || finishes === (leaseEnd === "resume")),
);
const steps = [
  "read",
  "create",
  "openPhase",
  "commitPhase",
  "startCall",
  "send",
  "endCall",
  "openPhase",
  "commitPhase",
];
const portsOf = ({ finishes }: Manner) => (finishes ? steps : [...steps, "end"]);

/** One submission that is killed. */
interface Victim {
  readonly continuedBy: Continuation;
  readonly manner: Manner;
  readonly operation: string;
  readonly order: string;
  readonly stop: StopAt;
  /** The last port call whose effect has come about is at this place; -1: none. */
  readonly reached: number;
}

interface Market {
  readonly shop: Shop;
  readonly client: ChargingProcess;
  readonly worker: ChargingProcess;
}

let lab: ChargingLab;
const markets = new Map<Continuation, Market>();
const ends = new Map<string, RunEnd>();
/** Who comes again matters where a call in doubt is sent again or asked about, which differs by kind: by default one of each. */
const goesOn = (continuedBy: Continuation, { kind, leaseEnd }: Manner) =>
  isThorough || (kinds.indexOf(kind) % 2 === 0) === ((continuedBy === "client") === (leaseEnd === "resume"));
const victims = continuations.flatMap((continuedBy) =>
  chosen.filter((manner) => goesOn(continuedBy, manner)).flatMap((manner) => victimsOf(continuedBy, manner)),
);

function victimsOf(continuedBy: Continuation, manner: Manner): readonly Victim[] {
  const operation = nameOf(manner);
  return portsOf(manner).flatMap((_, index) =>
    (["before", "after"] as const).map((when) => ({
      continuedBy: continuedBy,
      manner,
      operation,
      order: `${continuedBy}-${operation}-${index + 1}-${when}`,
      stop: { number: index + 1, when },
      reached: when === "after" ? index : index - 1,
    })),
  );
}

function marketOf({ continuedBy }: Pick<Victim, "continuedBy">): Market {
  const market = markets.get(continuedBy);
  if (market === undefined) throw new TypeError(continuedBy);
  return market;
}

/** Brings one process to all its stops, and kills it there. */
async function kill(process: ChargingProcess, those: readonly Victim[]): Promise<void> {
  for (let from = 0; from < those.length; from += submittedAtOnce) {
    const some = those.slice(from, from + submittedAtOnce);
    const submissions = some.map(({ operation, order, stop }) =>
      process.submit(operation, { order }, { stop }),
    );
    const stops = await Promise.all(submissions.map((submission) => submission.stopped()));
    expect(stops).toEqual(some.map(({ manner, stop }) => portsOf(manner)[stop.number - 1]));
  }
  expect(await process.worker.kill("SIGKILL")).toMatchObject({ signal: "SIGKILL" });
}

/** Nobody will do anything any more by himself. */
async function atRest({ shop }: Market): Promise<boolean> {
  const [running, retryable, unknown] = await Promise.all([
    shop.list("in_progress"),
    shop.list("retryable"),
    shop.list("unknown"),
  ]);
  const waits = unknown.every((record) => record.state === "unknown" && record.reconcileAfter === null);
  return running.length === 0 && retryable.length === 0 && waits;
}

async function openMarket(continuedBy: Continuation): Promise<Market> {
  const shop = await lab.shop(continuedBy);
  const [client, worker] = await Promise.all([shop.open(survivor), shop.open(survivor)]);
  const market = { shop, client, worker };
  markets.set(continuedBy, market);
  return market;
}

async function retry({ client }: Market): Promise<void> {
  const queue = victims.filter(({ continuedBy }) => continuedBy === "client").values();
  const one = async () => {
    for (const { operation, order } of queue) ends.set(order, await insist(client, operation, { order }));
  };
  await Promise.all(Array.from({ length: clientsAtOnce }, one));
}

async function dryRun(continuedBy: Continuation, { client }: Market, manner: Manner): Promise<void> {
  const order = `${continuedBy}-${nameOf(manner)}-nobody-dies`;
  const { ports } = await client.submit(nameOf(manner), { order }).ended;
  expect(ports, "where it can be killed").toEqual(portsOf(manner));
}

beforeAll(async () => {
  lab = await openChargingLab();
  for (const continuedBy of continuations) {
    const market = await openMarket(continuedBy);
    for (const manner of chosen) await dryRun(continuedBy, market, manner);
  }
  const groups = [
    ...Map.groupBy(victims, ({ continuedBy, manner }) => `${continuedBy} ${manner.kind}`).values(),
  ];
  const processes = await Promise.all(
    groups.map((those) => marketOf(those[0] as Victim).shop.open({ leaseMs })),
  );
  // One after the other, or none of them would have the time to keep its leases.
  for (const [index, those] of groups.entries()) await kill(processes[index] as ChargingProcess, those);
  const byWorkers = marketOf({ continuedBy: "worker" });
  const byClients = marketOf({ continuedBy: "client" });
  await byClients.worker.start("reconciler", "cleaner");
  await byWorkers.worker.start("rescuer", "reconciler", "cleaner");
  await Promise.all([
    until(() => atRest(byWorkers), { what: "workers are done", timeoutMs: 60_000, intervalMs: 100 }),
    retry(byClients),
  ]);
});

type Outcome = "completed" | "failed" | "unknown";

const at = (port: string) => steps.indexOf(port);
const isCharged = ({ reached }: Victim) => reached >= at("send");
/** The intent is there, and no result. */
const isInDoubt = ({ reached }: Victim) => reached >= at("startCall") && reached < at("endCall");

function expected(victim: Victim): Outcome {
  if (!isInDoubt(victim)) return "completed";
  switch (victim.manner.kind) {
    case "provider":
    case "reopen":
      return "completed";
    case "close":
      return isCharged(victim) ? "completed" : "failed";
    case "lookup":
      return isCharged(victim) ? "completed" : "unknown";
    case "none":
      return "unknown";
    default:
      return victim.manner.kind satisfies never;
  }
}

/** What others did after the kill. */
function effectsOf(victim: Victim) {
  const { client, worker } = marketOf(victim);
  const lines = [client, worker].flatMap((process) => process.linesOf(victim.order));
  return {
    ran: (step: string) => lines.filter(({ ran }) => ran === step).length,
    sends: lines.filter(({ sends }) => sends !== undefined).length,
    answers: lines.filter(({ answered: key }) => key !== undefined),
  };
}

function checkEffects(victim: Victim, outcome: Outcome): void {
  const { ran, sends, answers } = effectsOf(victim);
  const { manner, reached } = victim;
  if (reached >= steps.indexOf("commitPhase")) expect(ran("order_recorded"), "finished").toBe(0);
  if (reached >= steps.lastIndexOf("commitPhase")) expect(ran("settled"), "finished").toBe(0);
  if (outcome !== "completed") expect(ran("settled")).toBe(0);
  if (reached >= at("endCall")) expect(sends, "a finished call is not sent again").toBe(0);
  const asked = isInDoubt(victim) && manner.kind !== "provider";
  const isSentAgain = manner.kind === "reopen" && !isCharged(victim);
  if (asked && !isSentAgain) expect(sends, "a call in doubt is not sent again").toBe(0);
  if (isInDoubt(victim) && manner.kind === "provider") {
    expect(sends, "sent again under its key").toBeGreaterThan(0);
    const fresh = answers.filter(({ replayed }) => replayed !== true);
    expect(fresh.length, "the provider knows it").toBe(isCharged(victim) ? 0 : 1);
  }
}

/** Two further submissions, to two processes. */
async function replays(victim: Victim): Promise<readonly RunEnd[]> {
  const { client, worker } = marketOf(victim);
  const { operation, order } = victim;
  // Where workers found nothing to go on with, it begins here.
  await insist(client, operation, { order });
  const both = [client, worker, client].map((process) => process.submit(operation, { order }).ended);
  return (await Promise.all(both)).map((submitted) => submitted.reply);
}

async function check(victim: Victim): Promise<Outcome> {
  const { shop } = marketOf(victim);
  const { operation, order } = victim;
  const outcome = expected(victim);
  const before = await shop.read(operation, order);
  const begun = victim.continuedBy === "client" || victim.reached >= at("create");
  expect(before?.state ?? null, "what has become of it, without another request").toBe(
    begun ? outcome : null,
  );
  const again = await replays(victim);
  expect((await shop.read(operation, order))?.state).toBe(outcome);
  const isAnswered = outcome !== "unknown";
  const charged = outcome === "completed" || isCharged(victim) ? 1 : 0;
  expect(lab.charges(order).length, "by the provider's own ledger").toBe(charged);
  expect(await shop.rows(order)).toEqual({ orders: 1, settled: outcome === "completed" ? 1 : 0 });
  checkEffects(victim, outcome);
  expect(again.map(({ kind }) => kind)).toEqual(Array(3).fill(isAnswered ? "replay" : "unknown"));
  const first = ends.get(order);
  const answers = [...(first === undefined ? [] : [first]), ...again].map((one) =>
    JSON.stringify(answered(one)),
  );
  expect(new Set(answers).size, "the same bytes").toBe(1);
  if (isAnswered) expect(answers[0]).toContain(`"status":${outcome === "completed" ? 201 : 502}`);
  else {
    const listed = await shop.list("unknown");
    expect(listed.filter(({ key }) => key === order)).toMatchObject([{ reconcileAfter: null }]);
  }
  return outcome;
}

/** What is known of one that went wrong. */
async function storyOf(victim: Victim): Promise<string> {
  const { shop, client, worker } = marketOf(victim);
  const { operation, order, manner, stop } = victim;
  const port = portsOf(manner)[stop.number - 1];
  const record = JSON.stringify(await shop.read(operation, order));
  const proofs = (await shop.proofs(operation, order)).join(", ");
  const effects = [client, worker]
    .flatMap((process) => process.linesOf(order))
    .map((line) => JSON.stringify(line));
  return [`${order} ${stop.when} ${port}`, record, `settled by ${proofs}`, ...effects].join("\n");
}

describe.each(continuations)("killed, and gone on with by the %s", (continuedBy) => {
  test.each(kinds)(
    "%s: one charge at the most, no finished step again, one answer for ever",
    async (kind) => {
      const those = victims.filter(
        (victim) => victim.continuedBy === continuedBy && victim.manner.kind === kind,
      );
      const outcomes = new Map<string, number>();
      for (const victim of those) {
        const outcome = await check(victim).catch(async (cause: unknown) => {
          throw new Error(`${cause}\n${await storyOf(victim)}`, { cause });
        });
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
      const counts = [...outcomes].map(([outcome, count]) => `${outcome} ${count}`).join(", ");
      process.stdout.write(`${continuedBy}, ${kind}: ${those.length} kills, ${counts}\n`);
      expect(outcomes.get("completed")).toBeGreaterThan(0);
    },
  );
});

test("whoever is killed, nobody is charged twice", () => {
  const orders = lab.allCharges().map(({ description }) => description);
  expect(new Set(orders).size).toBe(orders.length);
});

test.runIf(isThorough)("a provider that breaks its promise is seen to charge twice", async () => {
  const { shop } = marketOf({ continuedBy: "client" });
  const [victim, client] = await Promise.all([
    shop.open({ leaseMs }),
    shop.open({ ...survivor, mode: "forgetful" }),
  ]);
  const order = { order: "broken-promise" };
  const sent = victim.submit("provider-resume-finish", order, {
    stop: { number: at("send") + 1, when: "after" },
  });
  await sent.stopped();
  await victim.worker.kill("SIGKILL");
  expect(await insist(client, "provider-resume-finish", order)).toMatchObject({ status: 201 });
  expect(lab.charges(order.order)).toHaveLength(2);
});
