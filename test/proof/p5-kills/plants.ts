/** Mistakes that can be planted into every process here, the killed one and those that go on. Each must be found. */
import type { CallStep } from "../../../packages/latchkey/src/stores/journal.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type {
  TransactionOutcome,
  TransactionSupport,
  TransactionWork,
} from "../../../packages/latchkey/src/stores/transactions.ts";

export const plants = [
  "answers before its COMMIT",
  "accepts before it is kept",
  "outbox row in a transaction of its own",
  "start written after the send",
  "key of a call changes with the attempt",
  "finished steps are forgotten",
  "releases what is unknown",
  "forgets that a dead claim had sent",
  "closes alone",
] as const;
export type Plant = (typeof plants)[number];

/** The environment variable that names the planted mistake to a process script. */
export const plantVariable = "LATCHKEY_PROOF_PLANT";

export function plantOf(name: string | undefined): Plant | null {
  return plants.find((plant) => plant === name) ?? null;
}

export function plantedStore<Tx>(inner: Store<Tx>, plant: Plant | null): Store<Tx> {
  const { journal, outbox, transactions } = inner;
  if (outbox === null || transactions === null) throw new TypeError("the store has transactions");
  switch (plant) {
    case null:
    // In the effect itself.
    case "closes alone":
      return inner;
    case "answers before its COMMIT":
      return { ...inner, transactions: { ...transactions, run: answersEarly(transactions) } };
    case "accepts before it is kept":
      return { ...inner, accept: acceptsEarly(inner) };
    case "outbox row in a transaction of its own":
      return { ...inner, transactions: { ...transactions, run: enqueuesApart(transactions) } };
    case "start written after the send":
      return { ...inner, journal: startsLate(inner) };
    case "key of a call changes with the attempt":
      return { ...inner, journal: { ...journal, read: (...at) => journal.read(...at).then(withOtherKeys) } };
    case "finished steps are forgotten": {
      const read: Store<Tx>["journal"]["read"] = async (...at) => {
        const found = await journal.read(...at);
        return found === null ? null : { ...found, recoveryPoint: null, steps: [] };
      };
      return { ...inner, journal: { ...journal, read } };
    }
    case "releases what is unknown":
      return {
        ...inner,
        giveUp: async (key, { id, fence }) =>
          (await inner.end(key, id, fence, { event: "release" })) !== null,
      };
    case "forgets that a dead claim had sent": {
      const claim: typeof outbox.claim = async (...want) =>
        (await outbox.claim(...want)).map((row) => ({ ...row, doubtfulSince: null, returns: row.sends }));
      return { ...inner, outbox: { ...outbox, claim } };
    }
    default:
      return plant satisfies never;
  }
}

/** Lets the caller go on, as far as it comes by itself. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function answersEarly<Tx>(inner: TransactionSupport<Tx>): TransactionSupport<Tx>["run"] {
  return <T>(
    request: Parameters<TransactionSupport<Tx>["run"]>[0],
    work: (open: Parameters<Parameters<TransactionSupport<Tx>["run"]>[1]>[0]) => Promise<TransactionWork<T>>,
  ) =>
    new Promise<TransactionOutcome<T>>((resolve, reject) => {
      inner
        .run<T>(request, async (open) => {
          const worked = await work(open);
          if (worked.end === "commit") resolve({ kind: "committed", value: worked.value, expiresAt: 0 });
          await turn();
          return worked;
        })
        .then(resolve, reject);
    });
}

function acceptsEarly<Tx>(inner: Store<Tx>): Store<Tx>["accept"] {
  return async (life, replaces, expiresAfterMs) => {
    setImmediate(() => void inner.accept(life, replaces, expiresAfterMs).catch(() => {}));
    const { addressable: _, input: __, ...kept } = life;
    const createdAt = performance.timeOrigin + performance.now();
    return { ...kept, state: "pending", createdAt, expiresAt: createdAt + expiresAfterMs };
  };
}

function enqueuesApart<Tx>(inner: TransactionSupport<Tx>): TransactionSupport<Tx>["run"] {
  return async <T>(
    request: Parameters<TransactionSupport<Tx>["run"]>[0],
    work: (open: Parameters<Parameters<TransactionSupport<Tx>["run"]>[1]>[0]) => Promise<TransactionWork<T>>,
  ) => {
    let apart: Extract<TransactionWork<T>, { readonly end: "commit" }> | null = null;
    const outcome = await inner.run<T>(request, async (open) => {
      const worked = await work(open);
      if (worked.end !== "commit" || worked.effects.length === 0) return worked;
      apart = { ...worked, replaces: null };
      return { ...worked, effects: [] };
    });
    if (apart === null || outcome.kind !== "committed") return outcome;
    const { life, ...rest }: Extract<TransactionWork<T>, { readonly end: "commit" }> = apart;
    const key = `${life.key}, outbox`;
    await inner.run({ ...request, key: { ...request.key, key } }, async () => ({
      ...rest,
      life: { ...life, key },
    }));
    return outcome;
  };
}

function startsLate<Tx>({ journal }: Store<Tx>): Store<Tx>["journal"] {
  const begun = new Map<string, Parameters<typeof journal.startCall>>();
  return {
    ...journal,
    async startCall(owner, intent) {
      begun.set(owner.id + intent.name, [owner, intent]);
      const now = performance.timeOrigin + performance.now();
      const how = { kind: "call", state: "started", sends: 1, result: null, finishedAt: null } as const;
      return { step: { ...intent, ...how, startedAt: now }, now };
    },
    async endCall(owner, call, end) {
      const start = begun.get(owner.id + call.name);
      if (start !== undefined) await journal.startCall(...start);
      return journal.endCall(owner, call, end);
    },
  };
}

function withOtherKeys<Found extends { readonly steps: readonly unknown[] } | null>(found: Found): Found {
  if (found === null) return found;
  const steps = (found.steps as readonly (CallStep | { readonly kind: "phase" })[]).map((step) =>
    step.kind === "call" ? { ...step, downstreamKey: `${step.downstreamKey}, again` } : step,
  );
  return { ...found, steps };
}
