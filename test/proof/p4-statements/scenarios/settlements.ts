/** What is unknown: its operator, its reconciler, and the owner that comes late. */
import {
  bytes,
  callScenario,
  complete,
  fingerprint,
  guardOfFence,
  leaseMs,
  retention,
  type Script,
  terms,
} from "../call-scenario.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

const all = { isolations: everyIsolation, faults: faultKinds };

function note(script: Script, index: number, actor: string) {
  const { random } = script.session(index);
  return { id: random.uuid(script.world.nowMs()), actor, proof: actor, reason: null };
}

const intent = {
  name: "charged",
  position: 0,
  version: "1",
  effect: "charge",
  generation: 0,
  downstreamKey: "downstream",
  input: bytes("input"),
};

/** An attempt whose lease has ended; with `call`, one of its calls is under way. */
async function ended(script: Script, call: boolean) {
  const life = script.life(0, { input: bytes("input") });
  await script.first("create", ({ store }) => store.create(life, null, terms("reconcile")));
  const owner = { key: script.key, id: life.id, fence: life.fence };
  if (call) await script.first("start call", ({ store }) => store.journal.startCall(owner, intent));
  await script.passFirst(leaseMs);
  return {
    life,
    owner,
    running: guardOfFence(life.id, "in_progress", life.fence),
    unknown: guardOfFence(life.id, "unknown", life.fence),
  };
}

function lateOwner(script: Script, { life, unknown }: Awaited<ReturnType<typeof ended>>): void {
  const own = note(script, 0, "owner");
  script.actor("owner", 0, async (call) => {
    const done = await call("end", ({ store }) => store.end(life, life.id, life.fence, complete("owner")));
    if (done !== null) return;
    const settlement = { event: "settle_completed", answer: bytes("owner"), retention } as const;
    const settled = await call("settle", ({ store }) =>
      store.settlement.settle(script.key, unknown, settlement, own),
    );
    if (settled === true) script.world.tally.count("late owner has settled");
  });
}

export const lateOwnerAgainstOperator = callScenario({
  name: "late-owner",
  about:
    "an unknown: the late owner, an operator who says that nothing happened, and whoever takes it over then",
  ...all,
  async write(script) {
    const dead = await ended(script, false);
    const { key } = script;
    lateOwner(script, dead);
    const audited = note(script, 1, "operator");
    const token = script.token(1);
    script.actor("operator", 1, async (call) => {
      await call("give up", ({ store }) => store.giveUp(key, dead.running, "x", null), "may_miss");
      const settlement = {
        event: "settle_not_executed",
        calls: "never-happened",
        reopen: null,
        resumeAfterMs: null,
      } as const;
      const settled = await call("settle", ({ store }) =>
        store.settlement.settle(key, dead.unknown, settlement, audited),
      );
      if (settled !== true) return;
      script.world.tally.count("operator has settled");
      const guard = guardOfFence(dead.life.id, "retryable", dead.life.fence);
      const taken = await call(
        "take over",
        ({ store }) => store.takeOver(key, guard, fingerprint, token, terms()),
        "may_miss",
      );
      if (taken === null) return;
      // Unknown once more, and not the doubt that the late owner knows.
      const doubt = { event: "doubt", errorCode: "x", reconcileAfterMs: null } as const;
      await call("doubt", ({ store }) => store.end(key, taken.id, taken.fence, doubt));
    });
    script.actor("rescuer", 2, (call) =>
      call("give up", ({ store }) => store.giveUp(key, dead.running, "y", 0), "may_miss"),
    );
  },
});

