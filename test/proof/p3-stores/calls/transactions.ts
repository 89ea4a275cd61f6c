/** Transactions, phases and the ends of deliveries: each writes a row of the handler's, and ends in every way. */
import { guardOf, type LatchkeyRecord } from "../../../../packages/latchkey/src/engine/record.ts";
import type { Store } from "../../../../packages/latchkey/src/stores/store.ts";
import type {
  DeliveryWork,
  OpenPhase,
  OpenTransaction,
  PhaseWork,
  TransactionWork,
} from "../../../../packages/latchkey/src/stores/transactions.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { Subject } from "../bench.ts";
import type { CallKinds } from "./call.ts";
import { someEffects } from "./outbox.ts";
import { newLife, retention, someKey } from "./terms.ts";
import type { CallWorld } from "./world.ts";

const phaseNames = ["order", "settled"] as const;
const idleLimitMs = 30_000;

function transactionsOf({ transactions }: Store<unknown>) {
  if (transactions === null) throw new TypeError("The store has no transactions");
  return transactions;
}

/** A handler that fails. */
class Thrown extends Error {}

/** What happens to the `tx` that was handed out. */
interface Handler {
  readonly writes: string | null;
  readonly revokes: boolean;
  readonly throws: boolean;
}

function someHandler(choices: Choices, world: CallWorld): Handler {
  const writes = choices.oneIn(5) ? null : world.name("row");
  return { writes, revokes: choices.oneIn(3), throws: choices.oneIn(12) };
}

async function handle(on: Subject, { tx, used, revoke }: OpenPhase<unknown>, handler: Handler) {
  const { writes, revokes, throws } = handler;
  if (writes !== null) await on.write(tx, writes);
  if (throws) throw new Thrown();
  if (!revokes) return { used: used(), late: null };
  revoke();
  const late = await on.write(tx, "late").then(
    () => "written",
    (error: unknown) => (error as { readonly code?: unknown }).code,
  );
  return { used: used(), late };
}

export const transactionCalls: CallKinds = {
  async run(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const life = newLife(choices, world, key);
    const goesOn = record?.state === "retryable" && !choices.oneIn(4);
    const { what: guard, flavour } = world.guard(choices, key, record);
    const replaces = record === null || choices.oneIn(8) ? null : guard;
    const end = choices.pick(["commit", "commit", "commit", "commit", "rollback", "abandon"] as const);
    const undoWrites = choices.oneIn(5);
    const begun = goesOn ? { ...life, id: record.id, fingerprint: record.fingerprint } : life;
    const commit = {
      life: begun,
      replaces,
      answer: world.bytes("answer"),
      retention: retention(choices),
      undoWrites,
      effects: undoWrites ? [] : someEffects(choices, world, { recordId: begun.id, step: "" }),
    };
    const [handler, nests] = [someHandler(choices, world), choices.oneIn(6)];
    const isolation = choices.pick([null, null, "serializable", "repeatable read"] as const);
    const request = { key, isolation, idleLimitMs, savepoint: undoWrites };
    const work =
      (on: Subject) =>
      async (open: OpenTransaction<unknown>): Promise<TransactionWork<unknown>> => {
        const { reading, exclusive } = open;
        const inner = nests ? await duplicate(on, request) : null;
        const value = { reading, exclusive, inner, ...(await handle(on, open, handler)) };
        return end === "commit" ? { end, value, ...commit } : { end, value };
      };
    return {
      name: "run",
      given: [request, end, commit, handler, ...(nests ? ["with a duplicate inside"] : [])],
      ...(replaces === null ? {} : { flavour }),
      make: (on) => transactionsOf(on.store).run(request, work(on)),
      counts: () => (nests ? ["a transaction met a duplicate"] : []),
    };
  },

  async resolve(choices, world) {
    const key = someKey(choices, world);
    const { what: owner, flavour } = world.owner(choices, key, await world.peek(key));
    return {
      name: "resolve",
      given: [owner],
      flavour,
      make: ({ store }) => transactionsOf(store).resolve(key, owner.id, owner.fence, 5_000),
      counts: (value) => [`resolve: ${value}`],
    };
  },

  async phase(choices, world) {
    const key = someKey(choices, world);
    const record = await world.peek(key);
    const { what: owner, flavour } = world.owner(choices, key, record);
    const steps = record === null ? [] : await world.steps(record);
    const fresh = phaseNames.find((name) => !steps.some((step) => step.name === name)) ?? world.name("phase");
    const name = choices.oneIn(6) ? choices.pick(phaseNames) : fresh;
    const end = choices.pick(["commit", "commit", "commit", "commit", "rollback", "abandon"] as const);
    const commit = {
      step: { name, position: steps.length, version: "1", result: world.bytes("result") },
      completes: choices.oneIn(4) ? { answer: world.bytes("answer"), retention: retention(choices) } : null,
      effects: someEffects(choices, world, { recordId: owner.id, step: name }),
    };
    const handler = someHandler(choices, world);
    const isolation = choices.pick([null, null, "serializable"] as const);
    const request = { owner, isolation, idleLimitMs };
    const work =
      (on: Subject) =>
      async (open: OpenPhase<unknown>): Promise<PhaseWork<unknown>> => {
        const value = await handle(on, open, handler);
        return end === "commit" ? { end, value, ...commit } : { end, value };
      };
    return {
      name: "phase",
      given: [request, end, commit, handler],
      flavour,
      make: (on) => transactionsOf(on.store).phase(request, work(on)),
      counts: (value) =>
        commit.completes !== null && isCommitted(value) ? ["a phase completed its attempt"] : [],
    };
  },

  async deliver(choices, world) {
    const claimed = world.claim(choices);
    if (claimed === null) return null;
    const { what, flavour } = claimed;
    const { id, fence, tenant, recordId } = what;
    const record = await world.peekById(recordId);
    const mayAnswer = record !== null && (record.state === "retryable" || choices.oneIn(3));
    const answers = mayAnswer ? answersTo(choices, world, record) : null;
    const end = choices.pick(["commit", "commit", "commit", "rollback", "abandon"] as const);
    const handler = someHandler(choices, world);
    const request = { claim: { id, fence }, tenant, idleLimitMs, keepMs: 60_000 };
    const work =
      (on: Subject) =>
      async (open: OpenPhase<unknown>): Promise<DeliveryWork<unknown>> => {
        const value = await handle(on, open, handler);
        return end === "commit" ? { end, value, answers } : { end, value };
      };
    return {
      name: "deliver",
      given: [request, end, answers, handler],
      flavour,
      make: (on) => transactionsOf(on.store).deliver(request, work(on)),
      counts: (value) => (answers !== null && isCommitted(value) ? ["a delivery gave the answer"] : []),
    };
  },
};

/** Somebody else with the same key, while the transaction is open. */
function duplicate(on: Subject, request: Parameters<ReturnType<typeof transactionsOf>["run"]>[0]) {
  return transactionsOf(on.store).run(request, async ({ reading, exclusive }) => ({
    end: "rollback" as const,
    value: { reading, exclusive },
  }));
}

function answersTo(choices: Choices, world: CallWorld, record: LatchkeyRecord) {
  const { tenant, scope, key } = record;
  const place = { tenant, scope, key };
  return {
    key: place,
    guard: choices.oneIn(6) ? world.guard(choices, place, record).what : guardOf(record),
    answer: world.bytes("answer"),
    retention: retention(choices),
  };
}

function isCommitted(value: unknown): boolean {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "committed";
}
