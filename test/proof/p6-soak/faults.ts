/** The faults, each injected into a running arena and taken back. What is counted is what has really happened. */
import { setTimeout as pause } from "node:timers/promises";
import { isCommit, isCommitReply } from "../../support/postgres-messages.ts";
import type { Hold } from "../../support/tcp-proxy.ts";
import type { Draw } from "../harness/seeded.ts";
import type { Arena } from "./arena.ts";
import type { Place } from "./servers.ts";

export const killKinds = ["Postgres killed", "server killed", "both killed"] as const;
export const netKinds = [
  "connections cut",
  "requests held up",
  "replies held up",
  "delay",
  "COMMIT delayed",
  "COMMIT given up, then delivered",
  "COMMIT lost",
  "COMMIT's reply lost",
  "COMMIT held, Postgres killed",
] as const;
export type KillKind = (typeof killKinds)[number];
export type NetKind = (typeof netKinds)[number];
export type FaultKind = KillKind | NetKind | "frozen for longer than a lease" | "pool used up";

/** Longer than a store's statement may take in these servers. */
const tooLongMs = 900;
const heldWithinMs = 1_500;

/** False: it did not come to it, as nobody was there or nothing passed by. */
export async function inject(kind: FaultKind, arena: Arena, draw: Draw, killing: Turn): Promise<boolean> {
  switch (kind) {
    case "Postgres killed":
      return killing.take(() => killPostgres(arena));
    case "server killed":
      return killing.take(() => killServer(arena, draw));
    case "both killed":
      return killing.take(async () => {
        const [server] = await Promise.all([killServer(arena, draw), killPostgres(arena)]);
        return server;
      });
    case "frozen for longer than a lease":
      return freeze(somebody(arena, draw), arena.leaseMs + 150 + draw.below(arena.leaseMs));
    case "pool used up":
      return (await somebody(arena, draw).exhaust(200 + draw.below(800))) > 0;
    default:
      return disturb(kind, arena, somebody(arena, draw), draw, killing);
  }
}

/** One kill at a time: a Postgres that is being started cannot be killed. */
export class Turn {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(act: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(act);
    this.#last = mine.catch(() => {});
    return mine;
  }
}

async function killPostgres({ postgres }: Arena): Promise<true> {
  await postgres.kill9();
  await postgres.start();
  return true;
}

async function killServer({ places }: Arena, draw: Draw): Promise<boolean> {
  const alive = places.filter(({ url }) => url !== null);
  if (alive.length === 0) return false;
  await draw.pick(alive).kill();
  return true;
}

function somebody({ places }: Arena, draw: Draw): Place {
  const awake = places.filter(({ url, frozen }) => url !== null && !frozen);
  return draw.pick(awake.length > 0 ? awake : places);
}

async function freeze(place: Place, forMs: number): Promise<boolean> {
  if (!(await place.freeze().catch(() => false))) return false;
  const { name } = place;
  await pause(forMs);
  // Whoever was killed meanwhile has not been frozen for so long.
  const lasted = place.name === name;
  place.thaw();
  return lasted;
}

async function disturb(
  kind: NetKind,
  arena: Arena,
  { proxy }: Place,
  draw: Draw,
  killing: Turn,
): Promise<boolean> {
  const before = proxy.counts();
  const traffic = () => proxy.counts().up.chunks > before.up.chunks;
  const whileSo = async (forMs: number) => {
    await pause(forMs);
    await proxy.pass();
    return traffic();
  };
  switch (kind) {
    case "connections cut":
      await proxy.cut();
      await pause(draw.below(250));
      await proxy.pass();
      return true;
    case "requests held up":
      proxy.stall("up");
      return whileSo(100 + draw.below(tooLongMs));
    case "replies held up":
      proxy.stall("down");
      return whileSo(100 + draw.below(tooLongMs));
    case "delay":
      proxy.delay(5 + draw.below(30));
      return whileSo(200 + draw.below(400));
    case "COMMIT's reply lost":
      return withHold(proxy.holdReplyWhen(isCommitReply), async (hold) => {
        await pause(draw.below(2) * tooLongMs);
        hold.drop();
      });
    default:
      return withHold(proxy.holdWhen(isCommit), (hold) => withCommit(kind, hold, arena, draw, killing));
  }
}

async function withHold(hold: Hold, act: (hold: Hold) => Promise<void>): Promise<boolean> {
  const isHeld = await hold.held(heldWithinMs).then(
    () => true,
    () => false,
  );
  if (isHeld) await act(hold);
  hold.release();
  return isHeld;
}

async function withCommit(
  kind: Extract<NetKind, `COMMIT${string}`>,
  hold: Hold,
  arena: Arena,
  draw: Draw,
  killing: Turn,
): Promise<void> {
  switch (kind) {
    case "COMMIT delayed":
      await pause(20 + draw.below(300));
      return;
    case "COMMIT given up, then delivered":
      await pause(tooLongMs + draw.below(400));
      return;
    case "COMMIT held, Postgres killed":
      await killing.take(() => killPostgres(arena));
      return;
    default:
      hold.drop();
  }
}
