/** The outbox: dispatchers, the rescue of claims, people, and the record-cleaner. */
import type { Owner } from "../../../../packages/latchkey/src/stores/journal.ts";
import type {
  DeliveryEnd,
  EffectClaim,
  NewEffect,
  OutboxEffect,
} from "../../../../packages/latchkey/src/stores/outbox.ts";
import {
  bytes,
  callScenario,
  commits,
  fingerprint,
  guardOfFence,
  leaseMs,
  type MakeCall,
  mailOf,
  newEffect,
  outboxOf,
  retention,
  type Script,
  terms,
  transactionsOf,
} from "../call-scenario.ts";
import { type AnyStore, hasKind } from "../calls.ts";
import { everyIsolation, faultKinds, type Scenario } from "../scenario.ts";

const all = { isolations: everyIsolation, faults: faultKinds };
const keepMs = 60_000;

async function enqueued(script: Script, effects: readonly NewEffect[]) {
  const life = script.life(0);
  await script.first("commit", (on) => commits(on, { by: "before", life, effects }));
  return life;
}

function claims(script: Script, call: MakeCall, index: number, starts = false) {
  const token = script.token(index);
  return call(
    "claim",
    (on) => outboxOf(on).claim([{ effect: mailOf(script.world), limit: 1, starts }], token, leaseMs),
    "may_miss",
  );
}

function claimOf({ id, fence }: OutboxEffect): EffectClaim {
  return { id, fence };
}

type Ends = (claim: EffectClaim) => DeliveryEnd;

/** Claims one, begins its send, and says how it ended. */
function dispatcher(script: Script, index: number, end: Ends, starts = false): void {
  script.actor(`dispatcher ${index}`, index, async (call) => {
    const [effect] = (await claims(script, call, index, starts)) ?? [];
    if (effect === undefined) return;
    script.world.tally.count("effect claimed");
    const claim = claimOf(effect);
    const started = starts ? [effect.id] : await call("start", (on) => outboxOf(on).start([claim], leaseMs));
    if (started?.length === 0) script.world.tally.count("claim lost before its send");
    if (started === null || started.length === 0) return;
    const ended = await call("end", (on) => outboxOf(on).end([end(claim)]));
    if (ended?.length === 0) script.world.tally.count("claim lost before its end");
  });
}

/** Ends the page, and once more if the store has not answered, as a worker does while its claim holds. */
async function endsPage(script: Script, call: MakeCall, page: readonly DeliveryEnd[]): Promise<void> {
  const end = (on: AnyStore) => outboxOf(on).end(page);
  const ended = (await call("end", end)) ?? (await call("end again", end));
  if (ended !== null && ended.length < page.length) script.world.tally.count("claim lost before its end");
}

/** Accidents are over: another dispatcher delivers what is left. */
function anotherDelivers(script: Script, end: Ends): void {
  script.afterwards(async (call, pass) => {
    await pass(leaseMs);
    await call(3, "rescue", (on) => outboxOf(on).rescue(10));
    const wants = [{ effect: mailOf(script.world), limit: 10, starts: true }];
    for (;;) {
      const token = script.token(1);
      const claimed = await call(1, "claim", (on) => outboxOf(on).claim(wants, token, leaseMs));
      if (claimed === null || claimed.length === 0) return;
      await call(1, "end", (on) => outboxOf(on).end(claimed.map(claimOf).map(end)));
    }
  });
}

function rescuer(script: Script, index: number): void {
  script.actor("rescuer", index, async (call) => {
    const rescued = await call("rescue", (on) => outboxOf(on).rescue(10), "may_miss");
    if (rescued !== null && rescued.started + rescued.unstarted > 0)
      script.world.tally.count("claim rescued");
  });
}

const delivers =
  (keptMs: number): Ends =>
  (claim) => ({ ...claim, event: "deliver", result: bytes("sent"), keepMs: keptMs });
const keeps = delivers(keepMs);
const removes = delivers(0);
const retries: Ends = (claim) => ({
  ...claim,
  event: "retry",
  errorCode: "x",
  afterMs: 0,
  doubtful: true,
  returned: true,
});

/** A scenario of deliveries that are kept for a while, and the same with effects that are removed as they are delivered. */
function keptAndRemoved(
  name: string,
  about: string,
  write: (script: Script, end: Ends) => Promise<void>,
): readonly [Scenario, Scenario] {
  const removed = { name: `${name}-removed`, about: `${about}; what is delivered is removed` };
  return [
    callScenario({ name, about, ...all, write: (script) => write(script, keeps) }),
    callScenario({ ...removed, ...all, write: (script) => write(script, removes) }),
  ];
}