/** I6: what was decided about one doubt does not hold for a later one. */
export const staleSettlement = callScenario({
  name: "stale-settlement",
  about: "an unknown that was settled, gone on with and is unknown again: who has judged it before, and now",
  ...all,
  async write(script) {
    const { life, running, unknown } = await ended(script, false);
    const { key } = script;
    const notExecuted = {
      event: "settle_not_executed",
      calls: "never-happened",
      reopen: null,
      resumeAfterMs: null,
    } as const;
    const before = note(script, 1, "operator");
    await script.first("give up", ({ store }) => store.giveUp(key, running, "x", null));
    await script.first("settle", ({ store }) => store.settlement.settle(key, unknown, notExecuted, before));
    const retryable = guardOfFence(life.id, "retryable", life.fence);
    const token = script.token(1);
    const { fence } = await script.first("take over", ({ store }) =>
      store.takeOver(key, retryable, fingerprint, token, terms()),
    );
    const doubt = { event: "doubt", errorCode: "x", reconcileAfterMs: null } as const;
    await script.first("doubt", ({ store }) => store.end(key, life.id, fence, doubt));
    const answered = { event: "settle_completed", answer: bytes("owner"), retention } as const;
    for (const [index, guard] of [unknown, guardOfFence(life.id, "unknown", fence)].entries()) {
      const audited = note(script, index, `judge ${index}`);
      script.actor(`judge ${index}`, index, async (call) => {
        const settlement = index === 0 ? answered : notExecuted;
        await call("settle", ({ store }) => store.settlement.settle(key, guard, settlement, audited));
      });
    }
  },
});

export const twoReconcilers = callScenario({
  name: "two-reconcilers",
  about:
    "an unknown whose call is in doubt: two reconcilers claim and settle it, and its owner gets a reply from the other side",
  ...all,
  async write(script) {
    const dead = await ended(script, true);
    const { key } = script;
    await script.first("give up", ({ store }) => store.giveUp(key, dead.running, "x", 0));
    script.actor("owner", 0, async (call) => {
      const end = { event: "finish", result: bytes("charge 1") } as const;
      await call("end call", ({ store }) => store.journal.endCall(dead.owner, intent, end));
      const found = {
        event: "settle_call",
        call: "charged",
        generation: 0,
        result: bytes("charge 1"),
      } as const;
      const own = note(script, 0, "owner");
      await call("settle", ({ store }) =>
        store.settlement.settle(key, dead.unknown, { ...found, resumeAfterMs: 0 }, own),
      );
    });
    for (const index of [1, 2]) {
      const audited = note(script, index, "outcome-reconciler");
      script.actor(`reconciler ${index}`, index, async (call) => {
        const claimed = await call(
          "claim",
          ({ store }) => store.settlement.claimUnknowns(["op"], 1, 60_000),
          "may_miss",
        );
        if (claimed === null || claimed.length === 0) return;
        script.world.tally.count("unknown claimed");
        const reopen = { call: "charged", generation: 0, downstreamKey: "downstream, once more" };
        const settlement = {
          event: "settle_not_executed",
          calls: "never-happened",
          reopen,
          resumeAfterMs: 0,
        } as const;
        await call("settle", ({ store }) => store.settlement.settle(key, dead.unknown, settlement, audited));
      });
    }
  },
});

export const callAgainstTakeOver = callScenario({
  name: "call-against-take-over",
  about: "an owner starts and ends a call while its lease has ended and another takes over and calls",
  ...all,
  async write(script) {
    const dead = await ended(script, false);
    const { key } = script;
    script.actor("owner", 0, async (call) => {
      const started = await call("start call", ({ store }) => store.journal.startCall(dead.owner, intent));
      if (started === null) return;
      const end = { event: "finish", result: bytes("charge 1") } as const;
      await call("end call", ({ store }) => store.journal.endCall(dead.owner, intent, end));
    });
    const token = script.token(1);
    script.actor("other", 1, async (call) => {
      const taken = await call(
        "take over",
        ({ store }) => store.takeOver(key, dead.running, fingerprint, token, terms()),
        "may_miss",
      );
      if (taken === null) return;
      script.world.tally.count("taken over");
      const owner = { ...dead.owner, fence: taken.fence };
      await call("start call", ({ store }) => store.journal.startCall(owner, intent));
      await call("end call", ({ store }) =>
        store.journal.endCall(owner, intent, { event: "refuse", result: bytes("no") }),
      );
    });
    script.actor("rescuer", 2, (call) =>
      call("give up", ({ store }) => store.giveUp(key, dead.running, "y", 0), "may_miss"),
    );
  },
});
