/** Calls on the journal: what becomes of calls to others. */
import type { LatchkeyRecord } from "../../../../packages/latchkey/src/engine/record.ts";
import type {
  CallEnd,
  CallIntent,
  CallStep,
  Owner,
} from "../../../../packages/latchkey/src/stores/journal.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { CallKinds } from "./call.ts";
import { someKey } from "./terms.ts";
import { beginMs, type CallWorld } from "./world.ts";

export const callNames = ["charge", "ship"] as const;
/** A phase's name among them: that one throws. */
const startedNames = ["charge", "ship", "charge", "ship", "charge", "order"] as const;
const effects = ["card", "post"] as const;

export const journalCalls: CallKinds = {
  async journal(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const { what: owner } = world.owner(choices, key, record);
    return {
      name: "journal.read",
      given: [key, owner.id],
      make: ({ store }) => store.journal.read(key, owner.id),
    };
  },

  async startCall(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const { what: owner, flavour } = world.owner(choices, key, record);
    const intent = await intentOf(choices, world, record);
    return {
      name: "startCall",
      given: [owner, intent],
      flavour,
      make: ({ store }) => store.journal.startCall(owner, intent),
      learn: () => {
        world.downstreamKeys.push(intent.downstreamKey);
      },
    };
  },

  async endCall(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const { what: owner, flavour } = world.owner(choices, key, record);
    const started = record === null ? [] : await world.calls(record);
    const right = callToEnd(choices, started);
    const { name } = right;
    const generation = choices.oneIn(10) ? right.generation + 1 : right.generation;
    const end = someCallEnd(choices, world);
    return {
      name: "endCall",
      given: [owner, { name, generation }, end],
      flavour,
      make: ({ store }) => store.journal.endCall(owner, { name, generation }, end),
      counts: (value) => (value === true ? [`endCall: ${end.event}`] : []),
    };
  },

  async refence(choices, world) {
    const key = someKey(choices, world);
    const { what: owner, flavour } = world.owner(choices, key, await world.peek(key));
    const [token, leaseMs] = [world.token(), choices.pick([10_000, 60_000])];
    return {
      name: "refence",
      given: [owner, token, leaseMs],
      flavour,
      make: ({ store }) => store.journal.refence(owner, token, leaseMs, 5_000),
      learn: (value) => {
        if (value !== null) world.owners.push({ ...owner, fence: (value as Pick<Owner, "fence">).fence });
      },
    };
  },

  callsByDownstreamKey(choices, world) {
    if (world.downstreamKeys.length === 0) return null;
    const keys = [choices.pick(world.downstreamKeys), choices.pick(world.downstreamKeys), "unheard of"];
    return {
      name: "callsByDownstreamKey",
      given: [keys],
      unordered: true,
      make: ({ store }) => store.journal.callsByDownstreamKey(keys),
    };
  },

  finishedCalls(choices, world) {
    const query = {
      effect: choices.pick(effects),
      from: beginMs + choices.pick([0, 10_000]),
      to: world.nowMs + 1,
      limit: choices.pick([100, 1, 2]),
      after: null,
    };
    return {
      name: "finishedCalls",
      given: [query],
      make: async ({ store }) => {
        const page = await store.journal.finishedCalls(query);
        const last = page.at(-1)?.step;
        if (last === undefined || last.finishedAt === null) return page;
        const after = { finishedAt: last.finishedAt, downstreamKey: last.downstreamKey };
        return [...page, ...(await store.journal.finishedCalls({ ...query, after }))];
      },
    };
  },
};

/** One that is under way, more often than not. */
function callToEnd(choices: Choices, calls: readonly CallStep[]): Pick<CallStep, "name" | "generation"> {
  const underWay = calls.filter(({ state }) => state === "started");
  const from = underWay.length === 0 || choices.oneIn(8) ? calls : underWay;
  return from.length === 0 ? { name: "charge", generation: 0 } : choices.pick(from);
}

async function intentOf(
  choices: Choices,
  world: CallWorld,
  record: LatchkeyRecord | null,
): Promise<CallIntent> {
  const name = choices.pick(startedNames);
  const steps = record === null ? [] : await world.steps(record);
  const there = steps.find((step) => step.name === name);
  const generation = (there?.kind === "call" ? there.generation : 0) + (choices.oneIn(10) ? 1 : 0);
  return {
    name,
    position: there?.position ?? steps.length,
    version: "1",
    effect: choices.pick(effects),
    generation,
    downstreamKey: world.name("downstream"),
    input: world.bytes("input"),
  };
}

function someCallEnd(choices: Choices, world: CallWorld): CallEnd {
  const event = choices.pick(["finish", "not_executed", "refuse", "finish"] as const);
  return event === "not_executed" ? { event } : { event, result: world.bytes("result") };
}
