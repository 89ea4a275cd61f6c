/** Calls on the outbox. */
import type {
  DeadDecision,
  DeadVerdict,
  DeliveryEnd,
  EffectWant,
  NewEffect,
  OutboxEffect,
  OutboxRescue,
} from "../../../../packages/latchkey/src/stores/outbox.ts";
import type { Store } from "../../../../packages/latchkey/src/stores/store.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { CallKinds } from "./call.ts";
import { limit, takingLimit } from "./terms.ts";
import type { CallWorld, KnownClaim } from "./world.ts";

/** Those of `ledger` are ordered: in what order its aggregates have their turn is the store's affair. */
const definitions = ["mail", "ledger"] as const;
const states = ["pending", "claimed", "started", "delivered", "dead"] as const;

/** What a transaction or a phase enqueues. */
export function someEffects(
  choices: Choices,
  world: CallWorld,
  { recordId, step }: { readonly recordId: string; readonly step: string },
): readonly NewEffect[] {
  const count = choices.pick(world.inBatches ? [0, 1, 2, 3] : [0, 1, 1]);
  return Array.from({ length: count }, (_, index) => {
    const ordered = world.inBatches && choices.oneIn(2);
    const aggregate = choices.pick(["o1", "o2"]);
    const effect: NewEffect = {
      id: world.id(),
      effect: ordered ? "ledger" : "mail",
      downstreamKey: world.name("delivery"),
      step,
      index,
      aggregate: ordered || choices.oneIn(2) ? aggregate : null,
      ordered,
      input: world.bytes("input"),
      delayMs: choices.pick([0, 0, 5_000]),
    };
    world.effects.push({ id: effect.id, recordId });
    return effect;
  });
}

function outboxOf({ outbox }: Store<unknown>) {
  if (outbox === null) throw new TypeError("The store has no outbox");
  return outbox;
}

/** On several claims at once, in a sequence that may. */
function someClaims(choices: Choices, world: CallWorld) {
  const first = world.claim(choices);
  if (first === null) return null;
  const more = world.inBatches && choices.oneIn(3) ? world.claim(choices) : null;
  const both = more === null || more.what.id === first.what.id ? [first] : [first, more];
  const flavour = both.find((one) => one.flavour !== "valid")?.flavour ?? ("valid" as const);
  return { claims: both.map(({ what }) => what), flavour };
}

