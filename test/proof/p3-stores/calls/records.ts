/** Calls on records: how lives begin, are owned, end and go. */
import type { InProgressRecord } from "../../../../packages/latchkey/src/engine/record.ts";
import type {
  AttemptEnd,
  CleanReport,
  PendingWant,
  Store,
} from "../../../../packages/latchkey/src/stores/store.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { CallKinds } from "./call.ts";
import { leaseTerms, limit, newLife, otherFingerprint, retention, someDelay, someKey } from "./terms.ts";
import { type CallWorld, operations } from "./world.ts";

async function beginning(choices: Choices, world: CallWorld) {
  const key = someKey(choices, world);
  const record = await world.peek(key);
  const life = newLife(choices, world, key);
  // One that goes on has the id and the fingerprint that it had.
  const goesOn = record?.state === "retryable" && !choices.oneIn(4);
  const known = goesOn ? { id: record.id, fingerprint: record.fingerprint } : {};
  const withGuard = record !== null && !choices.oneIn(8);
  const guard = world.guard(choices, key, record);
  return {
    life: { ...life, ...known },
    replaces: withGuard ? guard.what : null,
    flavour: withGuard ? guard.flavour : ("valid" as const),
  };
}

function learnOwner(world: CallWorld): (value: unknown) => void {
  return (value) => {
    const record = value as InProgressRecord | null;
    if (record === null) return;
    const { tenant, scope, key, id, fence } = record;
    world.owners.push({ key: { tenant, scope, key }, id, fence });
  };
}

