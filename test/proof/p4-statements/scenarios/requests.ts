/** Requests for one key, through the whole of Latchkey. */

import { recordCleaner } from "../../../../packages/latchkey/src/workers/record-cleaner.ts";
import {
  brokenAdmission,
  brokenAnswers,
  brokenMisuse,
  type Request,
  transactionRequest,
  wordsOf,
} from "../requests.ts";
import {
  type Cast,
  everyIsolation,
  type FaultKind,
  faultKinds,
  type Scenario,
  type Tx,
  type World,
} from "../scenario.ts";
import type { Seen } from "../seen.ts";

/** Whatever became of the others, the client that comes again gets the first result, or runs it. */
function judged(
  world: World,
  requests: readonly Request[],
  again: Request,
  moments: Cast["moments"] = [],
): Cast {
  return {
    actors: requests,
    moments,
    aftermath: () => again.run().then(() => {}),
    async check(seen, fault) {
      const last = again.answered();
      const ended = last?.kind === "executed" || last?.kind === "replay";
      const all = [...requests, again];
      return [
        ...(ended ? [] : [`L1: the client that came again got ${last === null ? "nothing" : wordsOf(last)}`]),
        ...brokenAnswers({ requests: all, seen }),
        ...brokenMisuse(all),
        ...(isOrderly(world, fault) ? brokenAdmission(all) : []),
        ...brokenCount(seen.effects.length, world),
      ];
    },
  };
}

function brokenCount(effects: number, { tally }: World): readonly string[] {
  tally.count("effects enqueued", effects);
  return [];
}

const same = { input: { amount: 1 } };

export const requestTwice: Scenario = {
  name: "request-twice",
  about: "one request twice, `transaction`",
  isolations: everyIsolation,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three] = world.sessions;
    if (!one || !two || !three) throw new TypeError("Three sessions");
    const requests = [one, two].map((session) =>
      transactionRequest(world, session, { ...same, enqueues: true }),
    );
    return judged(world, requests, transactionRequest(world, three, { ...same, enqueues: true }));
  },
};

const optimistic = { admission: "optimistic" } as const;
/** At SERIALIZABLE there is no optimistic admission. */
const optimisticIsolations = everyIsolation.filter((isolation) => isolation !== "serializable");

export const optimisticTwice: Scenario = {
  name: "optimistic-twice",
  about: "one request twice, `transaction`, both handlers started before they are admitted",
  isolations: optimisticIsolations,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three] = world.sessions;
    if (!one || !two || !three) throw new TypeError("Three sessions");
    const asking = { ...same, enqueues: true, options: optimistic };
    const requests = [one, two].map((session) => transactionRequest(world, session, asking));
    return judged(world, requests, transactionRequest(world, three, asking));
  },
};

export const optimisticAndAnother: Scenario = {
  name: "optimistic-and-another",
  about:
    "one request under optimistic admission, the same under the ordinary one, and another body under their key",
  isolations: optimisticIsolations,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three, four] = world.sessions;
    if (!one || !two || !three || !four) throw new TypeError("Four sessions");
    const requests = [
      transactionRequest(world, one, { ...same, options: optimistic }),
      transactionRequest(world, two, same),
      transactionRequest(world, three, { input: { amount: 2 }, options: optimistic }),
    ];
    const winner = () =>
      requests.find((request) => request.answered()?.kind === "executed")?.input ?? same.input;
    return judgedLate(world, requests, () =>
      transactionRequest(world, four, { input: winner(), options: optimistic }),
    );
  },
};

export const requestAndAnother: Scenario = {
  name: "request-and-another",
  about: "one request twice and another body under its key, `transaction`",
  isolations: everyIsolation,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three, four] = world.sessions;
    if (!one || !two || !three || !four) throw new TypeError("Four sessions");
    const requests = [
      transactionRequest(world, one, same),
      transactionRequest(world, two, same),
      transactionRequest(world, three, { input: { amount: 2 } }),
    ];
    const winner = () =>
      requests.find((request) => request.answered()?.kind === "executed")?.input ?? same.input;
    return judgedLate(world, requests, () => transactionRequest(world, four, { input: winner() }));
  },
};

