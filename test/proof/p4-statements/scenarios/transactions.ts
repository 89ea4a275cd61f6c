/** Transactions of one key that meet each other, leases, the record-cleaner, and their own late COMMIT. */
import { decide } from "../../../../packages/latchkey/src/engine/decide.ts";
import type { Guard, RecordKey } from "../../../../packages/latchkey/src/engine/record.ts";
import {
  type Committing,
  callScenario,
  commits,
  complete,
  fingerprint,
  guardOfFence,
  type MakeCall,
  retention,
  type Script,
  terms,
  transactionsOf,
} from "../call-scenario.ts";
import { type AnyStore, hasKind } from "../calls.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

const all = { isolations: everyIsolation, faults: faultKinds };

/**
 * Commits; a COMMIT in doubt is resolved.
 *
 * @param mayBeForgotten that no record is there proves nothing then, so that who asks leaves it in doubt
 */
async function commitsAndResolves(
  script: Script,
  actor: string,
  call: MakeCall,
  what: Committing,
  mayBeForgotten = false,
): Promise<void> {
  const { life } = what;
  const { tally, isolation } = script.world;
  const outcome = await call("commit", (on) => commits(on, { ...what, isolation }), "may_miss");
  if (hasKind(outcome, "lost")) tally.count("transaction lost to another");
  if (hasKind(outcome, "refused")) tally.count("transaction refused");
  if (!hasKind(outcome, "in_doubt")) return;
  // Its answer is judged as a part of the call that it tells of.
  const resolved = await transactionsOf({ store: script.session(Number(actor)).store, write: async () => {} })
    .resolve(life, life.id, life.fence, 5_000)
    .catch(() => "in_doubt" as const);
  tally.count(`resolved: ${resolved}`);
  if (resolved === "rolled_back" && mayBeForgotten) return;
  if (resolved !== "in_doubt") script.decided(`${actor}: commit`, resolved === "committed");
}

/** Both have looked and seen nothing: neither asks who has the lock. */
export const commitsTwice = callScenario({
  name: "commits-twice",
  about: "two transactions of one key, both past their look-up; COMMIT in doubt is resolved",
  ...all,
  async write(script) {
    for (const index of [0, 1]) {
      const life = script.life(index);
      script.actor(String(index), index, (call) =>
        commitsAndResolves(script, String(index), call, { by: `owner ${index}`, life }),
      );
    }
  },
});

/** Nobody else is there: what comes of its COMMIT is between it and the network. */
export const lateCommit = callScenario({
  name: "late-commit",
  about: "one transaction whose COMMIT may come late, never, or unanswered, and how it is resolved",
  ...all,
  async write(script) {
    const life = script.life(0);
    script.actor("0", 0, (call) => commitsAndResolves(script, "0", call, { by: "owner 0", life }));
  },
});

export const commitAgainstLease = callScenario({
  name: "commit-against-lease",
  about: "a transaction, a lease and a deferred request begin a life of one key",
  ...all,
  async write(script) {
    const life = script.life(0);
    script.actor("0", 0, (call) => commitsAndResolves(script, "0", call, { by: "owner 0", life }));
    const leased = script.life(1);
    script.actor("lease", 1, async (call) => {
      const record = await call("create", ({ store }) => store.create(leased, null, terms()));
      if (record === null) return;
      await call("end", ({ store }) => store.end(leased, leased.id, leased.fence, complete("lease")));
    });
    const deferred = script.life(2);
    script.actor("deferred", 2, (call) =>
      call("accept", ({ store }) => store.accept(deferred, null, 60_000)),
    );
  },
});

export const commitAgainstTakeOver = callScenario({
  name: "commit-against-take-over",
  about: "a transaction and a lease go on with one life that waits for its next attempt",
  ...all,
  async write(script) {
    const first = script.life(0);
    await script.first("create", ({ store }) => store.create(first, null, terms()));
    const later = { event: "retry_later", errorCode: "x", resumeAfterMs: null } as const;
    await script.first("retry later", ({ store }) => store.end(first, first.id, first.fence, later));
    const guard = guardOfFence(first.id, "retryable", first.fence);
    const life = { ...first, fence: { attempt: 2, token: script.token(0) } };
    script.actor("0", 0, (call) =>
      commitsAndResolves(script, "0", call, { by: "owner 0", life, replaces: guard }),
    );
    const token = script.token(1);
    script.actor("lease", 1, async (call) => {
      const taken = await call(
        "take over",
        ({ store }) => store.takeOver(first, guard, fingerprint, token, terms()),
        "may_miss",
      );
      if (taken === null) return;
      script.world.tally.count("taken over");
      await call("end", ({ store }) => store.end(first, taken.id, taken.fence, complete("lease")));
    });
    const lost = { ...first, fence: { attempt: 2, token: script.token(2) } };
    script.actor("changed", 2, (call) =>
      call("lose", ({ store }) => store.recordLostTransaction(lost, guard, "transaction-changed")),
    );
  },
});

