/**
 * A dispatcher that is killed with SIGKILL at each step of a delivery, for each kind of de-duplication; then another goes on.
 * What has happened is judged by the receiver's own ledger. Each dispatcher dies at one step, with one effect of each kind
 * at it. The leases of the dead are ended by hand here; outbox-fleet.all.test.ts waits for them.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { EffectKind } from "../support/downstream-ledger.ts";
import type { WorkerLine, WorkerProcess } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { kinds } from "./charging-work.ts";
import { type OutboxLab, openOutboxLab, patienceMs, type Row } from "./outbox-lab.ts";
import type { StopPoint } from "./outbox-process.ts";
import { openReceiver, type Receiver } from "./outbox-receiver.ts";
import type { EffectPlan } from "./outbox-work.ts";

interface Victim {
  readonly point: StopPoint;
  readonly kind: EffectKind;
  readonly plan: EffectPlan;
  /** Of its effect, and what the receiver knows it by. */
  readonly name: string;
}

/** How it must end, and how often the receiver may hear of it. */
interface Rest {
  readonly state: "delivered" | "dead";
  readonly errorCode?: string;
  readonly arrivals: number;
}

const points: Readonly<
  Record<StopPoint, { readonly noted: boolean; readonly kinds: readonly EffectKind[] }>
> = {
  "after-claim": { noted: false, kinds },
  "before-send": { noted: true, kinds },
  "after-send": { noted: true, kinds },
  "in-on-delivered": { noted: true, kinds },
  "after-commit": { noted: true, kinds },
  // All ends of a dispatcher go through one call: a second one would wait behind the first.
  "after-end": { noted: false, kinds: ["none"] },
};
const victims: readonly Victim[] = Object.entries(points).flatMap(([at, { noted, kinds: those }]) =>
  those.map((kind, index) => {
    const point = at as StopPoint;
    const name = `${point} ${kind}`;
    // Long, so that nobody loses patience before he is killed; and different, so that each is claimed by itself.
    const plan = { effect: name, kind, noted, timeoutMs: 8_000 + index, attemptsMax: 3 };
    return { point, kind, plan, name };
  }),
);

let lab: OutboxLab;
let receiver: Receiver;
let survivor: WorkerProcess;
/** What the receiver had got when the dispatchers died. */
const before = new Map<string, readonly string[]>();
const rows = new Map<string, Row>();

async function killAt(point: StopPoint): Promise<void> {
  const own = victims.filter((victim) => victim.point === point);
  const process = lab.dispatch({ plans: own.map(({ plan }) => plan), stopAt: point });
  const stopped = (line: WorkerLine) => line.stopped === point;
  await process.line(stopped, patienceMs);
  const count = () => process.lines.filter(stopped).reduce((sum, line) => sum + Number(line.count), 0);
  await until(() => count() === own.length, { what: `all stand at ${point}` });
  expect(await process.kill("SIGKILL")).toMatchObject({ signal: "SIGKILL" });
}

beforeAll(async () => {
  receiver = await openReceiver();
  lab = await openOutboxLab(
    victims.map(({ plan }) => plan),
    receiver,
  );
  await lab.counter.enqueue(
    "all",
    victims.map(({ name }) => ({ effect: name, name })),
  );
  await Promise.all(Object.keys(points).map((point) => killAt(point as StopPoint)));
  for (const { name } of victims) {
    before.set(
      name,
      receiver.arrivalsOf(name).map(({ reference }) => reference),
    );
  }
  await lab.counter.pool.query(
    "update latchkey.outbox set locked_until = clock_timestamp() where state = 'claimed'",
  );
  survivor = lab.dispatch();
  const isOver = ({ state }: Row) => state === "delivered" || state === "dead";
  await until(async () => (await lab.rows()).every(isOver), {
    what: "every effect is delivered or dead",
    timeoutMs: patienceMs,
    intervalMs: 50,
  });
  for (const row of await lab.rows()) rows.set(row.name, row);
});

function restOf({ point, kind }: Victim): Rest {
  if (point === "after-claim") return { state: "delivered", arrivals: 1 };
  if (point === "before-send") {
    if (kind === "provider" || kind === "reopen") return { state: "delivered", arrivals: 1 };
    return {
      state: "dead",
      errorCode: kind === "close" ? "closed-downstream" : "call-in-doubt",
      arrivals: 0,
    };
  }
  if (point === "after-send") {
    if (kind === "none") return { state: "dead", errorCode: "call-in-doubt", arrivals: 1 };
    return { state: "delivered", arrivals: kind === "provider" ? 2 : 1 };
  }
  return { state: "delivered", arrivals: 1 };
}

/** Of these the receiver had got a send before the dispatcher died. */
const wasSent = ({ point }: Victim) => point !== "after-claim" && point !== "before-send";

describe.each(Object.keys(points))("a dispatcher that is killed %s", (point) => {
  test.each(victims.filter((victim) => victim.point === point))("$kind", async (victim) => {
    const { name, plan } = victim;
    const { state, errorCode, arrivals } = restOf(victim);
    expect(before.get(name), "when it died").toHaveLength(wasSent(victim) ? 1 : 0);
    expect(rows.get(name)).toMatchObject({ state, ...(errorCode !== undefined && { errorCode }) });
    const keys = receiver.arrivalsOf(name).map(({ reference }) => reference);
    expect(keys).toHaveLength(arrivals);
    expect(new Set(keys).size, "the same key each time").toBe(Math.min(arrivals, 1));
    expect(receiver.effectsOf(name), "by the receiver's own ledger").toBe(Math.min(arrivals, 1));
    const times = plan.noted === true && state === "delivered" ? 1 : 0;
    expect((await lab.noted()).filter((noted) => noted === name)).toHaveLength(times);
  });
});

test("nothing is sent afterwards by any process", async () => {
  const sent = receiver.arrivals.length;
  expect(await survivor.kill("SIGTERM")).toMatchObject({ code: 0 });
  expect(receiver.arrivals).toHaveLength(sent);
  expect(victims.map(({ name }) => rows.get(name)?.state)).not.toContain(undefined);
});
