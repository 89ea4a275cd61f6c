/** Attempts of one process whose reservations and ends travel together. */
import type { RecordKey } from "../../../../packages/latchkey/src/engine/record.ts";
import type { NewLife } from "../../../../packages/latchkey/src/stores/life.ts";
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

/** The same key of another tenant. */
function elsewhere(script: Script): RecordKey {
  const key = { ...script.key, tenant: "u" };
  script.watch(key);
  return key;
}

export const gatheredReservations = callScenario({
  name: "gathered-reservations",
  about:
    "three attempts of one process begin in one statement, two of them under one key, beside a process that begins the same key; those that have begun end",
  ...all,
  async write(script) {
    const other = elsewhere(script);
    const begins = (name: string, index: number, life: NewLife) =>
      script.actor(name, index, async (call) => {
        const record = await call("create", ({ store }) => store.create(life, null, terms()));
        if (record === null) return;
        script.world.tally.count(`reserved by ${name}`);
        await call("end", ({ store }) => store.end(life, life.id, life.fence, complete(name)));
      });
    begins("one", 0, script.life(0));
    begins("two", 0, script.life(0));
    begins("three", 0, script.life(0, other));
    begins("rival", 1, script.life(1));
  },
});

/** So small that every interleaving with a fault can be run. */
export const gatheredAlone = callScenario({
  name: "gathered-alone",
  about: "two attempts of one process begin in one statement and end in another, and nobody else is there",
  ...all,
  async write(script) {
    // Its two connections are there before the first choice, also after an interleaving that has killed them.
    const before = script.life(0, { scope: "before" });
    script.watch(before);
    await script.first("create", ({ store }) => store.create(before, null, terms()));
    await script.first("end", ({ store }) => store.end(before, before.id, before.fence, complete("before")));
    for (const life of [script.life(0), script.life(0, elsewhere(script))]) {
      script.actor(`attempt in ${life.tenant}`, 0, async (call) => {
        const record = await call("create", ({ store }) => store.create(life, null, terms()));
        const own = complete(life.tenant);
        if (record !== null) await call("end", ({ store }) => store.end(life, life.id, life.fence, own));
      });
    }
  },
});

export const gatheredEnds = callScenario({
  name: "gathered-ends",
  about:
    "two attempts of one process end in one statement, one of which another process takes over once its lease has ended",
  ...all,
  async write(script) {
    const { key } = script;
    const lives = [script.life(0), script.life(0, elsewhere(script))] as const;
    for (const life of lives) {
      await script.first(`create ${life.tenant}`, ({ store }) => store.create(life, null, terms()));
    }
    script.moment("the leases end", leaseMs);
    for (const life of lives) {
      script.actor(`owner in ${life.tenant}`, 0, async (call) => {
        const text = `of ${life.tenant}`;
        const ended = await call("end", ({ store }) => store.end(life, life.id, life.fence, complete(text)));
        if (ended === null) script.world.tally.count("owner has lost");
      });
    }
    const [{ id, fence }] = lives;
    const token = script.token(1);
    script.actor("other", 1, async (call) => {
      const guard = guardOfFence(id, "in_progress", fence);
      const taken = await call(
        "take over",
        ({ store }) => store.takeOver(key, guard, fingerprint, token, terms()),
        "may_miss",
      );
      if (taken === null) return;
      script.world.tally.count("taken over");
      await call("end", ({ store }) => store.end(key, taken.id, taken.fence, complete("other")));
    });
  },
});