/** The reply that a request would get, or what it may do: it does not depend on the record-cleaner. */
async function verdict({ store }: AnyStore, key: RecordKey): Promise<string> {
  const { record, now } = await store.read(key);
  const request = { operation: "op", fingerprint, principal: null, token: "", attemptsMax: 5 } as const;
  const decided = decide(record, { ...request, reuse: "reject", leaseEnd: "reconcile" }, now);
  return decided.kind === "answer" ? decided.decision.kind : decided.kind;
}

/** A key whose answer is past its time. */
async function forgotten(script: Script, passMs: number): Promise<Guard> {
  const life = script.life(0);
  await script.first("commit", (on) => commits(on, { by: "before", life }));
  await script.passFirst(passMs);
  return guardOfFence(life.id, "completed", life.fence);
}

export const forgottenKey = callScenario({
  name: "forgotten-key",
  about: "a key past its time: a transaction, a lease, the record-cleaner and a reader at once",
  ...all,
  async write(script) {
    const guard = await forgotten(script, retention.forgetAfterMs);
    const { key } = script;
    const life = script.life(0);
    script.actor("0", 0, (call) =>
      commitsAndResolves(script, "0", call, { by: "owner 0", life, replaces: guard }),
    );
    const leased = script.life(1);
    script.actor("lease", 1, (call) => call("create", ({ store }) => store.create(leased, guard, terms())));
    script.actor("cleaner", 2, (call) => call("clean", ({ store }) => store.clean(10), "sweep"));
    script.actor("reader", 3, (call) => call("read", (on) => verdict(on, key)));
  },
});

export const keyBeingForgotten = callScenario({
  name: "key-being-forgotten",
  about: "a key passes its times while it is read, cleaned twice, and begun anew without looking",
  ...all,
  async write(script) {
    await forgotten(script, 0);
    const { key } = script;
    script.moment("the answer expires", retention.retentionMs);
    script.moment("the key is forgotten", retention.forgetAfterMs - retention.retentionMs);
    script.actor("reader", 0, (call) => call("read", (on) => verdict(on, key)));
    const life = script.life(1);
    script.actor("1", 1, (call) => commitsAndResolves(script, "1", call, { by: "owner 1", life }));
    script.actor("cleaner", 2, async (call) => {
      await call("clean", ({ store }) => store.clean(10), "sweep");
      await call("clean again", ({ store }) => store.clean(10), "sweep");
    });
  },
});

/** I1: whoever is that late must not do the work of a life again that has come and gone. */
export const lifeOverMeanwhile = callScenario({
  name: "life-over-meanwhile",
  about:
    "a transaction goes on with a life that another takes over, completes and sees forgotten before it commits",
  ...all,
  async write(script) {
    const first = script.life(0);
    await script.first("create", ({ store }) => store.create(first, null, terms()));
    const later = { event: "retry_later", errorCode: "x", resumeAfterMs: null } as const;
    await script.first("retry later", ({ store }) => store.end(first, first.id, first.fence, later));
    const guard = guardOfFence(first.id, "retryable", first.fence);
    const life = { ...first, fence: { attempt: 2, token: script.token(0) } };
    script.actor("0", 0, (call) =>
      commitsAndResolves(script, "0", call, { by: "owner 0", life, replaces: guard }, true),
    );
    const next = { ...first, fence: { attempt: 2, token: script.token(1) } };
    script.actor("other", 1, async (call) => {
      const outcome = await call(
        "commit",
        (on) => commits(on, { by: "other", life: next, replaces: guard, isolation: script.world.isolation }),
        "may_miss",
      );
      if (hasKind(outcome, "committed")) script.world.tally.count("life over");
    });
    script.moment("the key is forgotten", retention.forgetAfterMs);
    script.actor("cleaner", 2, (call) => call("clean", ({ store }) => store.clean(10), "sweep"));
  },
});
