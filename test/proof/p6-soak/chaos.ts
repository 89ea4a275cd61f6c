/** What breaks when: lanes of faults drawn from the seed, side by side, each fault after a pause. */
import { setTimeout as pause } from "node:timers/promises";
import { type Draw, drawFrom, seedOf } from "../harness/seeded.ts";
import type { Arena } from "./arena.ts";
import { type FaultKind, inject, killKinds, netKinds, Turn } from "./faults.ts";

export interface ChaosPlan {
  /** One lane each: kills, the network, frozen servers, used-up pools. */
  readonly lanes: readonly (readonly FaultKind[])[];
  /** The longest pause before a fault. */
  readonly pauseMs: number;
}

export interface ChaosReport {
  readonly faults: Readonly<Record<string, number>>;
  /** Cycles of the lane of kills, and kills -9 by whom they met. */
  readonly cycles: number;
  readonly postgresKills: number;
  readonly serverKills: number;
}

/** So often a fault is tried again that has met nobody. */
const triesMax = 8;

/** How many of each kind, in an order of the seed's; with kills of all kinds in turn. */
export function planOf(seed: bigint, each: { kills: number; net: number; frozen: number; pools: number }) {
  const draw = drawFrom(seedOf(seed, 2));
  const kills = Array.from(
    { length: each.kills },
    (_, at) => killKinds[at % killKinds.length] ?? killKinds[0],
  );
  const net = Array.from({ length: each.net }, () => netKinds).flat();
  const lanes: readonly (readonly FaultKind[])[] = [
    shuffled(kills, draw),
    shuffled(net, draw),
    Array.from({ length: each.frozen }, () => "frozen for longer than a lease" as const),
    Array.from({ length: each.pools }, () => "pool used up" as const),
  ];
  return lanes;
}

function shuffled<T>(from: readonly T[], draw: Draw): readonly T[] {
  const left = [...from];
  return from.map(() => {
    const at = draw.below(left.length);
    const [one] = left.splice(at, 1);
    if (one === undefined) throw new RangeError("one for each");
    return one;
  });
}

/** Runs all lanes to their ends; after `untilMs` nothing more breaks. At the end everything is in order again. */
export async function breakThings(
  arena: Arena,
  plan: ChaosPlan,
  seed: bigint,
  untilMs: number,
): Promise<ChaosReport> {
  const killing = new Turn();
  const counts = new Map<string, number>();
  let cycles = 0;
  const run = async (lane: readonly FaultKind[], draw: Draw) => {
    for (const kind of lane) {
      if (performance.now() > untilMs) return;
      await pause(draw.below(plan.pauseMs));
      let happened = false;
      for (let tries = 1; tries <= triesMax && !happened; tries++) {
        if (tries > 1) await pause(100 + draw.below(plan.pauseMs));
        happened = await inject(kind, arena, draw, killing);
      }
      if (!happened) continue;
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      if (isKill(kind)) cycles++;
    }
  };
  await Promise.all(plan.lanes.map((lane, at) => run(lane, drawFrom(seedOf(seed, 10 + at)))));
  for (const place of arena.places) {
    place.thaw();
    await place.proxy.pass();
  }
  const count = (kind: FaultKind) => counts.get(kind) ?? 0;
  return {
    faults: Object.fromEntries(counts),
    cycles,
    postgresKills: count("Postgres killed") + count("both killed") + count("COMMIT held, Postgres killed"),
    serverKills: count("server killed") + count("both killed"),
  };
}

function isKill(kind: FaultKind): boolean {
  return killKinds.some((one) => one === kind) || kind === "COMMIT held, Postgres killed";
}
