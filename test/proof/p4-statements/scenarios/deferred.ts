/** Deferred work: acceptance, the claims of workers, and the expiry of what nobody has claimed. */
import { bytes, callScenario, complete, leaseMs, retention, terms } from "../call-scenario.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

const all = { isolations: everyIsolation, faults: faultKinds };
const waitsMs = 60_000;

export const twoWorkers = callScenario({
  name: "two-workers",
  about: "two workers claim a pending record, while its time to wait ends and the record-cleaner comes",
  ...all,
  async write(script) {
    const life = script.life(0, { input: bytes("input"), addressable: true });
    await script.first("accept", ({ store }) => store.accept(life, null, waitsMs));
    script.moment("it has waited too long", waitsMs);
    for (const index of [0, 1]) {
      const token = script.token(index);
      script.actor(`worker ${index}`, index, async (call) => {
        const want = { operation: "op", tokens: [token], terms: terms("resume") };
        const claimed = await call("claim", ({ store }) => store.claimPending([want]), "may_miss");
        const [record] = claimed ?? [];
        if (record === undefined) return;
        script.world.tally.count("pending claimed");
        await call("end", ({ store }) => store.end(life, life.id, record.fence, complete(`worker ${index}`)));
      });
    }
    script.actor("cleaner", 2, (call) => call("clean", ({ store }) => store.clean(10), "sweep"));
  },
});

export const acceptedTwice = callScenario({
  name: "accepted-twice",
  about: "a deferred request twice, and the worker that claims it",
  ...all,
  async write(script) {
    for (const index of [0, 1]) {
      const life = script.life(index, { input: bytes("input") });
      script.actor(`request ${index}`, index, (call) =>
        call("accept", ({ store }) => store.accept(life, null, waitsMs)),
      );
    }
    const [token, again] = [script.token(2), script.token(2)];
    script.actor("worker", 2, async (call) => {
      for (const [what, one] of [
        ["claim", token],
        ["claim again", again],
      ] as const) {
        const want = { operation: "op", tokens: [one], terms: terms("resume") };
        const [record] = (await call(what, ({ store }) => store.claimPending([want]), "may_miss")) ?? [];
        if (record === undefined) continue;
        script.world.tally.count("pending claimed");
        await call("end", ({ store }) =>
          store.end(record, record.id, record.fence, {
            event: "fail",
            answer: bytes("failed"),
            retention,
            errorCode: "x",
          }),
        );
      }
    });
    script.moment("the lease ends", leaseMs);
  },
});
