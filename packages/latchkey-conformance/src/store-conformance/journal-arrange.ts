/** Journals, calls and phases, for the cases about operations that own their work. */
import assert from "node:assert/strict";
import type { LatchkeyRecord, RecordKey, RecordState } from "latchkey";
import {
  type CallEnd,
  type CallIntent,
  type CallStep,
  guardOf,
  type InProgressRecord,
  type Journal,
  type LeaseTerms,
  type NewLife,
  type OpenPhase,
  type Owner,
  type PhaseRequest,
  type PhaseWork,
  type Step,
} from "latchkey/internal";
import {
  createRunning,
  defaultTerms,
  leaseMs,
  minute,
  newId,
  newKey,
  newLife,
  newToken,
  putInState,
  readRecord,
  second,
  states,
} from "./arrange.ts";
import type { CaseContext } from "./case.ts";
import { hex, unchanged } from "./check.ts";
import { newRow, transactional } from "./transactions-arrange.ts";

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function keyOf({ tenant, scope, key }: RecordKey): RecordKey {
  return { tenant, scope, key };
}

export function ownerOf(record: Pick<LatchkeyRecord, "id" | "fence" | keyof RecordKey>): Owner {
  return { key: keyOf(record), id: record.id, fence: record.fence };
}

/** A running attempt of an operation that owns its work. */
export function beginWork(
  context: CaseContext,
  terms: Partial<LeaseTerms> = {},
  life: NewLife = newLife(newKey(), { input: bytes("input") }),
): Promise<InProgressRecord> {
  return createRunning(context, keyOf(life), { leaseEnd: "resume", ...terms }, life);
}

let keysMade = 0;

/** A downstream key that no other case uses. */
export function newDownstreamKey(): string {
  keysMade += 1;
  return `lk_${keysMade.toString().padStart(6, "0")}`;
}

export function intentOf(overrides: Partial<CallIntent> = {}): CallIntent {
  return {
    name: "charge",
    position: 0,
    version: "1",
    effect: "payments.charge",
    generation: 0,
    downstreamKey: newDownstreamKey(),
    input: bytes("call input"),
    ...overrides,
  };
}

/** Starts a call, so that its intent is stored. */
export async function startCall(
  context: CaseContext,
  record: InProgressRecord,
  intent: CallIntent = intentOf(),
): Promise<CallStep> {
  const started = await context.store.journal.startCall(ownerOf(record), intent);
  assert.ok(started, "the owner must be able to start a call");
  return started.step;
}

export const callEnds = {
  finish: { event: "finish", result: bytes("result") },
  refuse: { event: "refuse", result: bytes("no") },
  not_executed: { event: "not_executed" },
} as const satisfies Record<CallEnd["event"], CallEnd>;

export async function endCall(
  context: CaseContext,
  record: InProgressRecord,
  end: CallEnd,
  { name, generation }: { readonly name: string; readonly generation: number } = intentOf(),
): Promise<void> {
  const ended = await context.store.journal.endCall(ownerOf(record), { name, generation }, end);
  assert.equal(ended, true, "the owner must be able to end its call");
}

export async function journalOf(
  context: CaseContext,
  { id, ...key }: LatchkeyRecord | (Owner["key"] & { id: string }),
): Promise<Journal> {
  const journal = await context.other.journal.read(keyOf(key), id);
  assert.ok(journal, "a stored record must have a journal");
  return journal;
}

/** Reads the call of this name. */
export async function callOf(
  context: CaseContext,
  record: LatchkeyRecord,
  name = "charge",
): Promise<CallStep> {
  const step = (await journalOf(context, record)).steps.find((candidate) => candidate.name === name);
  assert.ok(step?.kind === "call", `the journal must have a call ${name}`);
  return step;
}

export function sameSteps(actual: readonly Step[], expected: readonly Step[], message: string): void {
  assert.deepEqual(actual.map(comparableStep), expected.map(comparableStep), message);
}

/** Asserts that two journals are equal, except for the time of the reading. */
export function sameJournal(actual: Journal | null, expected: Journal | null, message: string): void {
  assert.deepEqual(comparableJournal(actual), comparableJournal(expected), message);
}

function comparableJournal(journal: Journal | null): unknown {
  if (journal === null) return null;
  const { input, recoveryPoint, steps } = journal;
  assert.ok(input === null || hex(input) !== undefined);
  return { input: input && hex(input), recoveryPoint, steps: steps.map(comparableStep) };
}

