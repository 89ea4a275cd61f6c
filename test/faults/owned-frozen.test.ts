/**
 * The frozen-owner trap, with processes that SIGSTOP really freezes: at the send, after everything that could have notified it
 * not to send, or just before that. Others go on meanwhile; then it thaws, as if nothing had happened.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { patient } from "../support/patience.ts";
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
import { kinds, nameOf } from "./charging-work.ts";

type Kind = (typeof kinds)[number];
/** Of phase, call, phase: read, create, openPhase, commitPhase, startCall, send. */
const [startCall, send] = [5, 6];
/** A machine with much else to do must not lose it on the way to the stop. */
const leaseMs = Math.round(patient(2_000));
/** It does not die, so its lease may be as long as it likes. */
const survivor = { leaseMs: 30_000 };

let lab: ChargingLab;
let shop: Shop;
let client: ChargingProcess;
let worker: ChargingProcess;
const frozen = new Map<string, Frozen>();

interface Frozen {
  readonly process: ChargingProcess;
  readonly submission: Submission;
  readonly operation: string;
  readonly order: string;
  thaw(): void;
}

function nameOfOrder(kind: Kind, number: number, deaf: boolean): string {
  return [kind, number === send ? "send" : "intent", deaf ? "deaf" : "attentive"].join("-");
}

function operationOf(kind: Kind): string {
  return nameOf({ kind, leaseEnd: "reconcile", finishes: true });
}

async function freeze(kind: Kind, number: number, deaf: boolean): Promise<Frozen> {
  const process = await shop.open({ leaseMs, deaf });
  const operation = operationOf(kind);
  const order = nameOfOrder(kind, number, deaf);
  const submission = process.submit(
    operation,
    { order },
    { stop: { number, when: number === send ? "before" : "after" } },
  );
  await submission.stopped();
  await process.worker.freeze();
  const thaw = () => {
    submission.release();
    process.worker.thaw();
  };
  const it = { process, submission, operation, order, thaw };
  frozen.set(order, it);
  return it;
}

function frozenAt(kind: Kind, number: number, deaf = number === send): Frozen {
  const it = frozen.get(nameOfOrder(kind, number, deaf));
  if (it === undefined) throw new TypeError(kind);
  return it;
}

const stateOf = async ({ operation, order }: Frozen) => (await shop.read(operation, order))?.state ?? null;
const sendsOf = ({ order }: Frozen, process: ChargingProcess) =>
  process.linesOf(order).filter(({ sends }) => sends !== undefined).length;
const answersOf = ({ process, order }: Frozen) =>
  process.linesOf(order).filter(({ answered: key }) => key !== undefined);

beforeAll(async () => {
  lab = await openChargingLab();
  shop = await lab.shop("frozen");
  [client, worker] = await Promise.all([shop.open(survivor), shop.open({ ...survivor, triesMax: 2 })]);
  await freeze("lookup", send, false);
  await Promise.all(kinds.flatMap((kind) => [freeze(kind, send, true), freeze(kind, startCall, false)]));
  await worker.start("rescuer", "reconciler", "cleaner");
  await Promise.all(
    [...frozen.values()].map((it) =>
      until(
        async () => {
          const record = await shop.read(it.operation, it.order);
          if (record?.state === "unknown") return record.reconcileAfter === null;
          return record?.state === "completed" || record?.state === "failed";
        },
        { what: `workers have done what they can for ${it.order}`, timeoutMs: 60_000 },
      ),
    ),
  );
});

/** Thaws it, and waits until it has the reply to its submission. */
async function thawed(it: Frozen) {
  it.thaw();
  return (await it.submission.ended).reply;
}

/** … and what the other side says to its send. */
async function thawedAndSent(it: Frozen) {
  const ended = await thawed(it);
  await it.process.worker.line(({ order, answered: key }) => order === it.order && key !== undefined);
  return ended;
}

async function expectOneAnswer(it: Frozen, status: number): Promise<void> {
  // Once its owner has settled the call, whoever comes first goes on after it.
  const first = await insist(client, it.operation, { order: it.order });
  const second = await insist(worker, it.operation, { order: it.order });
  expect(first).toMatchObject({ status });
  expect(second).toMatchObject({ kind: "replay", status });
  expect(answered(second)).toEqual(answered(first));
}