export const [twoDispatchers, twoDispatchersRemoved] = keptAndRemoved(
  "two-dispatchers",
  "two dispatchers, the end of a claim's lease, and its rescue",
  async (script, end) => {
    await enqueued(script, [newEffect(script, 0)]);
    script.moment("the claim ends", leaseMs);
    dispatcher(script, 0, end);
    dispatcher(script, 1, end);
    rescuer(script, 2);
    anotherDelivers(script, end);
  },
);

export const startingClaims = callScenario({
  name: "starting-claims",
  about: "two dispatchers whose claim is the start, one of which tries again later",
  ...all,
  async write(script) {
    await enqueued(script, [newEffect(script, 0)]);
    script.moment("the claim ends", leaseMs);
    dispatcher(script, 0, retries, true);
    dispatcher(script, 1, keeps, true);
    rescuer(script, 2);
  },
});

export const [orderedEffects, orderedEffectsRemoved] = keptAndRemoved(
  "ordered-effects",
  "two effects of one ordered aggregate, and two dispatchers",
  async (script, end) => {
    const ordered = { aggregate: "order-1", ordered: true };
    await enqueued(script, [newEffect(script, 0, ordered), newEffect(script, 1, ordered)]);
    dispatcher(script, 0, end);
    dispatcher(script, 1, end);
    anotherDelivers(script, end);
  },
);

/** How the second delivery of a page may end of which the first is removed. */
const secondEnds = [removes, keeps, retries];

export const removedPage = callScenario({
  name: "removed-page",
  about:
    "two deliveries end in one statement after their lease: the first is removed; the second is removed, kept or tried again. Against a rescue and another dispatcher, which removes what it claims",
  ...all,
  async write(script) {
    const { world } = script;
    const second = secondEnds[world.pick("the second end", secondEnds.length) - 1] ?? removes;
    await enqueued(script, [newEffect(script, 0), newEffect(script, 1)]);
    const wants = [{ effect: mailOf(world), limit: 2, starts: true }];
    const [token, another] = [script.token(0), script.token(0)];
    const page = await script.first("claim", (on) => outboxOf(on).claim(wants, token, leaseMs));
    const [one, two] = page.map(claimOf);
    if (one === undefined || two === undefined) throw new Error("Both effects are there");
    await script.passFirst(leaseMs);
    script.actor("one", 1, (call) => endsPage(script, call, [removes(one), second(two)]));
    // In the session that has claimed before: the first claim of a process has two steps more.
    script.actor("two", 0, async (call) => {
      await call("rescue", (on) => outboxOf(on).rescue(10), "may_miss");
      const claimed = await call("claim", (on) => outboxOf(on).claim(wants, another, leaseMs), "may_miss");
      if (claimed !== null && claimed.length > 0)
        await endsPage(script, call, claimed.map(claimOf).map(removes));
    });
    anotherDelivers(script, removes);
  },
});

/** The transaction that ends a delivery. */
function endsInTransaction(script: Script, on: AnyStore, claim: EffectClaim, by: string) {
  return transactionsOf(on).deliver(
    { claim, tenant: script.key.tenant, idleLimitMs: 30_000, keepMs },
    async ({ tx }) => {
      await on.write(tx, { key: script.key.key, life: `${claim.id}/delivered`, by });
      return { end: "commit" as const, value: by, answers: null };
    },
  );
}

export const deliveryAgainstRescue = callScenario({
  name: "delivery-against-rescue",
  about:
    "the transaction that ends a delivery, against the end of its claim, its rescue and another delivery",
  ...all,
  async write(script) {
    const effect = newEffect(script, 0);
    await enqueued(script, [effect]);
    const token = script.token(0);
    const [first] = await script.first("claim", (on) =>
      outboxOf(on).claim([{ effect: mailOf(script.world), limit: 1, starts: true }], token, leaseMs),
    );
    if (first === undefined) throw new Error("The effect is there");
    script.moment("the claim ends", leaseMs);
    script.actor("one", 0, (call) =>
      call("deliver", (on) => endsInTransaction(script, on, claimOf(first), "one"), "may_miss"),
    );
    rescuer(script, 1);
    script.actor("two", 2, async (call) => {
      const [claimed] = (await claims(script, call, 2)) ?? [];
      if (claimed === undefined) return;
      script.world.tally.count("effect claimed");
      await call("deliver", (on) => endsInTransaction(script, on, claimOf(claimed), "two"), "may_miss");
    });
  },
});

