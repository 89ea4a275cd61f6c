/** Mistakes in single calls. */
import { sameFingerprint } from "../../../packages/latchkey/src/engine/decide.ts";
import type { Plant } from "./plant.ts";

const calls = { part: "calls" } as const;

export const callPlants: readonly Plant[] = [
  {
    name: "a renewal does not look at the token",
    ...calls,
    change: (store) => ({
      async renew(key, id, fence, leaseMs) {
        const { record } = await store.read(key);
        const isOwn = record?.id === id && record.fence.attempt === fence.attempt;
        return store.renew(key, id, isOwn ? record.fence : fence, leaseMs);
      },
    }),
  },
  {
    name: "an end is written for whoever has the record's id",
    ...calls,
    change: (store) => ({
      async end(key, id, fence, end) {
        const { record } = await store.read(key);
        return store.end(key, id, record?.id === id ? record.fence : fence, end);
      },
    }),
  },
  {
    name: "an attempt is taken over with another body",
    ...calls,
    change: (store) => ({
      async takeOver(key, guard, fingerprint, token, terms) {
        const { record } = await store.read(key);
        const stored = record?.fingerprint ?? fingerprint;
        if (!sameFingerprint(stored, fingerprint)) return store.takeOver(key, guard, stored, token, terms);
        return store.takeOver(key, guard, fingerprint, token, terms);
      },
    }),
  },
  {
    name: "an answer is kept a millisecond longer",
    ...calls,
    change: (store) => ({
      end: (key, id, fence, end) =>
        store.end(
          key,
          id,
          fence,
          "retention" in end
            ? { ...end, retention: { ...end.retention, forgetAfterMs: end.retention.forgetAfterMs + 1 } }
            : end,
        ),
    }),
  },
  {
    name: "what is in doubt is reconciled by nobody",
    ...calls,
    change: (store) => ({
      giveUp: (key, guard, errorCode) => store.giveUp(key, guard, errorCode, null),
    }),
  },
  {
    name: "a call that is ended twice is refused the second time",
    ...calls,
    change: ({ journal }) => {
      const ended = new Set<string>();
      return {
        journal: {
          ...journal,
          async endCall(owner, call, end) {
            const text = JSON.stringify([owner, call, end]);
            if (ended.has(text)) return false;
            const is = await journal.endCall(owner, call, end);
            if (is) ended.add(text);
            return is;
          },
        },
      };
    },
  },
  {
    name: "a closed call keeps its downstream key",
    ...calls,
    change: ({ settlement }) => ({
      settlement: {
        ...settlement,
        settle: (key, guard, given, note) =>
          settlement.settle(
            key,
            guard,
            given.event === "settle_not_executed" && given.reopen !== null
              ? { ...given, reopen: { ...given.reopen, downstreamKey: "the same" } }
              : given,
            note,
          ),
      },
    }),
  },
  {
    name: "a send that may have happened is forgotten",
    ...calls,
    change: ({ outbox }) => ({
      outbox: outbox && {
        ...outbox,
        claim: async (...given) =>
          (await outbox.claim(...given)).map((effect) => ({ ...effect, doubtfulSince: null })),
      },
    }),
  },
  {
    name: "every decision about a dead effect is reported as done",
    ...calls,
    change: ({ outbox }) => ({
      outbox: outbox && {
        ...outbox,
        async decide(...given) {
          await outbox.decide(...given);
          return true;
        },
      },
    }),
  },
  {
    name: "a rolled-back transaction says that it was committed",
    ...calls,
    change: ({ transactions }) => ({
      transactions: transactions && {
        ...transactions,
        resolve: async (...given) =>
          (await transactions.resolve(...given)) === "in_doubt" ? "in_doubt" : "committed",
      },
    }),
  },
  {
    name: "effects of a phase are enqueued a second late",
    ...calls,
    change: ({ transactions }) => ({
      transactions: transactions && {
        ...transactions,
        phase: (request, work) =>
          transactions.phase(request, async (open) => {
            const done = await work(open);
            if (done.end !== "commit") return done;
            const effects = done.effects.map((effect) => ({ ...effect, delayMs: effect.delayMs + 1_000 }));
            return { ...done, effects };
          }),
      },
    }),
  },
];