describe("frozen at the send, past the last look at its lease, with a client that knows no signal", () => {
  test("lookup without close: not found never frees the key by itself", async () => {
    const it = frozenAt("lookup", send);
    const asked = worker.worker.lines.filter(
      ({ lookedUp, found }) => lookedUp !== undefined && found === false,
    );
    expect(asked.length, "the other side was asked, and knew of nothing").toBeGreaterThanOrEqual(2);
    expect(await stateOf(it)).toBe("unknown");
    expect(await client.submit(it.operation, { order: it.order }).ended).toMatchObject({
      reply: { kind: "unknown" },
    });
    expect((await shop.list("unknown")).map(({ key }) => key)).toContain(it.order);
    expect(lab.charges(it.order)).toEqual([]);
    await thawedAndSent(it);
    expect(lab.charges(it.order), "the thawed send is the only one").toHaveLength(1);
    await until(async () => (await shop.proofs(it.operation, it.order)).length > 0, {
      what: "the owner settles its own",
    });
    expect(await shop.proofs(it.operation, it.order)).toEqual(["owner"]);
    await expectOneAnswer(it, 201);
    expect([sendsOf(it, it.process), sendsOf(it, client), sendsOf(it, worker)]).toEqual([1, 0, 0]);
    expect(lab.charges(it.order)).toHaveLength(1);
    expect(await shop.rows(it.order)).toEqual({ orders: 1, settled: 1 });
  });

  test("close: the other side refuses the thawed send, and nothing is charged", async () => {
    const it = frozenAt("close", send);
    expect(await stateOf(it)).toBe("failed");
    const ended = await thawedAndSent(it);
    expect(answersOf(it), "it was sent, and refused").toMatchObject([{ status: 409 }]);
    expect(ended).toMatchObject({ status: 502 });
    expect(lab.charges(it.order)).toEqual([]);
    await expectOneAnswer(it, 502);
    expect(await shop.rows(it.order)).toEqual({ orders: 1, settled: 0 });
  });

  test("reopen: refused as well, since it was made under its next key, once", async () => {
    const it = frozenAt("reopen", send);
    expect(await stateOf(it)).toBe("completed");
    const ended = await thawedAndSent(it);
    expect(answersOf(it)).toMatchObject([{ status: 409 }]);
    expect(ended).toMatchObject({ status: 201 });
    expect(lab.charges(it.order)).toHaveLength(1);
    await expectOneAnswer(it, 201);
    expect(await shop.rows(it.order)).toEqual({ orders: 1, settled: 1 });
  });

  test("provider: the thawed send meets its own key, and is not charged again", async () => {
    const it = frozenAt("provider", send);
    expect(await stateOf(it)).toBe("completed");
    const ended = await thawedAndSent(it);
    expect(answersOf(it)).toMatchObject([{ status: 201, replayed: true }]);
    expect(ended).toMatchObject({ status: 201 });
    expect(lab.charges(it.order)).toHaveLength(1);
    await expectOneAnswer(it, 201);
    expect(await shop.rows(it.order)).toEqual({ orders: 1, settled: 1 });
  });

  test("none: nobody but itself sends; it settles its own", async () => {
    const it = frozenAt("none", send);
    expect(await stateOf(it)).toBe("unknown");
    await thawedAndSent(it);
    await until(async () => (await shop.proofs(it.operation, it.order)).length > 0, {
      what: "the owner settles its own",
    });
    await expectOneAnswer(it, 201);
    expect(lab.charges(it.order)).toHaveLength(1);
    expect([sendsOf(it, it.process), sendsOf(it, client), sendsOf(it, worker)]).toEqual([1, 0, 0]);
  });
});

test("frozen at the send, with a client that knows signals: it does not send any more", async () => {
  const it = frozenAt("lookup", send, false);
  expect(await stateOf(it)).toBe("unknown");
  await thawed(it);
  expect(answersOf(it)).toEqual([]);
  expect(lab.charges(it.order)).toEqual([]);
  expect(await stateOf(it), "nobody can know that").toBe("unknown");
});

describe("frozen between the intent and the last look at its lease", () => {
  test.each(kinds)("%s: it does not send any more", async (kind) => {
    const it = frozenAt(kind, startCall);
    const before = await stateOf(it);
    await thawed(it);
    expect(sendsOf(it, it.process)).toBe(0);
    const ends = {
      provider: "completed",
      reopen: "completed",
      close: "failed",
      lookup: "unknown",
      none: "unknown",
    };
    expect([before, await stateOf(it)]).toEqual([ends[kind], ends[kind]]);
    expect(lab.charges(it.order)).toHaveLength(ends[kind] === "completed" ? 1 : 0);
  });
});
