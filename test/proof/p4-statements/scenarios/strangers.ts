/** Different tenants at once: nobody waits for anybody, and nobody makes another fail. */
import { bytes, fingerprint, terms, transactionsOf } from "../call-scenario.ts";
import { brokenAnswers, transactionRequest } from "../requests.ts";
import { everyIsolation, type Scenario, type World } from "../scenario.ts";

const signs = ["step blocked", "SQLSTATE 40001", "SQLSTATE 40P01"];

/** A phase of a life that has nothing to do with the others. */
async function phaseOfItsOwn(world: World) {
  const session = world.sessions[2];
  if (session === undefined) throw new RangeError("Three sessions");
  const { store, random } = session;
  const key = { tenant: "third", scope: "op", key: `${world.key.key} 2` };
  const fence = { attempt: 1, token: random.token() };
  const id = random.uuid(world.nowMs());
  const life = { ...key, id, operation: "op", fingerprint, principal: null, fence };
  await store.create(life, null, terms("resume"));
  const run = () =>
    transactionsOf({ store, write: async () => {} }).phase(
      { owner: { key, id, fence }, isolation: world.isolation, idleLimitMs: 30_000 },
      async () => ({
        end: "commit" as const,
        value: null,
        step: { name: "one", position: 0, version: "1", result: bytes("one") },
        completes: null,
        effects: [],
      }),
    );
  const beat = () => store.renew(key, id, fence, 30_000);
  return [
    { name: "phase", run },
    { name: "heartbeat", run: beat },
  ];
}

export const strangers: Scenario = {
  name: "strangers",
  about:
    "two requests and a phase, of three keys and tenants, and a heartbeat: nobody waits, and nobody fails",
  isolations: everyIsolation,
  faults: [],
  async arrange(world) {
    const requests = [0, 1].map((index) => {
      const session = world.sessions[index];
      if (session === undefined) throw new RangeError("A session for each");
      const key = `${world.key.key} ${index}`;
      return transactionRequest(world, session, { key, tenant: `tenant ${index}`, input: { amount: 1 } });
    });
    const others = await phaseOfItsOwn(world);
    const before = signs.map((sign) => world.tally.of(sign));
    return {
      actors: [...requests, ...others],
      moments: [],
      async check(seen) {
        const met = signs.filter((sign, index) => world.tally.of(sign) > (before[index] ?? 0));
        const done = requests.filter((request) => request.answered()?.kind === "executed").length;
        return [
          ...met.map((sign) => `I11: ${sign}, and nobody has anything to do with another`),
          ...(done === requests.length ? [] : [`L1: ${done} of ${requests.length} requests have run`]),
          ...brokenAnswers({ requests, seen }),
        ];
      },
    };
  },
};
