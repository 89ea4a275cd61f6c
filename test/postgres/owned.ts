/** Attempts with steps, for the tests of the Postgres store. */
import { guardOf, type InProgressRecord, type RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { IsolationLevel } from "../../packages/latchkey/src/sql/transaction.ts";
import type { CallIntent, Owner } from "../../packages/latchkey/src/stores/journal.ts";
import type { LeaseTerms, Store } from "../../packages/latchkey/src/stores/store.ts";
import type { OpenPhase, PhaseOutcome, PhaseWork } from "../../packages/latchkey/src/stores/transactions.ts";
import { answer, newKey, newLife, retention, supportOf, terms } from "./arrange.ts";
import type { TestTx } from "./harness.ts";

export const isolationLevels: readonly IsolationLevel[] = [
  "read committed",
  "repeatable read",
  "serializable",
];

export const input = new TextEncoder().encode("input");
const result = new TextEncoder().encode("result");

export function ownerOf({ id, fence, tenant, scope, key }: InProgressRecord): Owner {
  return { key: { tenant, scope, key }, id, fence };
}

/** An attempt under a lease that may be resumed. */
export async function begin(
  store: Store<TestTx>,
  overrides: Partial<LeaseTerms> = {},
  key: RecordKey = newKey(),
): Promise<InProgressRecord> {
  const record = await store.create(newLife(key, { input }), null, {
    ...terms,
    leaseEnd: "resume",
    ...overrides,
  });
  if (record === null) throw new Error("the attempt must begin");
  return record;
}

export type CommittedPhase = Extract<PhaseWork<string>, { readonly end: "commit" }>;

export function phaseEnd(name: string, overrides: Partial<CommittedPhase> = {}): CommittedPhase {
  const step = { name, position: 0, version: "1", result };
  return { end: "commit", value: "value", step, completes: null, effects: [], ...overrides };
}

export const completing = { completes: { answer, retention } };

export interface Phase {
  readonly name?: string;
  readonly isolation?: IsolationLevel | null;
  readonly idleLimitMs?: number;
  readonly end?: Partial<CommittedPhase>;
}

/** Writes a business row named like the key, lets `then` happen, and commits the step. */
export function writingPhase(
  store: Store<TestTx>,
  owner: Owner,
  { name = "one", isolation = null, idleLimitMs = 30_000, end = {} }: Phase = {},
  then: (open: OpenPhase<TestTx>) => Promise<unknown> = async () => {},
): Promise<PhaseOutcome<string>> {
  return supportOf(store).phase({ owner, isolation, idleLimitMs }, async (open) => {
    await open.tx.query("insert into business values ($1)", [owner.key.key]);
    await then(open);
    return phaseEnd(name, end);
  });
}

export function intent(name: string, overrides: Partial<CallIntent> = {}): CallIntent {
  const downstreamKey = `lk_${systemPorts.random.token()}`;
  return {
    name,
    position: 1,
    version: "1",
    effect: "charge",
    generation: 0,
    downstreamKey,
    input,
    ...overrides,
  };
}

/** An attempt whose call is in doubt. */
export async function beginUnknown(store: Store<TestTx>, reconcileAfterMs: number | null = 0) {
  const record = await begin(store);
  const owner = ownerOf(record);
  await store.journal.startCall(owner, intent("charge"));
  const doubt = { event: "doubt", errorCode: "call-in-doubt", reconcileAfterMs } as const;
  await store.end(owner.key, owner.id, owner.fence, doubt);
  return { owner, guard: { ...guardOf(record), state: "unknown" } as const };
}

export function note(actor = "outcome-reconciler") {
  return {
    id: systemPorts.random.uuid(systemPorts.clock.wallMs()),
    actor,
    proof: "found-downstream",
    reason: null,
  };
}
