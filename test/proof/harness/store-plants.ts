/** Mistakes to be found: methods of the store that do something else. Each is one that a protocol without its guard makes. */
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";

/** Replaces methods of the store, to plant a mistake. */
export type Plant = (store: Store<MemoryTransaction>) => Partial<Store<MemoryTransaction>>;

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

/** Those that every tier over the memory store must find. */
export const plants: Readonly<Record<string, Plant>> = {
  "an ended lease frees its key": freed,
  "the end of an attempt is written without its fence": unfencedEnd,
  "a COMMIT in doubt is taken for committed": believedCommit,
  "a send that may have happened is forgotten": forgottenDoubt,
  "a call in doubt counts as one that never happened": forgottenCall,
  "what cannot be found out is taken for not executed": guessedOutcome,
};
