/** Mistakes to be found: methods of the store that do something else. Each is one that a protocol without its guard makes. */
import type { RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import { tenants } from "./config.ts";
import type { Plant } from "./world.ts";

type MemoryStore = Store<MemoryTransaction>;

const freed: Plant = (store) => ({
  giveUp: async (key, guard) => (await store.end(key, guard.id, guard.fence, { event: "release" })) !== null,
});

const unfencedEnd: Plant = (store) => ({
  async end(key, _id, _fence, end) {
    const { record } = await store.read(key);
    return record === null ? null : store.end(key, record.id, record.fence, end);
  },
});

const believedCommit: Plant = ({ transactions }) => ({
  transactions: transactions && { ...transactions, resolve: async () => "committed" as const },
});

const forgottenDoubt: Plant = ({ outbox }) => ({
  outbox: outbox && {
    ...outbox,
    claim: async (...given) =>
      (await outbox.claim(...given)).map((effect) => ({ ...effect, doubtfulSince: null })),
  },
});

const forgottenCall: Plant = ({ journal }) => ({
  journal: {
    ...journal,
    async read(key, id) {
      const read = await journal.read(key, id);
      const steps = read?.steps.filter((step) => step.kind === "phase" || step.state !== "started") ?? [];
      return read && { ...read, steps };
    },
  },
});

const forgottenPhases: Plant = ({ journal }) => ({
  journal: {
    ...journal,
    async read(key, id) {
      const read = await journal.read(key, id);
      return read && { ...read, steps: read.steps.filter(({ kind }) => kind !== "phase") };
    },
  },
});

const blindRenewal: Plant = (store) => ({
  async renew(...given) {
    await store.renew(...given);
    return true;
  },
});

const lostResult: Plant = ({ journal }) => ({
  journal: {
    ...journal,
    endCall: (owner, call, end) =>
      journal.endCall(owner, call, end.event === "finish" ? { event: "not_executed" } : end),
  },
});

const guessedOutcome: Plant = ({ settlement }) => ({
  settlement: {
    ...settlement,
    postpone: (key, guard) =>
      settlement.settle(
        key,
        guard,
        { event: "settle_not_executed", calls: "never-happened", reopen: null, resumeAfterMs: 0 },
        { id: `guess of ${guard.id}`, actor: "outcome-reconciler", proof: "no-call-in-doubt", reason: null },
      ),
  },
});

/** What is not found is looked for under the other tenant's name. */
const sharedKeys: Plant = (store) => ({
  async read(key) {
    const reading = await store.read(key);
    return reading.record === null ? store.read(ofOther(key)) : reading;
  },
});

function ofOther(key: RecordKey): RecordKey {
  return { ...key, tenant: tenants.find((tenant) => tenant !== key.tenant) ?? key.tenant };
}

const changedAnswer: Plant = (store) => ({
  async read(key) {
    const { record, now } = await store.read(key);
    if (record === null || !("answer" in record) || record.answer === null) return { record, now };
    return { record: { ...record, answer: Buffer.concat([record.answer, Buffer.from(" ")]) }, now };
  },
});

/** What was claimed is handed out a second time. */
const claimedTwice: Plant = (store: MemoryStore) => {
  let last: Awaited<ReturnType<MemoryStore["claimPending"]>> = [];
  return {
    async claimPending(wants) {
      const again = last;
      last = await store.claimPending(wants);
      return [...last, ...again];
    },
  };
};

export const plants: Readonly<Record<string, Plant>> = {
  "an ended lease frees its key": freed,
  "the end of an attempt is written without its fence": unfencedEnd,
  "a COMMIT in doubt is taken for committed": believedCommit,
  "a send that may have happened is forgotten": forgottenDoubt,
  "a call in doubt counts as one that never happened": forgottenCall,
  "finished phases are forgotten": forgottenPhases,
  "a renewal is believed without looking": blindRenewal,
  "what a call gave is lost": lostResult,
  "what cannot be found out is taken for not executed": guessedOutcome,
  "keys of two tenants are not told apart": sharedKeys,
  "an answer is stored with its bytes changed": changedAnswer,
  "a claimed request is handed out twice": claimedTwice,
};