export const recordCalls: CallKinds = {
  async create(choices, world) {
    const { life, replaces, flavour } = await beginning(choices, world);
    const terms = leaseTerms(choices);
    return {
      name: "create",
      given: [life, replaces, terms],
      flavour,
      make: ({ store }) => store.create(life, replaces, terms),
      learn: learnOwner(world),
    };
  },

  async accept(choices, world) {
    const { life, replaces, flavour } = await beginning(choices, world);
    const expiresAfterMs = choices.pick([60_000, 3_600_000]);
    return {
      name: "accept",
      given: [life, replaces, expiresAfterMs],
      flavour,
      make: ({ store }) => store.accept(life, replaces, expiresAfterMs),
    };
  },

  async recordLostTransaction(choices, world) {
    const { life, replaces, flavour } = await beginning(choices, world);
    return {
      name: "recordLostTransaction",
      given: [life, replaces],
      flavour,
      make: ({ store }) => store.recordLostTransaction(life, replaces, "transaction-changed"),
    };
  },

  claimPending(choices, world) {
    const count = world.inBatches ? 1 + choices.choose(4) : 1;
    const wanted = world.inBatches ? operations : [choices.pick(operations)];
    const wants = wanted.map((operation): PendingWant => {
      const tokens = Array.from({ length: count }, () => world.token());
      return { operation, tokens, terms: leaseTerms(choices) };
    });
    return {
      name: "claimPending",
      given: [wants],
      unordered: true,
      make: ({ store }) => store.claimPending(wants),
      learn: (value) => (value as readonly InProgressRecord[]).forEach(learnOwner(world)),
    };
  },

  async takeOver(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const { what: guard, flavour } = world.guard(choices, key, record);
    const isOther = record === null || choices.oneIn(8);
    const fingerprint = isOther ? otherFingerprint(choices) : record.fingerprint;
    const [token, terms] = [world.token(), leaseTerms(choices)];
    return {
      name: "takeOver",
      given: [key, guard, fingerprint, token, terms],
      flavour,
      make: ({ store }) => store.takeOver(key, guard, fingerprint, token, terms),
      learn: learnOwner(world),
      counts: (value) => (value === null ? [] : [`a takeover from ${guard.state}`]),
    };
  },

  async renew(choices, world) {
    const key = someKey(choices, world);
    const { what: owner, flavour } = world.owner(choices, key, await world.peek(key));
    const leaseMs = choices.pick([10_000, 60_000]);
    return {
      name: "renew",
      given: [owner, leaseMs],
      flavour,
      make: ({ store }) => store.renew(key, owner.id, owner.fence, leaseMs),
    };
  },

  async end(choices, world) {
    const key = someKey(choices, world);
    const { what: owner, flavour } = world.owner(choices, key, await world.peek(key));
    const end = someEnd(choices, world);
    return {
      name: "end",
      given: [owner, end],
      flavour,
      make: ({ store }) => store.end(key, owner.id, owner.fence, end),
      counts: (value) => (value === null ? [] : [`end: ${end.event}`]),
    };
  },

  /** An owner that does not know what its call came to. */
  async doubt(choices, world) {
    const record = await world.peek(world.key);
    const { what: owner, flavour } = world.owner(choices, world.key, record);
    const reconcileAfterMs = someDelay(choices);
    const end: AttemptEnd = { event: "doubt", errorCode: "in-doubt", reconcileAfterMs };
    return {
      name: "end",
      given: [owner, end],
      flavour,
      make: ({ store }) => store.end(owner.key, owner.id, owner.fence, end),
    };
  },

  /** Its answer waits for a delivery. */
  async park(_, world) {
    const record = world.effect && (await world.peekById(world.effect.recordId));
    if (record?.state !== "in_progress") return null;
    const { tenant, scope, key, id, fence } = record;
    const place = { tenant, scope, key };
    const end: AttemptEnd = { event: "retry_later", errorCode: "awaits-delivery", resumeAfterMs: null };
    return {
      name: "end",
      given: [place, id, fence, end],
      make: ({ store }) => store.end(place, id, fence, end),
    };
  },

  async giveUp(choices, world) {
    const key = someKey(choices, world);
    const { what: guard, flavour } = world.guard(choices, key, await world.peek(key));
    const reconcileAfterMs = someDelay(choices);
    return {
      name: "giveUp",
      given: [key, guard, reconcileAfterMs],
      flavour,
      make: ({ store }) => store.giveUp(key, guard, "lease-ended", reconcileAfterMs),
    };
  },

  read(choices, world) {
    const key = someKey(choices, world);
    return { name: "read", given: [key], make: ({ store }) => store.read(key) };
  },

  readById(choices, world) {
    if (world.recordIds.length === 0) return null;
    const [tenant, id] = [choices.pick(["a", "b"]), choices.pick(world.recordIds)];
    return { name: "readById", given: [tenant, id], make: ({ store }) => store.readById(tenant, id) };
  },

  endedLeases(choices, world) {
    const most = limit(choices, world);
    return {
      name: "endedLeases",
      given: [most],
      unordered: world.inBatches,
      make: ({ store }) => store.endedLeases(most),
    };
  },

  clean(choices) {
    const most = choices.pick([100, 1]);
    return { name: "clean", given: [most], make: ({ store }) => cleaned(store, most) };
  },
};

function someEnd(choices: Choices, world: CallWorld): AttemptEnd {
  switch (choices.choose(6)) {
    case 1:
      return {
        event: "fail",
        answer: world.bytes("no"),
        retention: retention(choices),
        errorCode: "refused",
      };
    case 2:
      return { event: "release" };
    case 3:
      return { event: "retry_later", errorCode: "not-executed", resumeAfterMs: someDelay(choices) };
    case 4:
    case 5:
      return { event: "doubt", errorCode: "in-doubt", reconcileAfterMs: someDelay(choices) };
    default:
      return {
        event: "complete",
        answer: world.bytes("yes"),
        retention: retention(choices),
        errorCode: null,
      };
  }
}

/** Which of many are cleaned first is nobody's promise: so until nothing is left. */
async function cleaned(store: Store<unknown>, most: number): Promise<CleanReport> {
  let total: CleanReport = { abandoned: 0, purged: 0, forgotten: 0, effects: 0, messages: 0 };
  for (;;) {
    const { abandoned, purged, forgotten, effects, messages } = await store.clean(most);
    if (abandoned + purged + forgotten + effects + messages === 0) return total;
    total = {
      abandoned: total.abandoned + abandoned,
      purged: total.purged + purged,
      forgotten: total.forgotten + forgotten,
      effects: total.effects + effects,
      messages: total.messages + messages,
    };
  }
}
