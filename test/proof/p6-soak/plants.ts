/** Mistakes that a server process makes when its environment says so. The soak must find each. */
import type { Store } from "../../../packages/latchkey/src/index.ts";

export const plants = {
  "answers-before-commit": "a request is answered before its COMMIT is confirmed",
  "replays-any-body": "a key is replayed without a look at the fingerprint",
  "frees-ended-leases": "what a dead attempt was doing is run again, though it may have happened",
  "sends-without-start": "the dispatcher sends without having written that it starts",
  "key-per-process": "each process has a downstream key of its own",
  "writes-beside-tx": "a handler writes on another connection than its transaction's",
  "stale-owner-answers": "an owner that has lost its lease answers with its own result",
  "nobody-rescues": "attempts that died are never gone on with",
  "leaks-connections": "a handler that fails keeps a connection of the pool",
} as const;

export type Plant = keyof typeof plants;

export const plantVariable = "LATCHKEY_SOAK_PLANT";

export function plantOf(env: Readonly<Record<string, string | undefined>>): Plant | null {
  const name = env[plantVariable] ?? "";
  if (name === "") return null;
  if (!Object.hasOwn(plants, name)) throw new TypeError(`there is no plant ${name}`);
  return name as Plant;
}

/** The store, with those mistakes in it that are a store's. */
export function plantedStore<Tx>(store: Store<Tx>, plant: Plant | null): Store<Tx> {
  const { transactions, outbox } = store;
  if (transactions === null || outbox === null) throw new TypeError("the store has transactions");
  switch (plant) {
    case "answers-before-commit":
      return {
        ...store,
        transactions: {
          ...transactions,
          async run(request, work) {
            const outcome = await transactions.run(request, work);
            return outcome.kind === "in_doubt"
              ? { kind: "committed", value: outcome.value, expiresAt: 0 }
              : outcome;
          },
        },
      };
    case "sends-without-start":
      return {
        ...store,
        outbox: {
          ...outbox,
          claim: (wants, ...rest) =>
            outbox.claim(
              wants.map((want) => ({ ...want, starts: false })),
              ...rest,
            ),
          start: async (claims) => claims.map(({ id }) => id),
        },
      };
    case "stale-owner-answers":
      return { ...store, end: async (...end) => (await store.end(...end)) ?? { expiresAt: 0 } };
    case "nobody-rescues":
      return {
        ...store,
        endedLeases: async () => [],
        settlement: { ...store.settlement, resumable: async () => [] },
      };
    default:
      return store;
  }
}
