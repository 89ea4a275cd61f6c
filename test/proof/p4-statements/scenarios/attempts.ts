/** Requests under a lease through the whole of Latchkey, with the lease-rescuer; and operations in steps. */
import { leaseRescuer } from "../../../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../../../packages/latchkey/src/workers/outcome-reconciler.ts";
import type { Service } from "../../../../packages/latchkey/src/workers/service.ts";
import { type Answered, codeOf, storedValue, wordsOf } from "../requests.ts";
import {
  type Actor,
  everyIsolation,
  faultKinds,
  type Scenario,
  type Session,
  type Tx,
  type World,
} from "../scenario.ts";
import type { Seen } from "../seen.ts";

const leaseMs = 30_000;
const beatMs = leaseMs / 3;
const input = { amount: 1 };

interface Caller extends Actor {
  readonly session: Session;
  answered(): Answered | null;
}

function sessionsOf(world: World): readonly [Session, Session, Session] {
  const [one, two, three] = world.sessions;
  if (!one || !two || !three) throw new TypeError("Three sessions");
  return [one, two, three];
}

function caller(session: Session, world: World, ask: () => Promise<Answered>): Caller {
  let answered: Answered | null = null;
  return {
    name: `request ${session.index}`,
    session,
    answered: () => answered,
    async run() {
      answered = await ask().catch((error: unknown): Answered => ({ kind: "threw", what: codeOf(error) }));
      world.tally.count(`answer ${answered.kind}`);
    },
  };
}

/** What nobody's answer may contradict, in every execution under a lease. */
function brokenCallers(callers: readonly Caller[], seen: Seen): readonly string[] {
  return callers.flatMap((one) => {
    const answered = one.answered();
    if (answered === null) return [`L1: ${one.name} was never answered`];
    if (answered.kind !== "executed" && answered.kind !== "replay") return [];
    const record = seen.records.find(({ id }) => id === answered.recordId);
    if (record?.state !== "completed") {
      return [`I15: ${one.name} got ${answered.kind}, and its record is ${record?.state ?? "not there"}`];
    }
    const replied = JSON.stringify(answered.value);
    return replied === storedValue(record)
      ? []
      : [`I3: ${one.name} got ${replied}, and ${storedValue(record)} is stored`];
  });
}

/** Time passes, the workers come, and a client tries again: nothing hangs. */
async function comesToRest(
  world: World,
  workers: readonly Pick<Service<unknown>, "runOnce">[],
  again: Caller,
): Promise<void> {
  for (const worker of workers) {
    await world.pass(leaseMs);
    await worker.runOnce();
  }
  await again.run();
}

function brokenRest(again: Caller, allowed: readonly string[]): readonly string[] {
  const last = again.answered();
  if (last !== null && allowed.includes(last.kind)) return [];
  return [`L1: the client that came again got ${last === null ? "nothing" : wordsOf(last)}`];
}

const handlerUnderLease = (leaseEnd: "reconcile" | "rerun"): Scenario => ({
  name: `requests-under-lease-${leaseEnd}`,
  about: `one request twice under a lease with \`${leaseEnd}\`, the end of the lease, beats, and the lease-rescuer`,
  isolations: everyIsolation,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three] = sessionsOf(world);
    const runs: string[] = [];
    const asks = (session: Session) => {
      const latchkey = world.latchkey(session);
      const operation = latchkey.operation(world.key.scope, { execution: "lease", leaseEnd, leaseMs });
      const ask = () =>
        latchkey.run(operation, { tenant: "t", key: world.key.key, input }, async ({ attempt }) => {
          runs.push(attempt.id);
          return { by: session.index, attempt: attempt.fence.attempt };
        });
      return caller(session, world, ask);
    };
    const rescuer = leaseRescuer(world.latchkey(three));
    const last = asks(three);
    const callers = [asks(one), asks(two)];
    return {
      actors: [...callers, { name: "rescuer", run: () => rescuer.runOnce() }],
      moments: [
        { name: "the lease ends", happen: () => world.pass(leaseMs) },
        { name: "0 beats", happen: () => one.clock.fire(beatMs) },
      ],
      aftermath: () => comesToRest(world, [rescuer], last),
      async check(seen) {
        const lives = new Set(runs);
        const twice = runs.length > lives.size && leaseEnd === "reconcile";
        const allowed = ["executed", "replay", "unknown"];
        if (runs.length > lives.size) world.tally.count("ran again after the end of a lease");
        return [
          ...(twice ? ["I6: a life ran twice under `reconcile`"] : []),
          ...brokenCallers([...callers, last], seen),
          ...brokenRest(last, allowed),
        ];
      },
    };
  },
});

