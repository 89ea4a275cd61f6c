/** Phases against heartbeats, take-over, rescue and their own late COMMIT. */
import type { Fence } from "../../../../packages/latchkey/src/engine/record.ts";
import type { Owner } from "../../../../packages/latchkey/src/stores/journal.ts";
import type { NewEffect } from "../../../../packages/latchkey/src/stores/outbox.ts";
import {
  bytes,
  callScenario,
  complete,
  fingerprint,
  guardOfFence,
  leaseMs,
  type MakeCall,
  newEffect,
  retention,
  type Script,
  terms,
  transactionsOf,
} from "../call-scenario.ts";
import { type AnyStore, hasKind } from "../calls.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

const all = { isolations: everyIsolation, faults: faultKinds };

async function begun(script: Script) {
  const life = script.life(0, { input: bytes("input") });
  await script.first("create", ({ store }) => store.create(life, null, terms("resume")));
  return { life, guard: guardOfFence(life.id, "in_progress", life.fence) };
}

interface Phase {
  readonly owner: Owner;
  readonly name: string;
  readonly by: string;
  readonly completes: boolean;
  readonly effects: readonly NewEffect[];
}

function phase(script: Script, on: AnyStore, { owner, name, by, completes, effects }: Phase) {
  const request = { owner, isolation: script.world.isolation, idleLimitMs: 30_000 };
  return transactionsOf(on).phase(request, async ({ tx }) => {
    await on.write(tx, { key: owner.key.key, life: `${owner.id}/${name}`, by });
    const position = name === "one" ? 0 : 1;
    return {
      end: "commit" as const,
      value: by,
      step: { name, position, version: "1", result: bytes(by) },
      completes: completes ? { answer: bytes(by), retention } : null,
      effects,
    };
  });
}

function heartbeat(script: Script, index: number, owner: Owner): void {
  const { key, id, fence } = owner;
  // Above that the lease goes after the COMMIT, and may stay behind.
  const rule = script.world.isolation === "read committed" ? "exact" : { outlasts: owner };
  script.actor("heartbeat", index, async (call) => {
    await call("renew", ({ store }) => store.renew(key, id, fence, leaseMs), rule);
    await call("renew again", ({ store }) => store.renew(key, id, fence, leaseMs), rule);
  });
}

/** Takes over, looks at the journal, and does what is not there. */
function takesOverAndGoesOn(script: Script, index: number, owner: Owner, completes: boolean): void {
  const { key } = script;
  const effects = completes ? [] : [newEffect(script, index, { step: "one" })];
  const guard = guardOfFence(owner.id, "in_progress", owner.fence);
  const token = script.token(index);
  script.actor("other", index, async (call) => {
    const taken = await call(
      "take over",
      ({ store }) => store.takeOver(key, guard, fingerprint, token, terms("resume")),
      "may_miss",
    );
    if (taken === null) return;
    script.world.tally.count("taken over");
    const journal = await call("journal", ({ store }) => store.journal.read(key, owner.id));
    if (journal === null || journal.steps.length > 0) return;
    await runs(script, call, {
      owner: { ...owner, fence: taken.fence },
      name: "one",
      by: "other",
      completes,
      effects,
    });
  });
}

async function runs(script: Script, call: MakeCall, what: Phase) {
  const outcome = await call("phase", (on) => phase(script, on, what), "may_miss");
  if (hasKind(outcome, "lost")) script.world.tally.count("phase lost");
  return outcome;
}

export const phaseAgainstTakeOver = callScenario({
  name: "phase-against-take-over",
  about:
    "a phase, its heartbeat, the end of its lease, and another owner that does the phase if it is not done",
  ...all,
  async write(script) {
    const { life } = await begun(script);
    const owner = { key: script.key, id: life.id, fence: life.fence };
    script.moment("the lease ends", leaseMs);
    const effects = [newEffect(script, 0, { step: "one" })];
    script.actor("owner", 0, (call) =>
      runs(script, call, { owner, name: "one", by: "owner", completes: false, effects }),
    );
    heartbeat(script, 1, owner);
    takesOverAndGoesOn(script, 2, owner, false);
  },
});

export const lastPhase = callScenario({
  name: "last-phase",
  about: "the last phase, which completes its attempt, against another owner and the lease-rescuer",
  ...all,
  async write(script) {
    const { life, guard } = await begun(script);
    const owner = { key: script.key, id: life.id, fence: life.fence };
    script.moment("the lease ends", leaseMs);
    script.actor("owner", 0, (call) =>
      runs(script, call, { owner, name: "one", by: "owner", completes: true, effects: [] }),
    );
    heartbeat(script, 0, owner);
    takesOverAndGoesOn(script, 1, owner, true);
    script.actor("rescuer", 2, async (call) => {
      const done = await call("give up", ({ store }) => store.giveUp(life, guard, "x", null), "may_miss");
      if (done === true) script.world.tally.count("given up");
    });
  },
});

export const refencedPhase = callScenario({
  name: "refenced-phase",
  about: "a phase whose COMMIT is in doubt is settled by a new token, against a take-over",
  ...all,
  async write(script) {
    const { life } = await begun(script);
    const owner = { key: script.key, id: life.id, fence: life.fence };
    const token = script.token(0);
    script.moment("the lease ends", leaseMs);
    const effects = [newEffect(script, 0, { step: "one" })];
    script.actor("owner", 0, async (call) => {
      const outcome = await runs(script, call, {
        owner,
        name: "one",
        by: "owner",
        completes: false,
        effects,
      });
      if (!hasKind(outcome, "in_doubt")) return;
      await settles(script, call, owner, token);
    });
    takesOverAndGoesOn(script, 1, owner, false);
  },
});

async function settles(script: Script, call: MakeCall, owner: Owner, token: string): Promise<void> {
  const made = await call("refence", ({ store }) => store.journal.refence(owner, token, leaseMs, 5_000));
  const there = made?.journal.steps.some(({ name }) => name === "one") === true;
  script.world.tally.count(
    made === null ? "refence lost" : `refenced, the phase is ${there ? "" : "not "}there`,
  );
  if (made === null) return;
  script.decided("owner: phase", there);
  const fence: Fence = made.fence;
  if (!there) {
    await call(
      "phase again",
      (on) =>
        phase(script, on, {
          owner: { ...owner, fence },
          name: "one",
          by: "owner again",
          completes: false,
          effects: [],
        }),
      "may_miss",
    );
  }
  await call("end", ({ store }) => store.end(script.key, owner.id, fence, complete("owner")));
}