function comparableStep(step: Step): unknown {
  const result = step.result && hex(step.result);
  return step.kind === "call" ? { ...step, result, input: hex(step.input) } : { ...step, result };
}

/** Runs `act` and asserts that the record and its journal are the same afterwards. */
export async function changesNothing<T>(
  context: CaseContext,
  record: { readonly id: string } & RecordKey,
  what: string,
  act: () => Promise<T>,
): Promise<T> {
  const before = await context.other.journal.read(keyOf(record), record.id);
  const result = await unchanged(context, keyOf(record), what, act);
  const after = await context.other.journal.read(keyOf(record), record.id);
  sameJournal(after, before, `${what} must leave the journal as it was`);
  return result;
}

/** Asserts that a write does not happen: it returns null or false, and neither the record nor its journal changes. */
export async function refusedWrite(
  context: CaseContext,
  record: { readonly id: string } & RecordKey,
  what: string,
  act: () => Promise<unknown>,
): Promise<void> {
  const result = await changesNothing(context, record, what, act);
  assert.ok(result === null || result === false, `${what} must be refused`);
}

/** Owners that are not this record's, each wrong in one part. */
export function wrongOwnersOf(record: InProgressRecord): readonly (readonly [what: string, owner: Owner])[] {
  const owner = ownerOf(record);
  const { attempt, token } = owner.fence;
  return [
    ["another id", { ...owner, id: newId() }],
    ["another token", { ...owner, fence: { attempt, token: newToken() } }],
    ["the next number", { ...owner, fence: { attempt: attempt + 1, token } }],
    ["the previous number", { ...owner, fence: { attempt: attempt - 1, token } }],
    ["another tenant's key", { ...owner, key: { ...owner.key, tenant: "another" } }],
    ["another key", { ...owner, key: newKey() }],
  ];
}

/** A record in each state except `in_progress`, with the owner that it last had. */
export const otherStates: readonly RecordState[] = states.filter((state) => state !== "in_progress");

export async function ownerIn(context: CaseContext, state: RecordState) {
  const record = await putInState(context, state);
  return { record, owner: ownerOf(record) };
}

/** Lets the lease end and another attempt take over. */
export async function takeOver(
  context: CaseContext,
  record: InProgressRecord,
  terms: Partial<LeaseTerms> = {},
): Promise<InProgressRecord> {
  const there = await readRecord(context, keyOf(record));
  if (there.state === "in_progress") await context.advance(leaseMs + second);
  const taken = await context.other.takeOver(keyOf(record), guardOf(there), there.fingerprint, newToken(), {
    ...defaultTerms,
    leaseEnd: "resume",
    ...terms,
  });
  assert.ok(taken, "a dead or retryable attempt must be taken over");
  return taken;
}

export function phaseRequest(owner: Owner, overrides: Partial<PhaseRequest> = {}): PhaseRequest {
  return { owner, isolation: null, idleLimitMs: minute, ...overrides };
}

export type PhaseCommit = Extract<PhaseWork<string>, { readonly end: "commit" }>;

export function phaseCommit(
  name = "reserve",
  overrides: Partial<PhaseCommit["step"]> & Partial<Pick<PhaseCommit, "completes" | "effects">> = {},
): PhaseCommit {
  const { completes = null, effects = [], ...step } = overrides;
  return {
    end: "commit",
    value: "value",
    step: { name, position: 0, version: "1", result: bytes("phase result"), ...step },
    completes,
    effects,
  };
}

/** One complete phase: writes `row`, then ends as `work` says. */
export function phasing(
  context: CaseContext,
  owner: Owner,
  row: string,
  work: (open: OpenPhase<unknown>) => PhaseWork<string> | Promise<PhaseWork<string>>,
  overrides: Partial<PhaseRequest> = {},
) {
  const { support, business } = transactional(context);
  return support.phase(phaseRequest(owner, overrides), async (open) => {
    await business.write(open.tx, row);
    return work(open);
  });
}

/** Commits a phase. */
export async function runPhase(
  context: CaseContext,
  record: InProgressRecord,
  name?: string,
  overrides?: Parameters<typeof phaseCommit>[1],
): Promise<void> {
  const outcome = await phasing(context, ownerOf(record), newRow(), () => phaseCommit(name, overrides));
  assert.equal(outcome.kind, "committed", "the owner must be able to commit a phase");
}

/** Whether another session sees the row. */
export async function isCommitted(context: CaseContext, row: string): Promise<boolean> {
  return (await transactional(context).business.committedRows()).includes(row);
}
