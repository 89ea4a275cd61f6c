/** Calls that settle what is unknown, and that list records. */
import type { LatchkeyRecord } from "../../../../packages/latchkey/src/engine/record.ts";
import type { Settlement } from "../../../../packages/latchkey/src/stores/settlement.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { CallKinds } from "./call.ts";
import { states } from "./dump.ts";
import { callNames } from "./journal.ts";
import { limit, retention, someDelay, someKey, takingLimit } from "./terms.ts";
import { type CallWorld, operations } from "./world.ts";

export const settlementCalls: CallKinds = {
  async settle(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const { what: guard, flavour } = world.guard(choices, key, record);
    const settlement = await someSettlement(choices, world, record);
    const note = { id: world.id(), actor: "ann", proof: "operator", reason: choices.pick(["seen", null]) };
    return {
      name: "settle",
      given: [key, guard, settlement, note],
      flavour,
      make: ({ store }) => store.settlement.settle(key, guard, settlement, note),
      counts: (value) => (value === true ? [`settle: ${settlement.event}`] : []),
    };
  },

  async postpone(choices, world) {
    const key = someKey(choices, world);
    const { what: guard, flavour } = world.guard(choices, key, await world.peek(key));
    const afterMs = someDelay(choices);
    return {
      name: "postpone",
      given: [key, guard, afterMs],
      flavour,
      make: ({ store }) => store.settlement.postpone(key, guard, afterMs),
    };
  },

  async list(choices, world) {
    const record = await world.peek(world.key);
    const state = record !== null && !choices.oneIn(4) ? record.state : choices.pick(states);
    const filter = {
      state,
      tenant: choices.pick([null, null, "a", "b"]),
      operation: choices.pick([null, null, ...operations]),
      limit: limit(choices, world),
    };
    return {
      name: "list",
      given: [filter],
      make: async ({ store }) => {
        const page = await store.settlement.list({ ...filter, after: null });
        const last = page.at(-1);
        if (last === undefined) return page;
        const after = { createdAt: last.createdAt, id: last.id };
        return [...page, ...(await store.settlement.list({ ...filter, after }))];
      },
    };
  },

  audit(choices, world) {
    const key = someKey(choices, world);
    return { name: "audit", given: [key], make: ({ store }) => store.settlement.audit(key) };
  },

  claimUnknowns(choices, world) {
    const most = takingLimit(world);
    const claimMs = choices.pick([5_000, 60_000]);
    const wanted = choices.oneIn(4) ? [choices.pick(operations)] : operations;
    return {
      name: "claimUnknowns",
      given: [wanted, most, claimMs],
      unordered: true,
      make: ({ store }) => store.settlement.claimUnknowns(wanted, most, claimMs),
    };
  },

  resumable(choices, world) {
    const most = limit(choices, world);
    const wanted = choices.oneIn(4) ? [choices.pick(operations)] : operations;
    return {
      name: "resumable",
      given: [wanted, most],
      unordered: world.inBatches,
      make: ({ store }) => store.settlement.resumable(wanted, most),
    };
  },
};

async function someSettlement(
  choices: Choices,
  world: CallWorld,
  record: LatchkeyRecord | null,
): Promise<Settlement> {
  const started = record === null ? [] : await world.calls(record);
  const call = started.find(({ state }) => state === "started") ?? started[0] ?? null;
  const resumeAfterMs = someDelay(choices);
  // A call that is in doubt is settled more often than not.
  const isStarted = call?.state === "started";
  const kind = isStarted && choices.oneIn(2) ? choices.pick([2, 3]) : choices.choose(5);
  switch (kind) {
    case 1:
      return {
        event: "settle_failed",
        answer: world.bytes("no"),
        retention: retention(choices),
        errorCode: "closed",
      };
    case 2: {
      const calls = choices.pick(["never-happened", "may-repeat"] as const);
      const name = call?.name ?? choices.pick(callNames);
      const generation = call?.generation ?? 0;
      const reopens = isStarted ? !choices.oneIn(3) : choices.oneIn(4);
      const reopen = reopens ? { call: name, generation, downstreamKey: world.name("reopened") } : null;
      return { event: "settle_not_executed", calls, reopen, resumeAfterMs };
    }
    case 3:
    case 4:
      return {
        event: "settle_call",
        call: call?.name ?? choices.pick(callNames),
        generation: (call?.generation ?? 0) + (choices.oneIn(10) ? 1 : 0),
        result: world.bytes("found"),
        resumeAfterMs,
      };
    default:
      return { event: "settle_completed", answer: world.bytes("yes"), retention: retention(choices) };
  }
}