/** As `judged`, where what the last client asks depends on who has won. */
function judgedLate(world: World, requests: readonly Request[], makeLast: () => Request): Cast {
  let last: Request | null = null;
  return {
    actors: requests,
    moments: [],
    async aftermath() {
      last = makeLast();
      await last.run();
    },
    async check(seen, fault) {
      if (last === null) return ["L1: nobody came again"];
      const misused = last.answered()?.kind === "key_misuse";
      // A COMMIT in doubt may have been the other body's.
      const all = misused ? requests : [...requests, last];
      world.tally.count(misused ? "last client met the other body" : "last client was served");
      return [
        ...brokenAnswers({ requests: all, seen }),
        ...brokenMisuse(all),
        ...(isOrderly(world, fault) ? brokenAdmission(all) : []),
      ];
    },
  };
}

function isOrderly({ isolation }: World, fault: FaultKind | null): boolean {
  return fault === null && isolation === "read committed";
}

const times = { retentionMs: 60_000, forgetAfterMs: 120_000 };

/** I3 and I5: whoever gets the old answer gets its bytes; otherwise the key is begun anew, once. */
export const requestOfForgottenKey: Scenario = {
  name: "request-of-forgotten-key",
  about:
    "one request twice while its key's answer expires, the key is forgotten, and the record-cleaner comes",
  isolations: everyIsolation,
  faults: faultKinds,
  async arrange(world) {
    const [one, two, three] = world.sessions;
    if (!one || !two || !three) throw new TypeError("Three sessions");
    const first = transactionRequest(world, three, { ...same, name: "before", options: times });
    await first.run();
    const before = first.answered();
    if (before?.kind !== "executed") throw new Error("The first request runs");
    const requests = [one, two].map((session) =>
      transactionRequest(world, session, { ...same, options: times }),
    );
    const cleaner = recordCleaner(world.latchkey(three));
    return {
      actors: [...requests, { name: "cleaner", run: () => cleaner.runOnce() }],
      moments: [
        { name: "the answer expires", happen: () => world.pass(times.retentionMs) },
        {
          name: "the key is forgotten",
          after: "the answer expires",
          happen: () => world.pass(times.forgetAfterMs - times.retentionMs),
        },
      ],
      async check(seen) {
        const old = before.recordId;
        const anew = requests.filter((request) => {
          const answered = request.answered();
          return !(answered?.kind === "replay" && answered.recordId === old);
        });
        const kept = JSON.stringify(before.value);
        const wrong = requests.filter((request) => {
          const answered = request.answered();
          const isOld = answered?.kind === "replay" && answered.recordId === old;
          return isOld && JSON.stringify(answered.value) !== kept;
        });
        return [
          ...wrong.map(({ name }) => `I3: ${name} got other bytes than the first time`),
          ...brokenAnswers({ requests: anew, seen, earlier: [old] }),
        ];
      },
    };
  },
};

/** Two keys whose handlers lock the same rows in opposite order. */
export const crossingRequests: Scenario = {
  name: "crossing-requests",
  about: "two keys whose handlers write the same two rows in opposite order",
  handlersCross: true,
  isolations: everyIsolation,
  faults: faultKinds,
  async arrange(world) {
    const accounts = world.business.replace("business", "accounts");
    const moves = (names: readonly string[], key: string) => async (tx: Tx, life: string) => {
      for (const name of names) {
        await tx.query(`update ${accounts} set amount = amount + 1 where name = $1`, [name]);
      }
      await tx.query(`insert into ${world.business} values ($1, $2, $3)`, [key, life, `request of ${key}`]);
    };
    const orders = [
      ["left", "right"],
      ["right", "left"],
    ];
    const requests = orders.map((names, index) => {
      const session = world.sessions[index];
      if (session === undefined) throw new RangeError("A session for each");
      const key = `${world.key.key} ${index}`;
      return transactionRequest(world, session, {
        ...same,
        key,
        name: `request of ${key}`,
        work: moves(names, key),
      });
    });
    return {
      actors: requests,
      moments: [],
      check: async (seen) => [...brokenAnswers({ requests, seen }), ...brokenSums(seen)],
    };
  },
};

function brokenSums({ accounts, business }: Seen): readonly string[] {
  return accounts.flatMap(({ name, amount }) =>
    amount === business.length
      ? []
      : [`I1: ${name} was written ${amount} times, and ${business.length} requests have committed`],
  );
}