export const requestsUnderReconcile = handlerUnderLease("reconcile");
export const requestsUnderRerun = handlerUnderLease("rerun");

/** What the other side has, by our keys: it honours them for ever. */
class OtherSide {
  readonly charges = new Map<string, string>();
  changed = 0;

  charge(key: string, input: unknown): { readonly id: string } {
    const text = JSON.stringify(input);
    if ((this.charges.get(key) ?? text) !== text) this.changed += 1;
    this.charges.set(key, text);
    return { id: `charge of ${key}` };
  }
}

function stepsOf(world: World, session: Session, otherSide: OtherSide) {
  const latchkey = world.latchkey(session);
  const charge = latchkey.effect("charge", {
    deduplication: "provider",
    dedupeWindowMs: 3_600_000,
    execute: async (what: unknown, { key }) => otherSide.charge(key, what),
  });
  const writes = (tx: Tx, life: string, step: string) =>
    tx.query(`insert into ${world.business} values ($1, $2, $3)`, [world.key.key, `${life}/${step}`, step]);
  const operation = latchkey.operation(world.key.scope, {
    execution: "lease",
    leaseEnd: "resume",
    leaseMs,
    version: "1",
    run: async ({ amount }: typeof input, attempt) => {
      await attempt.phase("recorded", async (tx) => {
        await writes(tx, attempt.id, "recorded");
        return null;
      });
      const { id } = await attempt.call("charged", charge, { amount });
      return attempt.finish("settled", async (tx) => {
        await writes(tx, attempt.id, "settled");
        return { status: 201, body: { id } };
      });
    },
  });
  const ask = () => latchkey.run(operation, { tenant: "t", key: world.key.key, input });
  return { latchkey, caller: caller(session, world, ask as () => Promise<Answered>) };
}

export const operationInSteps: Scenario = {
  name: "operation-in-steps",
  about:
    "one request twice, of an operation in steps (phase, call, last phase), the end of its lease, and a worker that resumes",
  isolations: everyIsolation,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three] = sessionsOf(world);
    const otherSide = new OtherSide();
    const [first, second] = [stepsOf(world, one, otherSide), stepsOf(world, two, otherSide)];
    const last = stepsOf(world, three, otherSide);
    const rescuer = leaseRescuer(last.latchkey);
    const callers = [first.caller, second.caller];
    return {
      actors: [...callers, { name: "rescuer", run: () => rescuer.runOnce() }],
      moments: [
        { name: "the lease ends", happen: () => world.pass(leaseMs) },
        { name: "the lease ends again", after: "the lease ends", happen: () => world.pass(leaseMs) },
        { name: "0 beats", happen: () => one.clock.fire(beatMs) },
      ],
      aftermath: () => comesToRest(world, [rescuer, outcomeReconciler(last.latchkey), rescuer], last.caller),
      async check(seen) {
        const { charges, changed } = otherSide;
        return [
          ...(charges.size > 1 ? [`I7: ${charges.size} charges under different keys`] : []),
          ...(changed > 0 ? ["I7: one key was sent with different inputs"] : []),
          ...brokenCallers([...callers, last.caller], seen),
          ...brokenRest(last.caller, ["executed", "replay"]),
        ];
      },
    };
  },
};