export const outboxCalls: CallKinds = {
  claim(choices, world) {
    const wants = definitions.map((effect): EffectWant => {
      const most = takingLimit(world);
      return choices.oneIn(3) ? { effect, limit: most, starts: true } : { effect, limit: most };
    });
    const wanted = world.inBatches ? wants : wants.slice(0, 1);
    const [token, leaseMs] = [world.token(), choices.pick([10_000, 60_000])];
    return {
      name: "claim",
      given: [wanted, token, leaseMs],
      unordered: true,
      make: ({ store }) => outboxOf(store).claim(wanted, token, leaseMs),
      learn: (value) => {
        for (const { id, fence, tenant, recordId } of value as readonly OutboxEffect[]) {
          world.claims.push({ id, fence, tenant, recordId });
        }
      },
      counts: (value) =>
        (value as readonly OutboxEffect[]).map(({ doubtfulSince }) =>
          doubtfulSince === null ? "claimed: nothing in doubt" : "claimed: in doubt",
        ),
    };
  },

  start(choices, world) {
    const some = someClaims(choices, world);
    if (some === null) return null;
    const claims = some.claims.map(({ id, fence }) => ({ id, fence }));
    const leaseMs = choices.pick([10_000, 60_000]);
    return {
      name: "start",
      given: [claims, leaseMs],
      flavour: some.flavour,
      unordered: true,
      make: ({ store }) => outboxOf(store).start(claims, leaseMs),
    };
  },

  async endDelivery(choices, world) {
    const some = someClaims(choices, world);
    if (some === null) return null;
    const ends: DeliveryEnd[] = [];
    for (const claim of some.claims) ends.push(await someEnd(choices, world, claim));
    return {
      name: "end of deliveries",
      given: [ends],
      flavour: some.flavour,
      unordered: true,
      once: ends.some((end) => "unsent" in end),
      make: ({ store }) => outboxOf(store).end(ends),
      counts: (value) =>
        ends.flatMap(({ id, event }) =>
          (value as readonly string[]).includes(id) ? [`end of deliveries: ${event}`] : [],
        ),
    };
  },

  /** Of more claims than that, whose leases differ, stores may free others first. */
  rescue() {
    const most = 100;
    return {
      name: "rescue",
      given: [most],
      make: ({ store }) => outboxOf(store).rescue(most),
      counts: (value) => {
        const { unstarted, started } = value as OutboxRescue;
        return [
          ...(unstarted > 0 ? ["rescued: unstarted"] : []),
          ...(started > 0 ? ["rescued: started"] : []),
        ];
      },
    };
  },

  async listEffects(choices, world) {
    const known = world.effects.length > 0 && (await world.peekEffect(choices.pick(world.effects)));
    const filter = {
      state: known ? known.state : choices.pick(states),
      effect: choices.pick([null, null, ...definitions]),
      tenant: choices.pick([null, null, "a", "b"]),
      limit: limit(choices, world),
    };
    return {
      name: "list of effects",
      given: [filter],
      make: async ({ store }) => {
        const page = await outboxOf(store).list({ ...filter, after: null });
        const last = page.at(-1);
        if (last === undefined) return page;
        const after = { createdAt: last.createdAt, id: last.id };
        return [...page, ...(await outboxOf(store).list({ ...filter, after }))];
      },
    };
  },

  ofRecord(choices, world) {
    if (world.recordIds.length === 0) return null;
    const id = choices.pick(world.recordIds);
    return { name: "ofRecord", given: [id], make: ({ store }) => outboxOf(store).ofRecord(id) };
  },

  decide(choices, world) {
    if (world.effects.length === 0) return null;
    const { id } = world.effect ?? choices.pick(world.effects);
    const verdict: DeadVerdict = choices.pick([
      { event: "redrive", doubt: "kept" },
      { event: "redrive", doubt: "cleared" },
      { event: "discard", keepMs: 60_000 },
    ]);
    const decision: DeadDecision = { ...verdict, attempt: choices.pick([null, null, 1, 1, 2, 3]) };
    const note = { id: world.id(), actor: "ann", reason: choices.pick(["seen", null]) };
    return {
      name: "decide",
      given: [id, decision, note],
      make: ({ store }) => outboxOf(store).decide(id, decision, note),
      counts: (value) => (value === true ? [`decide: ${decision.event}`] : []),
    };
  },
};

async function someEnd(choices: Choices, world: CallWorld, known: KnownClaim): Promise<DeliveryEnd> {
  const { id, fence } = known;
  const claim = { id, fence };
  // What has brought a result was sent.
  const maySay = (await world.peekEffect(known))?.result === null;
  const unsent = maySay && choices.oneIn(4) ? { unsent: true } : {};
  switch (choices.choose(8)) {
    case 1:
    case 2: {
      const [doubtful, returned] = [choices.oneIn(2), choices.oneIn(2)];
      const afterMs = choices.pick([0, 5_000, 60_000]);
      return { ...claim, event: "retry", errorCode: "busy", afterMs, doubtful, returned, ...unsent };
    }
    case 3:
    case 7:
      return { ...claim, event: "die", errorCode: "refused", returned: choices.oneIn(2), ...unsent };
    case 4:
      return { ...claim, event: "give_back", ...unsent, ...(choices.oneIn(2) ? { doubtful: true } : {}) };
    case 5:
      return { ...claim, event: "keep_result", result: world.bytes("result") };
    case 6:
      return { ...claim, event: "reopen", downstreamKey: world.name("reopened") };
    default: {
      const result = choices.oneIn(2) ? world.bytes("result") : null;
      return { ...claim, event: "deliver", result, keepMs: choices.pick([60_000, 3_600_000]) };
    }
  }
}