export const [deadEffect, deadEffectRemoved] = keptAndRemoved(
  "dead-effect",
  "two people decide about a dead effect, and a dispatcher looks for work",
  async (script, end) => {
    const effect = newEffect(script, 0);
    await enqueued(script, [effect]);
    const token = script.token(0);
    const claimed = await script.first("claim", (on) =>
      outboxOf(on).claim([{ effect: mailOf(script.world), limit: 1 }], token, leaseMs),
    );
    const ends = claimed.map(
      (one): DeliveryEnd => ({ ...claimOf(one), event: "die", errorCode: "x", returned: false }),
    );
    await script.first("die", (on) => outboxOf(on).end(ends));
    const note = (index: number) => {
      const id = script.session(index).random.uuid(script.world.nowMs());
      return { id, actor: `person ${index}`, reason: null };
    };
    const [one, two] = [note(0), note(1)];
    script.actor("one", 0, (call) =>
      call("redrive", (on) =>
        outboxOf(on).decide(effect.id, { event: "redrive", attempt: 1, doubt: "kept" }, one),
      ),
    );
    script.actor("two", 1, (call) =>
      call("discard", (on) => outboxOf(on).decide(effect.id, { event: "discard", attempt: 1, keepMs }, two)),
    );
    dispatcher(script, 2, end);
    anotherDelivers(script, end);
  },
);

/** I12: a key is not forgotten while an effect of it waits. */
export const cleanedEffects = callScenario({
  name: "cleaned-effects",
  about: "a key past its time whose effect is being delivered, and the record-cleaner, twice",
  ...all,
  async write(script) {
    await enqueued(script, [newEffect(script, 0)]);
    await script.passFirst(retention.forgetAfterMs);
    script.moment("the delivered effect is kept no longer", keepMs);
    dispatcher(script, 0, keeps);
    for (const index of [1, 2]) {
      script.actor(`cleaner ${index}`, index, (call) =>
        call("clean", ({ store }) => store.clean(10), "sweep"),
      );
    }
  },
});

/** A deferred operation whose answer a delivery gives. */
export const answerByDelivery = callScenario({
  name: "answer-by-delivery",
  about:
    "a delivery that completes its record, against a worker that looks after it and the rescue of the claim",
  ...all,
  async write(script) {
    const { key } = script;
    const life = script.life(0, { input: bytes("input") });
    const owner = { key, id: life.id, fence: life.fence };
    await script.first("create", ({ store }) => store.create(life, null, terms("resume")));
    const effects = [newEffect(script, 0, { step: "one" })];
    await script.first("phase", (on) => enqueuingPhase(on, owner, effects));
    const waits = { event: "retry_later", errorCode: "awaits-delivery", resumeAfterMs: 0 } as const;
    await script.first("retry later", ({ store }) => store.end(life, life.id, life.fence, waits));
    const token = script.token(0);
    const [claimed] = await script.first("claim", (on) =>
      outboxOf(on).claim([{ effect: mailOf(script.world), limit: 1, starts: true }], token, leaseMs),
    );
    if (claimed === undefined) throw new Error("The effect is there");
    const guard = guardOfFence(life.id, "retryable", life.fence);
    script.moment("the claim ends", leaseMs);
    script.actor("delivery", 0, async (call) => {
      const answers = { key, guard, answer: bytes("delivered"), retention };
      const outcome = await call(
        "deliver",
        (on) =>
          transactionsOf(on).deliver(
            { claim: claimOf(claimed), tenant: claimed.tenant, idleLimitMs: 30_000, keepMs },
            async () => ({
              end: "commit" as const,
              value: null,
              answers,
            }),
          ),
        "may_miss",
      );
      if (hasKind(outcome, "committed")) script.world.tally.count("answered by a delivery");
    });
    const workers = script.token(1);
    script.actor("worker", 1, async (call) => {
      const taken = await call(
        "take over",
        ({ store }) => store.takeOver(key, guard, fingerprint, workers, terms("resume")),
        "may_miss",
      );
      if (taken === null) return;
      await call("retry later", ({ store }) => store.end(key, taken.id, taken.fence, waits));
    });
    rescuer(script, 2);
  },
});

function enqueuingPhase(on: AnyStore, owner: Owner, effects: readonly NewEffect[]) {
  return transactionsOf(on).phase({ owner, isolation: null, idleLimitMs: 30_000 }, async ({ tx }) => {
    await on.write(tx, { key: owner.key.key, life: `${owner.id}/one`, by: "before" });
    return {
      end: "commit" as const,
      value: null,
      step: { name: "one", position: 0, version: "1", result: bytes("one") },
      completes: null,
      effects,
    };
  });
}
