/** Inputs and steps, each write one step on the rows. Null or false if the owner has lost. */
import { type InProgressRecord, type LatchkeyRecord, sameFence } from "../../engine/record.ts";
import { compareCodeUnits } from "../../fingerprint/code-units.ts";
import type {
  CallEnd,
  CallIntent,
  CallStep,
  FinishedCallsQuery,
  Journal,
  JournalCall,
  JournalSupport,
  Owner,
  Step,
} from "../journal.ts";
import { keyOf, move } from "./life.ts";
import type { MemoryRow, MemoryRows } from "./rows.ts";

/** The row of a running attempt, while `owner` owns it. */
export interface OwnedRow extends MemoryRow {
  readonly record: InProgressRecord;
}

export function ownedRow(rows: MemoryRows, { key, id, fence }: Owner): OwnedRow | null {
  const row = rows.find(key);
  if (row?.record.state !== "in_progress") return null;
  const { record } = row;
  return record.id === id && sameFence(record.fence, fence) ? { ...row, record } : null;
}

export function memoryJournal(rows: MemoryRows, now: () => number): JournalSupport {
  return {
    read: async (key, id) => {
      const row = rows.find(key);
      return row?.record.id === id ? journalOf(row, now()) : null;
    },
    startCall: async (owner, intent) => startCall(rows, now(), owner, intent),
    endCall: async (owner, call, end) => endCall(rows, now(), owner, call, end),
    refence: async (owner, token, leaseMs) => refence(rows, now(), owner, token, leaseMs),
    callsByDownstreamKey: async (keys) =>
      allCalls(rows).filter(({ step }) => keys.includes(step.downstreamKey)),
    finishedCalls: async (query) => finishedCalls(rows, query),
  };
}

function journalOf({ life }: MemoryRow, now: number): Journal {
  const steps = [...life.steps].sort((left, right) => left.position - right.position);
  return { input: life.input, recoveryPoint: life.recoveryPoint, steps, now };
}

function startCall(
  rows: MemoryRows,
  now: number,
  owner: Owner,
  intent: CallIntent,
): { readonly step: CallStep; readonly now: number } | null {
  const row = ownedRow(rows, owner);
  if (row === null) return null;
  const there = row.life.steps.find(({ name }) => name === intent.name);
  if (there?.kind === "phase") throw new TypeError(`Step ${intent.name} is a phase`);
  const step = there === undefined ? newCall(intent, now) : sentAgain(there, intent, now);
  if (step !== there) writeStep(rows, row, step);
  return { step, now };
}

function newCall(intent: CallIntent, now: number): CallStep {
  const { name, position, version, effect, generation, downstreamKey } = intent;
  const input = new Uint8Array(intent.input);
  const call = { kind: "call", name, position, version, effect, generation, downstreamKey, input } as const;
  return { ...call, state: "started", result: null, sends: 1, startedAt: now, finishedAt: null };
}

/** The step after another send; the same step if nothing changes. */
function sentAgain(step: CallStep, { generation }: CallIntent, now: number): CallStep {
  if (step.generation !== generation) return step;
  switch (step.state) {
    case "started":
      return { ...step, sends: step.sends + 1 };
    case "not_executed":
      return { ...step, state: "started", sends: step.sends + 1, startedAt: now };
    case "finished":
    case "refused":
      return step;
    default:
      return step.state satisfies never;
  }
}

const stateAfter = { finish: "finished", refuse: "refused", not_executed: "not_executed" } as const;

function endCall(
  rows: MemoryRows,
  now: number,
  owner: Owner,
  { name, generation }: { readonly name: string; readonly generation: number },
  end: CallEnd,
): boolean {
  const row = ownedRow(rows, owner);
  const step = row?.life.steps.find((candidate) => candidate.name === name);
  if (row === null || step?.kind !== "call" || step.generation !== generation) return false;
  if (step.state !== "started") return endedSo(step, end);
  if (end.event === "not_executed") writeStep(rows, row, { ...step, state: stateAfter.not_executed });
  else writeStep(rows, row, finishedCall(step, stateAfter[end.event], end.result, now), name);
  return true;
}

export function finishedCall(
  step: CallStep,
  state: "finished" | "refused",
  result: Uint8Array,
  finishedAt: number,
): CallStep {
  return { ...step, state, result, finishedAt };
}

/** Whether the step has ended with exactly this end, so that the write repeats one whose reply was lost. */
function endedSo(step: CallStep, end: CallEnd): boolean {
  if (step.state !== stateAfter[end.event]) return false;
  if (end.event === "not_executed") return true;
  return step.result !== null && Buffer.compare(step.result, end.result) === 0;
}

/** Writes the step in its place, or as the last one; and the recovery point, if it is one. */
export function writeStep(rows: MemoryRows, row: OwnedRow, step: Step, recoveryPoint?: string): void {
  const { record, terms, life } = row;
  const state = move(record.state, "advance", "in_progress");
  const steps = withStep(life.steps, step);
  rows.put({ ...record, state }, { terms, steps, ...(recoveryPoint === undefined ? {} : { recoveryPoint }) });
}

export function withStep(steps: readonly Step[], step: Step): readonly Step[] {
  const known = steps.some(({ name }) => name === step.name);
  return known ? steps.map((there) => (there.name === step.name ? step : there)) : [...steps, step];
}

/** Need not wait for a phase that is open under the old fence: its commit finds the new fence, and loses. */
function refence(rows: MemoryRows, now: number, owner: Owner, token: string, leaseMs: number) {
  const fence = { attempt: owner.fence.attempt, token };
  const row = ownedRow(rows, owner) ?? ownedRow(rows, { ...owner, fence });
  if (row === null) return null;
  rows.put({ ...row.record, fence, leaseEndsAt: now + leaseMs }, { terms: row.terms });
  return { fence, journal: journalOf(row, now) };
}

function allCalls(rows: MemoryRows): readonly JournalCall[] {
  return rows.all().flatMap(({ record, life }) => life.steps.flatMap((step) => callOf(record, step)));
}

function callOf(record: LatchkeyRecord, step: Step): readonly JournalCall[] {
  if (step.kind !== "call") return [];
  const fingerprint = record.fingerprint.digest;
  return [{ key: keyOf(record), recordId: record.id, fingerprint, step }];
}

interface EndedCall extends JournalCall {
  readonly finishedAt: number;
}

function finishedCalls(
  rows: MemoryRows,
  { effect, from, to, limit, after }: FinishedCallsQuery,
): readonly JournalCall[] {
  const ended = allCalls(rows).flatMap((call): readonly EndedCall[] => {
    const { state, finishedAt } = call.step;
    if (call.step.effect !== effect || state !== "finished" || finishedAt === null) return [];
    return finishedAt >= from && finishedAt < to ? [{ ...call, finishedAt }] : [];
  });
  const positionOf = ({ finishedAt, step }: EndedCall) => ({ finishedAt, downstreamKey: step.downstreamKey });
  return ended
    .filter((call) => after === null || inOrder(after, positionOf(call)) < 0)
    .sort((left, right) => inOrder(positionOf(left), positionOf(right)))
    .slice(0, limit)
    .map(({ finishedAt: _, ...call }) => call);
}

type CallPosition = NonNullable<FinishedCallsQuery["after"]>;

function inOrder(left: CallPosition, right: CallPosition): number {
  return left.finishedAt - right.finishedAt || compareCodeUnits(left.downstreamKey, right.downstreamKey);
}
