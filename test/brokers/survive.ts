/** Many messages and duplicates while consumers are killed, and the broker too. */
import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import { drawFrom } from "../proof/harness/seeded.ts";
import { notRun } from "../support/not-run.ts";
import type { WorkerProcess } from "../support/processes.ts";
import { isProof, isThorough } from "../support/thorough.ts";
import { until, within } from "../support/until.ts";
import type { BrokerDriver } from "./driver.ts";
import { type Inboxes, order } from "./inboxes.ts";

/** How much goes through, and what befalls it meanwhile, at moments that the seed draws. */
const usualVolume = isProof
  ? { messages: 20_000, kills: 12, restarts: 4, limitMs: 600_000 }
  : { messages: isThorough ? 400 : 150, kills: isThorough ? 2 : 1, restarts: 1, limitMs: 180_000 };

function volumeOf({ volume }: BrokerDriver): typeof usualVolume {
  return isProof ? usualVolume : { ...usualVolume, ...volume };
}

export function sparedBecause({ spared = [] }: BrokerDriver, what: string): string | undefined {
  return spared.find(({ words }) => what.includes(words))?.because;
}

export async function survive(given: Inboxes): Promise<void> {
  const seed = BigInt(process.env.LATCHKEY_SEED ?? `0x${randomBytes(8).toString("hex")}`);
  const beganMs = performance.now();
  const outcome = await underChaos(given, seed).catch(async (cause: unknown) => {
    throw new Error(`LATCHKEY_SEED=${seed}: ${String(cause)}; ${await stateOf(given)}`, { cause });
  });
  const tookSeconds = ((performance.now() - beganMs) / 1_000).toFixed(0);
  if (isProof)
    console.info(JSON.stringify({ ...volumeOf(given.driver), seed: String(seed), ...outcome, tookSeconds }));
}

/** Where the messages are, for the message of a failure. */
async function stateOf({ rows, dead, left }: Inboxes): Promise<string> {
  const parts = {
    rows: async () => (await rows()).length,
    "dead letters": async () => (await dead()).map(({ key, reason }) => `${key} ${reason}`).join(", "),
    "left in the queue": left,
  };
  const answers = Object.entries(parts).map(async ([what, ask]) => {
    const answer = await within<unknown>(ask(), what, 10_000).catch(String);
    return `${what}: ${String(answer)}`;
  });
  return (await Promise.all(answers)).join("; ");
}

async function underChaos({ publish, spawn, rows, driver, broker, left, wrote }: Inboxes, seed: bigint) {
  const draw = drawFrom(seed);
  const { messages, kills, restarts, limitMs } = volumeOf(driver);
  const names = Array.from({ length: messages }, (_, index) => `order-${index}`);
  const repeated = names.filter((_, index) => index % 5 === 0);
  const all = [...names, ...repeated].map((name) => order(name));
  const workers = await Promise.all([spawn(), spawn(), spawn()]);
  const everyone = [...workers];
  const killing = "killing the broker";
  if (broker.own === null && sparedBecause(driver, killing) === undefined)
    notRun(killing, "it is somebody else's");
  const accidents = [
    ...Array.from({ length: kills }, () => async () => {
      const at = draw.below(workers.length);
      await workers[at]?.kill("SIGKILL");
      const another = await spawn();
      workers[at] = another;
      everyone.push(another);
    }),
    ...Array.from({ length: broker.own === null ? 0 : restarts }, () => async () => broker.own?.restart()),
  ].map((happen) => ({ share: draw.fraction(), happen }));
  const reached = (count: number) =>
    until(async () => (await rows()).length >= count, {
      what: `${count} rows`,
      timeoutMs: limitMs,
      intervalMs: 50,
    });
  await wrote();
  const publishing = publish(all);
  for (const { share, happen } of accidents.toSorted((one, other) => one.share - other.share)) {
    await reached(Math.floor(messages * share));
    await happen();
  }
  await within(publishing, "everything is published", limitMs);
  await reached(messages);
  await drain(workers, spawn, left, limitMs);
  const found = await rows();
  expect(new Set(found).size, "every message").toBe(messages);
  expect(found.length, "once").toBe(messages);
  const replayed = everyone.flatMap(({ lines }) => lines).filter((line) => line.replayed === true).length;
  expect(replayed, "duplicates have come").toBeGreaterThan(0);
  return { accidents: accidents.length, replayed };
}

/** Until all is acknowledged, also what a consumer gives back when it stops. */
async function drain(
  workers: readonly WorkerProcess[],
  spawn: Inboxes["spawn"],
  left: Inboxes["left"],
  limitMs: number,
) {
  let running = workers;
  for (let stops = 0; running.length > 0; stops++) {
    await until(async () => (await left()) === 0, { what: "the queue is empty", timeoutMs: limitMs });
    for (const worker of running) await worker.kill("SIGTERM");
    expect(stops, "what comes back is settled soon").toBeLessThan(5);
    running = (await left()) === 0 ? [] : [await spawn()];
  }
}
