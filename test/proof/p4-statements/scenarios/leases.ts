/** Attempts under a lease: admission, take-over, renewal, ends, rescue. */
import {
  callScenario,
  complete,
  fingerprint,
  guardOfFence,
  leaseMs,
  type Script,
  terms,
} from "../call-scenario.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

const all = { isolations: everyIsolation, faults: faultKinds };

/** An attempt that has begun, and its guard. */
async function begun(script: Script, leaseEnd: "rerun" | "resume" | "reconcile" = "rerun") {
  const life = script.life(0, { input: Buffer.from("input") });
  await script.first("create", ({ store }) => store.create(life, null, terms(leaseEnd)));
  return { life, guard: guardOfFence(life.id, "in_progress", life.fence) };
}

function takesOver(script: Script, name: string, index: number, guard: ReturnType<typeof guardOfFence>) {
  const token = script.token(index);
  const { key } = script;
  script.actor(name, index, async (call) => {
    const taken = await call(
      "take over",
      ({ store }) => store.takeOver(key, guard, fingerprint, token, terms()),
      "may_miss",
    );
    if (taken === null) return;
    script.world.tally.count("taken over");
    await call("end", ({ store }) => store.end(key, taken.id, taken.fence, complete(name)));
  });
}

export const admissions = callScenario({
  name: "admissions",
  about: "two leases and a deferred request begin a life of one key at once",
  ...all,
  async write(script) {
    for (const index of [0, 1]) {
      const life = script.life(index);
      script.actor(`lease ${index}`, index, async (call) => {
        const record = await call("create", ({ store }) => store.create(life, null, terms()));
        if (record !== null) {
          await call("end", ({ store }) => store.end(life, life.id, life.fence, { event: "release" }));
        }
      });
    }
    const life = script.life(2);
    script.actor("deferred", 2, (call) => call("accept", ({ store }) => store.accept(life, null, 60_000)));
  },
});

export const ownerAgainstTakeOver = callScenario({
  name: "owner-against-take-over",
  about: "the lease ends while its owner renews and completes, and another takes over",
  ...all,
  async write(script) {
    const { life, guard } = await begun(script);
    script.moment("the lease ends", leaseMs);
    script.actor("owner", 0, async (call) => {
      await call("renew", ({ store }) => store.renew(life, life.id, life.fence, leaseMs));
      const ended = await call("end", ({ store }) => store.end(life, life.id, life.fence, complete("owner")));
      if (ended !== null) return;
      script.world.tally.count("owner has lost");
      await call("renew again", ({ store }) => store.renew(life, life.id, life.fence, leaseMs));
    });
    takesOver(script, "other", 1, guard);
  },
});

export const everybodyAtTheEnd = callScenario({
  name: "everybody-at-the-end",
  about:
    "an attempt at the end of its lease: its owner, its heartbeat, two that take over, and the lease-rescuer",
  ...all,
  async write(script) {
    const { life, guard } = await begun(script);
    script.moment("the lease ends", leaseMs);
    script.actor("heartbeat", 0, (call) =>
      call("renew", ({ store }) => store.renew(life, life.id, life.fence, leaseMs)),
    );
    script.actor("owner", 0, async (call) => {
      const ended = await call("end", ({ store }) => store.end(life, life.id, life.fence, complete("owner")));
      if (ended === null) script.world.tally.count("owner has lost");
    });
    takesOver(script, "one", 1, guard);
    takesOver(script, "two", 2, guard);
    script.actor("rescuer", 3, async (call) => {
      const done = await call(
        "give up",
        ({ store }) => store.giveUp(life, guard, "lease-ended", null),
        "may_miss",
      );
      if (done === true) script.world.tally.count("given up");
    });
  },
});

export const retryableTwice = callScenario({
  name: "retryable-twice",
  about: "two take over a life that waits for its next attempt; the former owner repeats its end",
  ...all,
  async write(script) {
    const { life } = await begun(script);
    const later = { event: "retry_later", errorCode: "x", resumeAfterMs: null } as const;
    await script.first("retry later", ({ store }) => store.end(life, life.id, life.fence, later));
    const guard = guardOfFence(life.id, "retryable", life.fence);
    takesOver(script, "one", 1, guard);
    takesOver(script, "two", 2, guard);
    script.actor("owner", 0, (call) =>
      call("end", ({ store }) => store.end(life, life.id, life.fence, complete("owner"))),
    );
  },
});

/** I12: whatever its times say, what runs is not the record-cleaner's. */
export const attemptPastExpiry = callScenario({
  name: "attempt-past-expiry",
  about: "an attempt past its expiry: its owner, the record-cleaner and the lease-rescuer",
  ...all,
  async write(script) {
    const { life, guard } = await begun(script);
    await script.passFirst(terms().abandonAfterMs);
    script.actor("owner", 0, (call) =>
      call("end", ({ store }) => store.end(life, life.id, life.fence, complete("owner"))),
    );
    script.actor("cleaner", 1, (call) => call("clean", ({ store }) => store.clean(10), "sweep"));
    script.actor("rescuer", 2, async (call) => {
      const found = await call("look", async ({ store }) => (await store.endedLeases(10)).length);
      if (found === 0) return;
      await call("give up", ({ store }) => store.giveUp(life, guard, "past-expiry", null), "may_miss");
    });
  },
});
