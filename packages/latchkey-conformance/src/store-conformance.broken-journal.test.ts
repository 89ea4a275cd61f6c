/** The cases about journals, phases and settlements can fail: each of them catches some of these mistakes. */

import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import {
  alter,
  casesOf,
  currentOf,
  failuresOf,
  type Mistake,
  otherTurn,
  type Parts,
  restored,
  running,
  slowCase,
} from "../../../test/support/broken-store.ts";
import { isThorough, sample } from "../../../test/support/thorough.ts";
import {
  guardOf,
  type InProgressRecord,
  type LatchkeyRecord,
  type RecordKey,
  type RetryableRecord,
} from "../../latchkey/src/engine/record.ts";
import type {
  CallStep,
  JournalCall,
  JournalSupport,
  Owner,
  Step,
} from "../../latchkey/src/stores/journal.ts";
import {
  type KeptLife,
  keyText,
  type MemoryRow,
  MemoryRows,
  type RowChange,
} from "../../latchkey/src/stores/memory/rows.ts";
import type { MemoryTransaction } from "../../latchkey/src/stores/memory/tables.ts";
import type { SettlementSupport } from "../../latchkey/src/stores/settlement.ts";
import type {
  OpenPhase,
  PhaseRequest,
  PhaseWork,
  TransactionSupport,
} from "../../latchkey/src/stores/transactions.ts";
import { day, year } from "./store-conformance/arrange.ts";

type Support = TransactionSupport<MemoryTransaction>;
type Open = OpenPhase<MemoryTransaction>;

/** Changes the calls of a life, wherever they are. */
function alterCalls(rows: MemoryRows, key: RecordKey, change: (call: CallStep) => Step | null): void {
  const row = rows.find(key);
  if (row === null) return;
  const steps = row.life.steps.flatMap((step) => {
    const next = step.kind === "call" ? change(step) : step;
    return next === null ? [] : [next];
  });
  rows.put(row.record, { ...restored(row), steps });
}

function callIn(rows: MemoryRows, key: RecordKey, name: string): CallStep | null {
  const step = rows.find(key)?.life.steps.find((candidate) => candidate.name === name);
  return step?.kind === "call" ? step : null;
}

type OwnerOf = (owner: Owner, there: LatchkeyRecord) => Owner;

const anyId: OwnerOf = (owner, there) => ({ ...owner, id: there.id });
const anyToken: OwnerOf = (owner, there) =>
  owner.fence.attempt === there.fence.attempt ? { ...owner, fence: there.fence } : owner;
const anyNumber: OwnerOf = (owner, there) =>
  owner.fence.token === there.fence.token ? { ...owner, fence: there.fence } : owner;
const anybody: OwnerOf = (owner, there) => ({ ...owner, id: there.id, fence: there.fence });

type Writer = "startCall" | "endCall" | "refence" | "phase";

/** One of the owner's writes, with another owner than the caller passed. */
function writing(writer: Writer, change: (parts: Parts, owner: Owner) => Owner): Mistake {
  if (writer === "phase") {
    return {
      transactions: (parts) => ({
        phase: ({ owner, ...request }, work) => {
          // Evaluated when the phase ends, as in the sound store.
          const late = {
            ...request,
            get owner() {
              return change(parts, owner);
            },
          };
          return parts.support.phase(late, work);
        },
      }),
    };
  }
  return {
    journal: (parts) => {
      const { startCall, endCall, refence } = parts.inner.journal;
      const all: Pick<JournalSupport, "startCall" | "endCall" | "refence"> = {
        startCall: (owner, intent) => startCall(change(parts, owner), intent),
        endCall: (owner, call, end) => endCall(change(parts, owner), call, end),
        refence: (owner, ...rest) => refence(change(parts, owner), ...rest),
      };
      return { [writer]: all[writer] };
    },
  };
}

const ownedBy = (writer: Writer, change: OwnerOf) =>
  writing(writer, ({ rows }, owner) => {
    const there = currentOf(rows, owner.key);
    return there === null ? owner : change(owner, there);
  });

/** Accepts owners of any tenant on the record's tenant. */
const acrossTenants = (writer: Writer) =>
  writing(writer, ({ rows }, owner) => {
    const there = rows.all().find(({ record }) => record.id === owner.id)?.record;
    return there === undefined ? owner : { ...owner, key: there };
  });

/** Sets a record in any state back to running. */
const reviving = (writer: Writer) =>
  writing(writer, ({ rows, now }, owner) => {
    alter(rows, owner.key, (record) =>
      record.id !== owner.id || record.state === "in_progress"
        ? record
        : running(record, now(), now() + year),
    );
    return owner;
  });

/** Requires a running lease. */
const insisting = (writer: Writer) =>
  writing(writer, ({ rows, now }, owner) => {
    const there = currentOf(rows, owner.key);
    const dead = there?.state === "in_progress" && now() >= there.leaseEndsAt;
    return dead ? { ...owner, id: "00000000-0000-7000-8000-000000000000" } : owner;
  });

/** Reads first, then writes based on what it read. */
function checksThenActs(writer: "startCall" | "endCall" | "refence"): Mistake {
  return {
    journal: ({ inner, rows }) => {
      const stale = async <T>(owner: Owner, act: () => Promise<T>): Promise<T> => {
        const seen = rows.find(owner.key);
        await otherTurn();
        if (seen !== null) rows.put(seen.record, restored(seen));
        return act();
      };
      const { startCall, endCall, refence } = inner.journal;
      const all: Pick<JournalSupport, "startCall" | "endCall" | "refence"> = {
        startCall: (owner, intent) => stale(owner, () => startCall(owner, intent)),
        endCall: (owner, call, end) => stale(owner, () => endCall(owner, call, end)),
        refence: (owner, ...rest) => stale(owner, () => refence(owner, ...rest)),
      };
      return { [writer]: all[writer] };
    },
  };
}

/** Rows that change what they store. */
class LossyRows extends MemoryRows {
  readonly #lose: (record: LatchkeyRecord, life: KeptLife) => RowChange;

  constructor(lose: (record: LatchkeyRecord, life: KeptLife) => RowChange) {
    super();
    this.#lose = lose;
  }

  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    const put = super.put(record, change);
    const row = super.find(record);
    if (row !== null) super.put(record, { ...restored(row), ...this.#lose(row.record, row.life) });
    return put;
  }
}

const lossy = (lose: (record: LatchkeyRecord, life: KeptLife) => RowChange): Mistake => ({
  rows: () => new LossyRows(lose),
});

const losingStepsIn = (...states: readonly LatchkeyRecord["state"][]) =>
  lossy((record) => (states.includes(record.state) ? { steps: [] } : {}));
const losingInputIn = (...states: readonly LatchkeyRecord["state"][]) =>
  lossy((record) => (states.includes(record.state) ? { input: null } : {}));

/** Bytes of a journal, changed by `lose` when they are stored. */
function bytesStoredAs(lose: (bytes: Uint8Array) => Uint8Array): Mistake {
  return lossy((_, { input, steps }) => ({
    input: input && lose(input),
    steps: steps.map((step) =>
      step.kind === "phase"
        ? { ...step, result: lose(step.result) }
        : { ...step, input: lose(step.input), result: step.result && lose(step.result) },
    ),
  }));
}

/** Rows that keep inputs after their life has ended. */
class HoardingRows extends MemoryRows {
  readonly #inputs = new Map<string, Uint8Array>();

  override find(key: RecordKey): MemoryRow | null {
    const row = super.find(key);
    const input = row === null ? undefined : this.#inputs.get(row.record.id);
    return row === null || input === undefined ? row : { ...row, life: { ...row.life, input } };
  }

  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    if (change.input != null) this.#inputs.set(record.id, change.input);
    return super.put(record, change);
  }
}

/** Rows whose steps belong to the key, whatever lives follow. */
class StickyRows extends MemoryRows {
  readonly #steps = new Map<string, readonly Step[]>();

  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    const put = super.put(record, { steps: this.#steps.get(keyText(record)) ?? [], ...change });
    this.#steps.set(keyText(record), super.find(record)?.life.steps ?? []);
    return put;
  }
}

function journal(make: (parts: Parts) => Partial<JournalSupport>): Mistake {
  return { journal: make };
}

function settlement(make: (parts: Parts) => Partial<SettlementSupport>): Mistake {
  return { settlement: make };
}

type AnyWork = <T>(work: PhaseWork<T>, request: PhaseRequest) => PhaseWork<T>;

/** A phase with another handle and another end. */
function phase(
  change: (parts: Parts) => { readonly open?: (open: Open) => Open; readonly end?: AnyWork },
): Mistake {
  return {
    transactions: (parts) => {
      const { open: changed, end } = change(parts);
      return {
        phase: (request, work) =>
          parts.support.phase(request, async (open) => {
            const ended = await work(changed?.(open) ?? open);
            return end?.(ended, request) ?? ended;
          }),
      };
    },
  };
}

/** A phase that runs through `run`. */
function phaseRun(run: (parts: Parts) => Support["phase"]): Mistake {
  return { transactions: (parts) => ({ phase: run(parts) }) };
}

/** Rows that keep their resume time when they continue. */
class DueRows extends MemoryRows {
  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    const before = super.find(record)?.resumeAfter ?? null;
    return super.put(record, { ...change, resumeAfter: change.resumeAfter ?? before });
  }
}

/** Records whose lease has ended or whose life is retryable, ignoring resume time and expiry. */
function resumableOf(
  rows: MemoryRows,
  now: number,
  operations: readonly string[],
  state: "in_progress" | "retryable",
): readonly (InProgressRecord | RetryableRecord)[] {
  return rows.all().flatMap(({ record, terms }): readonly (InProgressRecord | RetryableRecord)[] => {
    if (!operations.includes(record.operation) || record.state !== state) return [];
    if (record.state === "retryable") return [record];
    if (record.state !== "in_progress" || terms?.leaseEnd !== "resume") return [];
    return now >= record.leaseEndsAt ? [record] : [];
  });
}

const withLeaseEnding = (leaseEndsAt: number) => (record: LatchkeyRecord) =>
  record.state === "in_progress" ? { ...record, leaseEndsAt } : record;

/** One more action after the sound store's settlement. */
function afterSettle(act: (parts: Parts, key: RecordKey) => void): Mistake {
  return settlement((parts) => ({
    async settle(key, ...rest) {
      const settled = await parts.inner.settlement.settle(key, ...rest);
      if (settled) act(parts, key);
      return settled;
    },
  }));
}

/** Each mistake, and a case that must catch it. */
const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "a journal for any id": [
    "journal: null if there is no record, and for another life",
    journal(({ inner, rows }) => ({
      read: (key, id) => inner.journal.read(key, currentOf(rows, key)?.id ?? id),
    })),
  ],
  "an empty journal for no record": [
    "journal: null if there is no record, and for another life",
    journal(({ inner, now }) => ({
      read: async (key, id) =>
        (await inner.journal.read(key, id)) ?? { input: null, recoveryPoint: null, steps: [], now: now() },
    })),
  ],
  "a journal with its time in seconds": [
    "journal: a new life has its input and no steps",
    journal(({ inner }) => ({
      async read(key, id) {
        const read = await inner.journal.read(key, id);
        return read && { ...read, now: read.now / 1000 };
      },
    })),
  ],
  "an empty input in place of none": [
    "journal: a life that began without an input has none",
    lossy((_, { input }) => ({ input: input ?? new Uint8Array() })),
  ],
  "no input for pending requests": [
    "journal: a pending request and a lost transaction keep their input",
    losingInputIn("pending"),
  ],
  "inputs that are never cleared": [
    "journal: a life that completed loses its input, and keeps its steps and recovery point",
    { rows: () => new HoardingRows() },
  ],
  "steps by the order of writing": [
    "journal: steps are ordered by their position, whatever the order in which they were written",
    journal(({ inner, rows }) => ({
      async read(key, id) {
        const read = await inner.journal.read(key, id);
        return read && { ...read, steps: rows.find(key)?.life.steps ?? [] };
      },
    })),
  ],
  "positions ordered as text": [
    "journal: steps are ordered by their position, whatever the order in which they were written",
    journal(({ inner }) => ({
      async read(key, id) {
        const read = await inner.journal.read(key, id);
        if (read === null) return null;
        const steps = read.steps.toSorted((left, right) =>
          `${left.position}` < `${right.position}` ? -1 : 1,
        );
        return { ...read, steps };
      },
    })),
  ],
  "steps identified by their name only": [
    "journal: steps of the same name in other lives and other tenants are separate",
    journal(({ inner, rows }) => ({
      async endCall(owner, call, end) {
        const ended = await inner.journal.endCall(owner, call, end);
        const done = callIn(rows, owner.key, call.name);
        for (const { record } of rows.all()) {
          alterCalls(rows, record, (step) =>
            step.name === call.name && done ? { ...step, state: done.state } : step,
          );
        }
        return ended;
      },
    })),
  ],
  "journals as UTF-8 text": [
    "journal: inputs and results of any bytes come back unchanged",
    bytesStoredAs((bytes) => new TextEncoder().encode(new TextDecoder().decode(bytes))),
  ],
  "journals without trailing zeros": [
    "journal: a phase's result of any bytes comes back unchanged",
    bytesStoredAs((bytes) => (bytes.at(-1) === 0 ? bytes.slice(0, -1) : bytes)),
  ],
  "names without white space around": [
    "journal: names, versions and keys of any characters come back unchanged",
    journal(({ inner }) => ({
      startCall: (owner, intent) =>
        inner.journal.startCall(owner, { ...intent, name: intent.name.trim(), effect: intent.effect.trim() }),
    })),
  ],
  "bytes that are shared with the caller": [
    "journal: changing a value that was passed in or returned changes nothing",
    journal(({ inner }) => {
      const inputs = new Map<string, Uint8Array>();
      return {
        startCall(owner, intent) {
          inputs.set(owner.id, inputs.get(owner.id) ?? intent.input);
          return inner.journal.startCall(owner, intent);
        },
        async read(key, id) {
          const read = await inner.journal.read(key, id);
          const input = inputs.get(id);
          if (read === null || input === undefined) return read;
          return {
            ...read,
            steps: read.steps.map((step) => (step.kind === "call" ? { ...step, input } : step)),
          };
        },
      };
    }),
  ],
  "steps of the key": [
    "journal: steps go when their record is replaced by a new life, and not before",
    { rows: () => new StickyRows() },
  ],
  "steps that stay behind": [
    "journal: steps go when their record is forgotten, and not before",
    journal(({ inner }) => {
      const left = new Map<string, JournalCall>();
      return {
        async startCall(owner, intent) {
          const started = await inner.journal.startCall(owner, intent);
          if (started !== null) {
            const { downstreamKey } = started.step;
            const fingerprint = new Uint8Array();
            left.set(downstreamKey, { key: owner.key, recordId: owner.id, fingerprint, step: started.step });
          }
          return started;
        },
        async callsByDownstreamKey(keys) {
          const found = await inner.journal.callsByDownstreamKey(keys);
          const there = new Set(found.map(({ step }) => step.downstreamKey));
          return [...found, ...keys.flatMap((key) => (there.has(key) ? [] : (left.get(key) ?? [])))];
        },
      };
    }),
  ],
  "a renewal that forgets the steps": [
    "journal: a life that is renewed keeps its input, its steps and its recovery point",
    {
      store: ({ inner, rows }) => ({
        async renew(key, ...rest) {
          const renewed = await inner.renew(key, ...rest);
          alterCalls(rows, key, () => null);
          return renewed;
        },
      }),
    },
  ],
  "a take-over that starts from nothing": [
    "journal: a life that is taken over keeps its input, its steps and its recovery point",
    lossy((record) => (record.fence.attempt > 1 ? { steps: [], recoveryPoint: null } : {})),
  ],
  "a take-over without the input": [
    "journal: a life that was retried keeps its input, its steps and its recovery point",
    lossy((record) => (record.fence.attempt > 1 ? { input: null } : {})),
  ],
  "retryable without an input": [
    "journal: a life that is retryable keeps its input, its steps and its recovery point",
    losingInputIn("retryable"),
  ],
  "retryable without its steps": [
    "journal: a life that was settled as not executed keeps its input, its steps and its recovery point",
    losingStepsIn("retryable"),
  ],
  "unknown without an input": [
    "journal: a life that is in doubt keeps its input, its steps and its recovery point",
    losingInputIn("unknown"),
  ],
  "unknown without its steps": [
    "journal: a life that was given up keeps its input, its steps and its recovery point",
    losingStepsIn("unknown"),
  ],
  "a claim without the steps": [
    "journal: a life that was claimed and postponed keeps its input, its steps and its recovery point",
    settlement(({ inner, rows }) => ({
      async postpone(key, ...rest) {
        alterCalls(rows, key, () => null);
        return inner.settlement.postpone(key, ...rest);
      },
    })),
  ],
  "completed without its steps": [
    "journal: a life that was settled as completed loses its input, and keeps its steps and recovery point",
    losingStepsIn("completed"),
  ],
  "failed without its steps": [
    "journal: a life that was settled as failed loses its input, and keeps its steps and recovery point",
    losingStepsIn("failed"),
  ],
  "a purge that takes the steps": [
    "journal: a life that was purged loses its input, and keeps its steps and recovery point",
    losingStepsIn("expired"),
  ],
  "a cleaner of old steps": [
    "journal: cleaning leaves a record that is unknown and its steps, however old they are",
    {
      store: ({ inner, rows, now }) => ({
        async clean(limit) {
          for (const { record } of rows.all()) {
            if (now() > record.createdAt + 100 * day) alterCalls(rows, record, () => null);
          }
          return inner.clean(limit);
        },
      }),
    },
  ],
  "a lost transaction's input that replaces the first": [
    "journal: a retryable life whose transaction was lost keeps its first input and its steps",
    {
      store: ({ inner, rows }) => ({
        async recordLostTransaction(life, ...rest) {
          const lost = await inner.recordLostTransaction(life, ...rest);
          const row = rows.find(life);
          if (row !== null) rows.put(row.record, { ...restored(row), input: life.input ?? null });
          return lost;
        },
      }),
    },
  ],

  "a call by anybody's token": [
    "start call: refused to anyone but the owner",
    ownedBy("startCall", anyToken),
  ],
  "a call by anybody's id": ["start call: refused to anyone but the owner", ownedBy("startCall", anyId)],
  "a call by any number": ["start call: refused to anyone but the owner", ownedBy("startCall", anyNumber)],
  "a call across tenants": ["start call: refused to anyone but the owner", acrossTenants("startCall")],
  "a call after the take-over": [
    "start call: accepted after the lease has ended, until another attempt takes over",
    ownedBy("startCall", anybody),
  ],
  "a call that insists on a running lease": [
    "start call: accepted after the lease has ended, until another attempt takes over",
    insisting("startCall"),
  ],
  "a call on a record that does not run": [
    "start call: refused on a record that is unknown",
    reviving("startCall"),
  ],
  "a call that checks, then acts": [
    "start call: many at once make one step that counts all of them",
    checksThenActs("startCall"),
  ],
  "a call that is returned and not written": [
    "start call: racing with a take-over, the result that was returned is the one that is stored",
    journal(({ inner, rows }) => ({
      async startCall(owner, intent) {
        const started = await inner.journal.startCall(owner, intent);
        alterCalls(rows, owner.key, () => null);
        return started;
      },
    })),
  ],
  "an intent without its version": [
    "start call: the intent is stored as given, with the current time",
    journal(({ inner }) => ({
      startCall: (owner, intent) => inner.journal.startCall(owner, { ...intent, version: "1" }),
    })),
  ],
  "a call that extends the lease": [
    "start call: leaves the record itself unchanged",
    journal(({ inner, rows }) => ({
      async startCall(owner, intent) {
        const started = await inner.journal.startCall(owner, intent);
        alter(rows, owner.key, (record) =>
          record.state === "in_progress" ? { ...record, leaseEndsAt: record.leaseEndsAt + 1 } : record,
        );
        return started;
      },
    })),
  ],
  "a repeated call with the new input": [
    "start call: a started call keeps all its fields, and counts one more send",
    journal(({ inner, rows }) => ({
      startCall(owner, intent) {
        alterCalls(rows, owner.key, (step) =>
          step.name === intent.name ? { ...step, input: intent.input } : step,
        );
        return inner.journal.startCall(owner, intent);
      },
    })),
  ],
  "a repeated call under a new key": [
    "start call: many at once make one step that counts all of them",
    journal(({ inner, rows }) => ({
      startCall(owner, { downstreamKey, ...intent }) {
        alterCalls(rows, owner.key, (step) =>
          step.name === intent.name ? { ...step, downstreamKey } : step,
        );
        return inner.journal.startCall(owner, { downstreamKey, ...intent });
      },
    })),
  ],
  "a restarted call with its first start time": [
    "start call: a call that is not executed is started again with its own input and key, at the current time",
    journal(({ inner, rows }) => ({
      async startCall(owner, intent) {
        const before = callIn(rows, owner.key, intent.name);
        const started = await inner.journal.startCall(owner, intent);
        if (started === null || before === null) return started;
        const { startedAt } = before;
        alterCalls(rows, owner.key, (step) => (step.name === intent.name ? { ...step, startedAt } : step));
        return { ...started, step: { ...started.step, startedAt } };
      },
    })),
  ],
  "a finished call that is restarted": [
    "start call: a call that has ended with finish is returned unchanged",
    journal(({ inner, rows }) => ({
      startCall(owner, intent) {
        alterCalls(rows, owner.key, (step) =>
          step.name === intent.name
            ? { ...step, state: "not_executed", result: null, finishedAt: null }
            : step,
        );
        return inner.journal.startCall(owner, intent);
      },
    })),
  ],
  "a refused call that is retried": [
    "start call: a call that has ended with refuse is returned unchanged",
    journal(({ inner, rows }) => ({
      startCall(owner, intent) {
        alterCalls(rows, owner.key, (step) =>
          step.state === "refused"
            ? { ...step, state: "not_executed", result: null, finishedAt: null }
            : step,
        );
        return inner.journal.startCall(owner, intent);
      },
    })),
  ],
  "generations that are ignored": [
    "start call: a call of another generation is returned unchanged",
    journal(({ inner, rows }) => ({
      startCall(owner, intent) {
        const generation = callIn(rows, owner.key, intent.name)?.generation ?? intent.generation;
        return inner.journal.startCall(owner, { ...intent, generation });
      },
    })),
  ],
  "a call in the place of a phase": [
    "start call: the name of a phase is refused",
    journal(({ inner, rows }) => ({
      startCall(owner, intent) {
        const row = rows.find(owner.key);
        const steps = row?.life.steps.filter(({ kind, name }) => kind === "call" || name !== intent.name);
        if (row !== null && steps !== undefined) rows.put(row.record, { ...restored(row), steps });
        return inner.journal.startCall(owner, intent);
      },
    })),
  ],

  "an end by anybody's token": ["end call: refused to anyone but the owner", ownedBy("endCall", anyToken)],
  "an end by anybody's id": ["end call: refused to anyone but the owner", ownedBy("endCall", anyId)],
  "an end by any number": ["end call: refused to anyone but the owner", ownedBy("endCall", anyNumber)],
  "an end across tenants": ["end call: refused to anyone but the owner", acrossTenants("endCall")],
  "an end after the take-over": [
    "end call: accepted after the lease has ended, until another attempt takes over",
    ownedBy("endCall", anybody),
  ],
  "an end that insists on a running lease": [
    "end call: accepted after the lease has ended, until another attempt takes over",
    insisting("endCall"),
  ],
  "an end on a record that does not run": [
    "end call: refused on a record that is unknown",
    reviving("endCall"),
  ],
  "an end that checks, then acts": [
    "end call: exactly one of many different ends at once is accepted",
    checksThenActs("endCall"),
  ],
  "an end that is returned and not written": [
    "end call: racing with a take-over, the result that was returned is the one that is stored",
    journal(({ inner }) => ({
      endCall: async (owner, call, end) =>
        end.event === "finish" ? true : inner.journal.endCall(owner, call, end),
    })),
  ],
  "a refusal that does not advance the recovery point": [
    "end call: refuse stores the result and advances the recovery point",
    journal(({ inner, rows }) => ({
      async endCall(owner, call, end) {
        const before = rows.find(owner.key)?.life.recoveryPoint ?? null;
        const ended = await inner.journal.endCall(owner, call, end);
        const row = rows.find(owner.key);
        if (end.event === "refuse" && row !== null) {
          rows.put(row.record, { ...restored(row), recoveryPoint: before });
        }
        return ended;
      },
    })),
  ],
  "a recovery point for a call that did not happen": [
    "end call: not_executed gives the call back, and leaves the recovery point",
    journal(({ inner, rows }) => ({
      async endCall(owner, call, end) {
        const ended = await inner.journal.endCall(owner, call, end);
        const row = rows.find(owner.key);
        if (row !== null) rows.put(row.record, { ...restored(row), recoveryPoint: call.name });
        return ended;
      },
    })),
  ],
  "a recovery point that stays at the first": [
    "end call: the recovery point is the last finished step",
    lossy((_, { recoveryPoint, steps }) => ({
      recoveryPoint: recoveryPoint === null ? null : (steps[0]?.name ?? recoveryPoint),
    })),
  ],
  "an end without its time": [
    "end call: finish stores the result and advances the recovery point",
    journal(({ inner, rows }) => ({
      async endCall(owner, call, end) {
        const ended = await inner.journal.endCall(owner, call, end);
        alterCalls(rows, owner.key, (step) => ({ ...step, finishedAt: step.finishedAt && step.startedAt }));
        return ended;
      },
    })),
  ],
  "an end that cannot be repeated": [
    "end call: repeating finish after a lost reply is true and changes nothing",
    journal(({ inner, rows }) => ({
      endCall: async (owner, call, end) =>
        callIn(rows, owner.key, call.name)?.state === "started" && inner.journal.endCall(owner, call, end),
    })),
  ],
  "an end that is written again": [
    "end call: after finish, no other end is accepted",
    journal(({ inner, rows }) => ({
      endCall(owner, call, end) {
        alterCalls(rows, owner.key, (step) =>
          step.name === call.name ? { ...step, state: "started" } : step,
        );
        return inner.journal.endCall(owner, call, end);
      },
    })),
  ],
  "an end that is always true": [
    "end call: false if no such call was started, or one of another generation",
    journal(({ inner }) => ({
      async endCall(owner, call, end) {
        await inner.journal.endCall(owner, call, end);
        return true;
      },
    })),
  ],
  "an end of any generation": [
    "end call: an end for the generation before a reopened one is false",
    journal(({ inner, rows }) => ({
      endCall(owner, call, end) {
        const generation = callIn(rows, owner.key, call.name)?.generation ?? call.generation;
        return inner.journal.endCall(owner, { ...call, generation }, end);
      },
    })),
  ],
  "an end of a phase": [
    "end call: the name of a phase is refused",
    journal(({ inner, rows }) => ({
      async endCall(owner, call, end) {
        const there = rows.find(owner.key)?.life.steps.find(({ name }) => name === call.name);
        return there?.kind === "phase" || inner.journal.endCall(owner, call, end);
      },
    })),
  ],

  "calls that are only found when finished": [
    "calls by downstream key: found in any state, with their records; unknown keys are omitted",
    journal(({ inner }) => ({
      callsByDownstreamKey: async (keys) =>
        (await inner.journal.callsByDownstreamKey(keys)).filter(({ step }) => step.state === "finished"),
    })),
  ],
  "calls of one tenant for all": [
    "calls by downstream key: found for several tenants, each with its own key",
    journal(({ inner }) => ({
      callsByDownstreamKey: async (keys) =>
        (await inner.journal.callsByDownstreamKey(keys)).map((call) => ({
          ...call,
          key: { ...call.key, tenant: "tenant-1" },
        })),
    })),
  ],
  "calls without their request's fingerprint": [
    "calls by downstream key: found in any state, with their records; unknown keys are omitted",
    journal(({ inner }) => ({
      callsByDownstreamKey: async (keys) =>
        (await inner.journal.callsByDownstreamKey(keys)).map((call) => ({
          ...call,
          fingerprint: new Uint8Array(32),
        })),
    })),
  ],
  "every call if no keys are given": [
    "calls by downstream key: no keys find no calls",
    journal(({ inner, rows }) => ({
      callsByDownstreamKey(keys) {
        const all = rows.all().flatMap(({ life }) => life.steps);
        const any = all.flatMap((step) => (step.kind === "call" ? [step.downstreamKey] : []));
        return inner.journal.callsByDownstreamKey(keys.length === 0 ? any : keys);
      },
    })),
  ],
  "a reopened call under its old key": [
    "calls by downstream key: a reopened call is found only by its new key",
    settlement(({ inner, rows }) => ({
      async settle(key, ...rest) {
        const before = callIn(rows, key, "charge");
        const settled = await inner.settlement.settle(key, ...rest);
        alterCalls(rows, key, (step) =>
          before !== null && step.name === "charge" ? { ...step, downstreamKey: before.downstreamKey } : step,
        );
        return settled;
      },
    })),
  ],
  "finished calls of every effect": [
    "finished calls: only finished calls of the effect are found",
    journal(({ inner, rows }) => ({
      async finishedCalls(query) {
        const effects = new Set(
          rows
            .all()
            .flatMap(({ life }) => life.steps.flatMap((step) => ("effect" in step ? [step.effect] : []))),
        );
        const pages = await Promise.all(
          [...effects].map((effect) => inner.journal.finishedCalls({ ...query, effect })),
        );
        return pages.flat().slice(0, query.limit);
      },
    })),
  ],
  "finished calls up to the second time": [
    "finished calls: from the first time, inclusive, to the second, exclusive",
    journal(({ inner }) => ({
      finishedCalls: (query) => inner.journal.finishedCalls({ ...query, to: query.to + 1 }),
    })),
  ],
  "finished calls newest first": [
    "finished calls: oldest first, page by page, none twice and none missing",
    journal(({ inner }) => ({
      finishedCalls: async (query) => [...(await inner.journal.finishedCalls(query))].reverse(),
    })),
  ],
  "pages that continue by time only": [
    "finished calls: calls that ended at the same time are ordered by their downstream keys",
    journal(({ inner }) => ({
      finishedCalls: ({ after, ...query }) =>
        inner.journal.finishedCalls({ ...query, after: after && { ...after, downstreamKey: "~" } }),
    })),
  ],
  "finished calls that are removed with the answer": [
    "finished calls: found until their record is forgotten, even if its answer was purged",
    losingStepsIn("expired"),
  ],

  "re-fencing by anybody's token": ["refence: refused to anyone but the owner", ownedBy("refence", anyToken)],
  "re-fencing by anybody's id": ["refence: refused to anyone but the owner", ownedBy("refence", anyId)],
  "re-fencing across tenants": ["refence: refused to anyone but the owner", acrossTenants("refence")],
  "re-fencing after the take-over": [
    "refence: accepted after the lease has ended, until another attempt takes over",
    ownedBy("refence", anybody),
  ],
  "re-fencing that insists on a running lease": [
    "refence: accepted after the lease has ended, until another attempt takes over",
    insisting("refence"),
  ],
  "re-fencing of a record that does not run": [
    "refence: refused on a record that is unknown",
    reviving("refence"),
  ],
  "re-fencing that checks, then acts": [
    "refence: exactly one of many tokens at once becomes the new one",
    checksThenActs("refence"),
  ],
  "a new token that is returned and not stored": [
    "refence: afterwards, no end under the old token takes effect",
    journal(({ inner, rows }) => ({
      async refence(owner, ...rest) {
        const refenced = await inner.journal.refence(owner, ...rest);
        if (refenced !== null) alter(rows, owner.key, (record) => ({ ...record, fence: owner.fence }));
        return refenced;
      },
    })),
  ],
  "re-fencing that counts as an attempt": [
    "refence: the same attempt continues under the new token, with a lease from now",
    journal(({ inner, rows }) => ({
      async refence(owner, ...rest) {
        const refenced = await inner.journal.refence(owner, ...rest);
        if (refenced === null) return null;
        const fence = { ...refenced.fence, attempt: refenced.fence.attempt + 1 };
        alter(rows, owner.key, (record) => ({ ...record, fence }));
        return { ...refenced, fence };
      },
    })),
  ],
  "re-fencing that cannot be repeated": [
    "refence: repeating it with the same token after a lost reply returns the same",
    journal(({ inner, rows }) => ({
      async refence(owner, token, ...rest) {
        const again = currentOf(rows, owner.key)?.fence.token === token;
        return again ? null : inner.journal.refence(owner, token, ...rest);
      },
    })),
  ],
  "re-fencing under other terms": [
    "refence: the terms of the lease stay",
    journal(({ inner, rows }) => ({
      async refence(owner, ...rest) {
        const refenced = await inner.journal.refence(owner, ...rest);
        const row = rows.find(owner.key);
        if (row !== null)
          rows.put(row.record, { ...restored(row), terms: { leaseEnd: "rerun", attemptsMax: 9 } });
        return refenced;
      },
    })),
  ],
  "re-fencing that revives the lease of a take-over": [
    "refence: exactly one of an owner and a take-over at once succeeds",
    {
      store: ({ inner, rows }) => ({
        async takeOver(key, guard, ...rest) {
          await otherTurn();
          const there = currentOf(rows, key);
          alter(rows, key, (record) =>
            record.state === "in_progress" ? { ...record, leaseEndsAt: 0 } : record,
          );
          return inner.takeOver(key, there?.id === guard.id ? guardOf(there) : guard, ...rest);
        },
      }),
    },
  ],
  "a journal from before the new token": [
    "refence: racing with a commit, the journal that it returns is final",
    journal(({ inner }) => ({
      async refence(owner, ...rest) {
        const before = await inner.journal.read(owner.key, owner.id);
        for (let turn = 0; turn < 20; turn += 1) await otherTurn();
        const refenced = await inner.journal.refence(owner, ...rest);
        return refenced && before && { ...refenced, journal: before };
      },
    })),
  ],
  "re-fencing that ignores phases": [
    "refence: a committed phase is found, and later phases under the old token are lost",
    journal(({ inner }) => ({
      async refence(owner, ...rest) {
        const refenced = await inner.journal.refence(owner, ...rest);
        if (refenced === null) return null;
        const steps = refenced.journal.steps.filter(({ kind }) => kind === "call");
        return { ...refenced, journal: { ...refenced.journal, steps } };
      },
    })),
  ],
  "re-fencing of a completed attempt": [
    "refence: refused after a phase that completed the attempt, and the record says so",
    reviving("refence"),
  ],

  "a phase by anybody's token": [
    "phase: lost to anyone but the owner, and leaves no row",
    ownedBy("phase", anyToken),
  ],
  "a phase by anybody's id": [
    "phase: lost to anyone but the owner, and leaves no row",
    ownedBy("phase", anyId),
  ],
  "a phase by any number": [
    "phase: lost to anyone but the owner, and leaves no row",
    ownedBy("phase", anyNumber),
  ],
  "a phase across tenants": [
    "phase: lost to anyone but the owner, and leaves no row",
    acrossTenants("phase"),
  ],
  "a phase after the take-over": [
    "phase: accepted after the lease has ended, until another attempt takes over",
    ownedBy("phase", anybody),
  ],
  "a phase that insists on a running lease": [
    "phase: accepted after the lease has ended, until another attempt takes over",
    insisting("phase"),
  ],
  "a phase on a record that does not run": [
    "phase: lost on a record that is unknown, even if it would complete it",
    reviving("phase"),
  ],
  "a fence that is checked when the phase opens": [
    "phase: a phase whose record is taken over while it is open is lost, and leaves no row",
    phaseRun(({ inner, support, rows }) => async (request, work) => {
      const { owner } = request;
      const first = await inner.journal.read(owner.key, owner.id);
      const there = currentOf(rows, owner.key);
      const held = first !== null && there?.fence.token === owner.fence.token;
      const late = {
        ...request,
        get owner() {
          const fence = currentOf(rows, owner.key)?.fence;
          return held && fence !== undefined ? { ...owner, fence } : owner;
        },
      };
      return support.phase(late, work);
    }),
  ],
  "a lost phase whose rows stay": [
    "phase: lost to anyone but the owner, and leaves no row",
    phaseRun(({ support, tables }) => async (request, work) => {
      const written: { table: string; row: Record<string, unknown> }[] = [];
      const outcome = await support.phase(request, (open) =>
        work({
          ...open,
          tx: {
            rows: (table) => open.tx.rows(table),
            async insert(table, row) {
              await open.tx.insert(table, row);
              written.push({ table, row });
            },
          },
        }),
      );
      if (outcome.kind === "lost" || outcome.kind === "refused") tables.add(written);
      return outcome;
    }),
  ],
  "phases that write on another connection": [
    "phase: rollback leaves neither rows nor a step",
    phase(({ tables }) => ({
      open: (open) => ({
        ...open,
        tx: {
          rows: (table) => open.tx.rows(table),
          async insert(table, row) {
            await open.tx.rows(table);
            tables.add([{ table, row }]);
          },
        },
      }),
    })),
  ],
  "a step before its commit": [
    "phase: abandon leaves neither rows nor a step",
    phaseRun(({ support, rows, now }) => async (request, work) => {
      const row = rows.find(request.owner.key);
      if (row?.record.state === "in_progress") {
        const early = { kind: "phase", name: "early", position: 9, version: "1" } as const;
        const step = { ...early, result: new Uint8Array(), finishedAt: now() };
        rows.put(row.record, { ...restored(row), steps: [...row.life.steps, step] });
      }
      return support.phase(request, work);
    }),
  ],
  "steps of another version": [
    "phase: commits its rows, its step and the recovery point, and changes nothing else of the record",
    phase(() => ({
      end: (work) => (work.end === "commit" ? { ...work, step: { ...work.step, version: "1" } } : work),
    })),
  ],
  "a last phase that does not complete the attempt": [
    "phase: the last phase completes the attempt in the same commit",
    phase(() => ({ end: (work) => (work.end === "commit" ? { ...work, completes: null } : work) })),
  ],
  "an attempt that continues after its last phase": [
    "phase: no phase follows the one that completed the attempt",
    reviving("phase"),
  ],
  "a phase whose failure is swallowed": [
    "phase: rethrows the work's error, after everything was rolled back",
    phaseRun(({ support }) => async (request, work) => {
      const outcome = await support.phase<unknown>(request, (open) =>
        work(open).catch((): PhaseWork<unknown> => ({ end: "rollback", value: null })),
      );
      return outcome as never;
    }),
  ],
  "a phase over an existing step": [
    "phase: a name that an earlier phase has is refused, and leaves no row",
    phase(({ rows }) => ({
      end(work, { owner }) {
        const row = rows.find(owner.key);
        if (work.end !== "commit" || row === null) return work;
        const steps = row.life.steps.filter(({ kind, name }) => kind === "call" || name !== work.step.name);
        rows.put(row.record, { ...restored(row), steps });
        return work;
      },
    })),
  ],
  "a phase over a call": [
    "phase: a name that an earlier call has is refused, and leaves no row",
    phase(({ rows }) => ({
      end(work, { owner }) {
        if (work.end === "commit") {
          alterCalls(rows, owner.key, (step) => (step.name === work.step.name ? null : step));
        }
        return work;
      },
    })),
  ],
  "recovery points of calls only": [
    "phase: the recovery point is the last finished step, of either kind",
    lossy((_, { recoveryPoint, steps }) => {
      const calls = steps.filter(({ kind, name }) => kind === "call" && name === recoveryPoint);
      return { recoveryPoint: calls.length === 0 ? null : recoveryPoint };
    }),
  ],
  "a record written back as it was when the phase opened": [
    "phase: the heartbeat continues while a phase is open, and neither undoes the other",
    phaseRun(({ support, rows }) => async (request, work) => {
      const before = currentOf(rows, request.owner.key);
      return support.phase(request, async (open) => {
        const ended = await work(open);
        const now = rows.find(request.owner.key);
        if (before !== null && now !== null) rows.put(before, restored(now));
        return ended;
      });
    }),
  ],
  "a phase that a heartbeat undoes": [
    "phase: a heartbeat while a phase is open does not undo it at any isolation level",
    phaseRun(({ support, rows }) => async (request, work) => {
      const before = currentOf(rows, request.owner.key);
      const outcome = await support.phase(request, async (open) => {
        const ended = await work(open);
        const now = currentOf(rows, request.owner.key);
        const moved =
          before?.state === "in_progress" &&
          now?.state === "in_progress" &&
          before.leaseEndsAt !== now.leaseEndsAt;
        return moved ? { end: "rollback", value: ended.value } : ended;
      });
      if (outcome.kind !== "rolled_back" || request.isolation === null) return outcome;
      return { kind: "refused", value: outcome.value, because: "other", error: null };
    }),
  ],
  "phases that commit at one level only": [
    "phase: commits at isolation level serializable, even after a renewal",
    phaseRun(({ support }) => async (request, work) => {
      const outcome = await support.phase(request, work);
      if (request.isolation !== "serializable" && request.isolation !== "repeatable read") return outcome;
      return { kind: "refused", value: outcome.value, because: "serialization", error: null };
    }),
  ],
  "phases at no explicit level": [
    "phase: commits at isolation level as the database has it, even after a renewal",
    phaseRun(
      ({ support }) =>
        (request, work) =>
          support.phase(request, async (open) => ({ end: "rollback", value: (await work(open)).value })),
    ),
  ],
  "rows that are seen before the commit": [
    "phase: others see nothing of it before its commit, and reading does not wait",
    phase(({ tables }) => ({
      open: (open) => ({
        ...open,
        tx: {
          rows: (table) => open.tx.rows(table),
          async insert(table, row) {
            await open.tx.rows(table);
            tables.add([{ table, row }]);
          },
        },
      }),
    })),
  ],
  "one phase at a time": [
    "phase: a phase does not block those of other records",
    phaseRun(({ support }) => {
      let open = false;
      return async (request, work) => {
        if (open) {
          const { value } = await support.phase(request, async (one) => ({
            end: "rollback",
            value: (await work(one)).value,
          }));
          return { kind: "refused", value, because: "other", error: null };
        }
        open = true;
        try {
          return await support.phase(request, work);
        } finally {
          open = false;
        }
      };
    }),
  ],
  "phases that overwrite each other": [
    "phase: of many with the same name at once, exactly one commits",
    writing("phase", ({ rows }, owner) => {
      const row = rows.find(owner.key);
      if (row !== null) rows.put(row.record, { ...restored(row), steps: [] });
      return owner;
    }),
  ],
  "a take-over that undoes what was committed": [
    "phase: racing with a take-over, row, step and outcome agree",
    {
      store: ({ inner, rows }) => ({
        async takeOver(key, ...rest) {
          const seen = rows.find(key);
          for (let turn = 0; turn < 20; turn += 1) await otherTurn();
          if (seen !== null) rows.put(seen.record, restored(seen));
          return inner.takeOver(key, ...rest);
        },
      }),
    },
  ],
  "every phase counted as used": [
    "phase: reports whether the work has used `tx`",
    phase(() => ({ open: (open) => ({ ...open, used: () => true }) })),
  ],
  "phases that must use their handle": [
    "phase: a phase that never used `tx` commits its step",
    phaseRun(
      ({ support }) =>
        (request, work) =>
          support.phase(request, async (open) => {
            const ended = await work(open);
            return open.used() ? ended : { end: "rollback", value: ended.value };
          }),
    ),
  ],
  "a phase's revoking that does nothing": [
    "phase: a revoked `tx` refuses statements, and what it wrote before is committed",
    phase(() => ({ open: (open) => ({ ...open, revoke() {} }) })),
  ],
  "a phase's handle that works after its end": [
    "phase: after its end, whatever the end, `tx` refuses statements",
    phase(({ tables }) => ({
      open: (open) => ({
        ...open,
        tx: {
          rows: (table) => open.tx.rows(table),
          insert: (table, row) => open.tx.insert(table, row).catch(() => tables.add([{ table, row }])),
        },
      }),
    })),
  ],
  "a last phase that a heartbeat undoes for good": [
    "phase: the last phase, with a heartbeat while it is open, commits or may be run again",
    phaseRun(({ support, rows }) => async (request, work) => {
      const before = currentOf(rows, request.owner.key);
      return support.phase(request, async (open) => {
        const ended = await work(open);
        const now = currentOf(rows, request.owner.key);
        const same = JSON.stringify(before) === JSON.stringify(now);
        return same ? ended : { end: "rollback", value: ended.value };
      });
    }),
  ],

  "a settlement without its audit row": [
    "settle: settle_completed writes the finished record and its audit row",
    afterSettle(({ audit }) => audit.pop()),
  ],
  "an audit row without its settlement": [
    "settle: for settle_failed, the guard covers every part of the record's version",
    settlement(({ inner, audit, now }) => ({
      async settle(key, guard, given, note) {
        const settled = await inner.settlement.settle(key, guard, given, note);
        if (settled) return true;
        const place = { at: now(), key, recordId: guard.id, effectId: null, event: given.event };
        audit.push({ ...note, ...place, from: "unknown", to: "failed" });
        return false;
      },
    })),
  ],
  "an audit row of another event": [
    "settle: settle_failed writes the finished record and its audit row",
    afterSettle(({ audit }) => {
      const last = audit.pop();
      if (last !== undefined) audit.push({ ...last, event: "settle" });
    }),
  ],
  "a settlement that loses what led to it": [
    "settle: settle_not_executed makes the life retryable, and the next attempt continues it",
    afterSettle(({ rows }, key) =>
      alter(rows, key, (record) =>
        record.state === "retryable" ? { ...record, lastErrorCode: null } : record,
      ),
    ),
  ],
  "a settlement that counts as an attempt": [
    "settle: settle_call makes the life retryable, and the next attempt continues it",
    afterSettle(({ rows }, key) =>
      alter(rows, key, (record) => ({
        ...record,
        fence: { ...record.fence, attempt: record.fence.attempt + 1 },
      })),
    ),
  ],
  "a settlement by the id alone": [
    "settle: for settle_completed, the guard covers every part of the record's version",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = currentOf(rows, key);
        return inner.settlement.settle(key, there?.id === guard.id ? guardOf(there) : guard, ...rest);
      },
    })),
  ],
  "a settlement of any record": [
    "settle: for settle_call, the guard covers every part of the record's version",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = currentOf(rows, key);
        return inner.settlement.settle(key, there === null ? guard : guardOf(there), ...rest);
      },
    })),
  ],
  "a settlement across tenants": [
    "settle: for settle_not_executed, the guard covers every part of the record's version",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = rows.all().find(({ record }) => record.id === guard.id)?.record;
        return inner.settlement.settle(there ?? key, guard, ...rest);
      },
    })),
  ],
  "a settlement of a record that is not unknown": [
    "settle: refused on a record in state in_progress, whatever the guard says",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = currentOf(rows, key);
        if (there === null || there.id !== guard.id) return inner.settlement.settle(key, guard, ...rest);
        const { tenant, scope, id, operation, fingerprint, principal, fence, createdAt } = there;
        const life = { tenant, scope, key: key.key, id, operation, fingerprint, principal, fence, createdAt };
        rows.put({ ...life, state: "unknown", lastErrorCode: null, reconcileAfter: null });
        return inner.settlement.settle(key, { ...guard, state: "unknown" }, ...rest);
      },
    })),
  ],
  "a settlement that cannot be repeated": [
    "settle: repeating settle_completed after a lost reply is true and changes nothing",
    settlement(({ inner, audit }) => ({
      settle: async (key, guard, given, note) =>
        audit.every(({ id }) => id !== note.id) && inner.settlement.settle(key, guard, given, note),
    })),
  ],
  "a repetition with its own audit row": [
    "settle: repeating settle_call after a lost reply is true and changes nothing",
    settlement(({ inner, audit }) => ({
      async settle(...given) {
        const last = audit.at(-1);
        const settled = await inner.settlement.settle(...given);
        if (settled && last !== undefined && audit.at(-1) === last) audit.push({ ...last });
        return settled;
      },
    })),
  ],
  "a settlement that checks, then acts": [
    "settle: exactly one of many at once is written, with one audit row",
    settlement(({ inner, rows }) => ({
      async settle(key, ...rest) {
        const seen = rows.find(key);
        await otherTurn();
        if (seen !== null) rows.put(seen.record, restored(seen));
        return inner.settlement.settle(key, ...rest);
      },
    })),
  ],
  "a repetition that is not recognised": [
    "settle: a repetition concurrent with the first is true, with one audit row",
    settlement(({ inner, rows, audit }) => ({
      async settle(key, guard, given, note) {
        const seen = rows.find(key);
        const known = audit.filter(({ id }) => id === note.id);
        await otherTurn();
        if (seen !== null && known.length === 0) {
          rows.put(seen.record, restored(seen));
          return inner.settlement.settle(key, guard, given, { ...note, id: `${note.id}${audit.length}` });
        }
        return inner.settlement.settle(key, guard, given, note);
      },
    })),
  ],
  "never-happened applied to finished calls": [
    "settle: never-happened gives back the calls that are started, and no others",
    afterSettle(({ rows }, key) =>
      alterCalls(rows, key, (step) => (step.state === "refused" ? { ...step, state: "not_executed" } : step)),
    ),
  ],
  "may-repeat that gives back": [
    "settle: may-repeat leaves every call unchanged",
    settlement(({ inner }) => ({
      settle: (key, guard, given, note) =>
        inner.settlement.settle(
          key,
          guard,
          given.event === "settle_not_executed" ? { ...given, calls: "never-happened" } : given,
          note,
        ),
    })),
  ],
  "reopening under the same generation": [
    "settle: reopening raises the generation, changes the key and keeps the input",
    afterSettle(({ rows }, key) => alterCalls(rows, key, (step) => ({ ...step, generation: 0 }))),
  ],
  "reopening that leaves the others in doubt": [
    "settle: reopening with never-happened also gives back the other calls",
    settlement(({ inner }) => ({
      settle: (key, guard, given, note) =>
        inner.settlement.settle(
          key,
          guard,
          given.event === "settle_not_executed" && given.reopen !== null
            ? { ...given, calls: "may-repeat" }
            : given,
          note,
        ),
    })),
  ],
  "a found call that does not advance the recovery point": [
    "settle: settle_call stores the result of that call, and advances the recovery point",
    settlement(({ inner, rows }) => ({
      async settle(key, ...rest) {
        const before = rows.find(key)?.life.recoveryPoint ?? null;
        const settled = await inner.settlement.settle(key, ...rest);
        const row = rows.find(key);
        if (row !== null) rows.put(row.record, { ...restored(row), recoveryPoint: before });
        return settled;
      },
    })),
  ],
  "a found call in any state": [
    "settle: settle_call of a refused call is refused",
    settlement(({ inner, rows }) => ({
      settle(key, guard, given, note) {
        if (given.event === "settle_call") {
          const { generation } = given;
          alterCalls(rows, key, (step) =>
            step.name === given.call ? { ...step, state: "started", generation } : step,
          );
        }
        return inner.settlement.settle(key, guard, given, note);
      },
    })),
  ],
  "a found call that does not exist": [
    "settle: settle_call of no such call is refused",
    settlement(({ inner }) => ({
      settle: (key, guard, given, note) =>
        inner.settlement.settle(
          key,
          guard,
          given.event === "settle_call" && given.call === "another" ? { ...given, call: "charge" } : given,
          note,
        ),
    })),
  ],
  "reopening without a check of the generation": [
    "settle: reopening of another generation is refused",
    settlement(({ inner, rows }) => ({
      settle(key, guard, given, note) {
        if (given.event !== "settle_not_executed" || given.reopen === null) {
          return inner.settlement.settle(key, guard, given, note);
        }
        const there = callIn(rows, key, given.reopen.call);
        const right = there?.state === "started" && there.generation === given.reopen.generation;
        return inner.settlement.settle(key, guard, right ? given : { ...given, reopen: null }, note);
      },
    })),
  ],
  "a claim that changes the fence": [
    "settle: a claim between the decision and the settlement does not undo it",
    settlement(({ inner, rows }) => ({
      async claimUnknowns(...given) {
        const claimed = await inner.settlement.claimUnknowns(...given);
        return claimed.map(({ record, tries }) => {
          const fence = { ...record.fence, attempt: record.fence.attempt + 1 };
          alter(rows, record, (there) => ({ ...there, fence }));
          return { record: { ...record, fence }, tries };
        });
      },
    })),
  ],
  "a claim that writes back what it read": [
    "settle: racing with a claim, it leaves nothing to claim",
    settlement(({ inner, rows }) => ({
      async claimUnknowns(...given) {
        const claimed = await inner.settlement.claimUnknowns(...given);
        for (let turn = 0; turn < 20; turn += 1) await otherTurn();
        for (const { record } of claimed) rows.put(record);
        return claimed;
      },
      async settle(...given) {
        await otherTurn();
        return inner.settlement.settle(...given);
      },
    })),
  ],
  "a retryable life that many may take over": [
    "settle: a life that has become retryable is taken over by exactly one of many",
    {
      store: ({ inner, rows }) => ({
        async takeOver(key, ...rest) {
          const seen = rows.find(key);
          await otherTurn();
          if (seen !== null) rows.put(seen.record, restored(seen));
          return inner.takeOver(key, ...rest);
        },
      }),
    },
  ],

  "claims that hide nothing": [
    "claim: an unknown record whose time has come is returned, and hidden for the time of the claim",
    settlement(({ inner }) => ({
      claimUnknowns: (operations, limit) => inner.settlement.claimUnknowns(operations, limit, 0),
    })),
  ],
  "claims of a millisecond less": [
    "claim: at `reconcileAfter`, not a millisecond earlier",
    settlement(({ inner }) => ({
      claimUnknowns: (operations, limit, claimMs) =>
        inner.settlement.claimUnknowns(operations, limit, claimMs - 1),
    })),
  ],
  "claims of records that wait for a person": [
    "claim: a record that waits for a person is never returned",
    settlement(({ inner, rows, now }) => ({
      claimUnknowns(...given) {
        for (const { record } of rows.all()) {
          alter(rows, record, (there) =>
            there.state === "unknown" ? { ...there, reconcileAfter: there.reconcileAfter ?? now() } : there,
          );
        }
        return inner.settlement.claimUnknowns(...given);
      },
    })),
  ],
  "claims of every operation": [
    "claim: only of the operations that are named",
    settlement(({ inner, rows }) => ({
      claimUnknowns: (_, limit, claimMs) =>
        inner.settlement.claimUnknowns(
          rows.all().map(({ record }) => record.operation),
          limit,
          claimMs,
        ),
    })),
  ],
  "claims by the scope": [
    "claim: selects by operation, even if keys are unique per tenant",
    settlement(({ inner, rows }) => ({
      claimUnknowns: (operations, limit, claimMs) =>
        inner.settlement.claimUnknowns(
          rows
            .all()
            .filter(({ record }) => operations.includes(record.scope))
            .map(({ record }) => record.operation),
          limit,
          claimMs,
        ),
    })),
  ],
  "claims in any order": [
    "claim: oldest first, at most `limit`",
    settlement(({ inner }) => ({
      claimUnknowns: async (...given) => [...(await inner.settlement.claimUnknowns(...given))].reverse(),
    })),
  ],
  "claims that read first, then write": [
    "claim: many at once claim each record once",
    settlement(({ inner, rows }) => ({
      async claimUnknowns(...given) {
        const seen = rows.all();
        await otherTurn();
        for (const row of seen) rows.put(row.record, restored(row));
        return inner.settlement.claimUnknowns(...given);
      },
    })),
  ],
  "claims of retryable records": [
    "claim: never a record in another state",
    settlement(({ inner, rows, now }) => ({
      claimUnknowns(...given) {
        for (const { record } of rows.all()) {
          alter(rows, record, (there) =>
            there.state === "retryable" ? { ...there, state: "unknown", reconcileAfter: now() } : there,
          );
        }
        return inner.settlement.claimUnknowns(...given);
      },
    })),
  ],
  "tries that start again": [
    "claim: tries are counted over the whole life, and start again in a new one",
    lossy((record) => (record.state === "retryable" ? { tries: 0 } : {})),
  ],
  "tries that a new try starts again": [
    "postpone: does not reset the count of tries",
    settlement(({ inner, rows }) => ({
      async postpone(key, ...rest) {
        const postponed = await inner.settlement.postpone(key, ...rest);
        const row = rows.find(key);
        if (row !== null) rows.put(row.record, { ...restored(row), tries: 0 });
        return postponed;
      },
    })),
  ],
  "a next try from the last one's time": [
    "postpone: moves the next try, and changes nothing else",
    settlement(({ inner }) => ({
      postpone: (key, guard, afterMs) =>
        inner.settlement.postpone(key, guard, afterMs === null ? null : afterMs * 2),
    })),
  ],
  "hastening of any record": [
    "hasten: another version of a record that is completed is refused",
    settlement(({ inner, rows }) => ({
      hasten: (key, guard, note) => {
        const record = rows.find(key)?.record;
        return inner.settlement.hasten(key, record === undefined ? guard : guardOf(record), note);
      },
    })),
  ],
  "hastening that only ends the answer's retention": [
    "hasten: the record-cleaner forgets a record that was completed",
    settlement(({ inner, rows }) => ({
      async hasten(key, guard, note) {
        const before = rows.find(key)?.record;
        const hastened = await inner.settlement.hasten(key, guard, note);
        const row = rows.find(key);
        if (before?.state === "completed" && row?.record.state === "completed") {
          rows.put({ ...row.record, forgetAt: before.forgetAt }, restored(row));
        }
        return hastened;
      },
    })),
  ],
  "hastening that leaves the record": [
    "hasten: a key whose record was completed may run as new, under another id",
    settlement(({ inner, rows }) => ({
      async hasten(key, guard, note) {
        const before = rows.find(key);
        const hastened = await inner.settlement.hasten(key, guard, note);
        if (before !== null && before !== undefined) rows.put(before.record, restored(before));
        return hastened;
      },
    })),
  ],
  "hastening without an audit row": [
    "hasten: a record that is retryable keeps its state and gets an audit row",
    settlement(({ inner }) => ({
      audit: async (key) => (await inner.settlement.audit(key)).filter(({ event }) => event !== "retry"),
    })),
  ],
  "no next try stored as an immediate one": [
    "postpone: null leaves the record to a person, and a later time undoes that",
    settlement(({ inner }) => ({
      postpone: (key, guard, afterMs) => inner.settlement.postpone(key, guard, afterMs ?? 0),
    })),
  ],
  "a next try by the id alone": [
    "postpone: the guard covers every part of the record's version",
    settlement(({ inner, rows }) => ({
      postpone(key, guard, afterMs) {
        const there = currentOf(rows, key);
        return inner.settlement.postpone(key, there?.id === guard.id ? guardOf(there) : guard, afterMs);
      },
    })),
  ],
  "a next try for a record that is not unknown": [
    "postpone: refused on a record in another state, whatever the guard says",
    settlement(({ inner, rows }) => ({
      async postpone(key, guard, afterMs) {
        const there = currentOf(rows, key);
        const waits = there?.state === "retryable" && there.id === guard.id;
        return waits || inner.settlement.postpone(key, guard, afterMs);
      },
    })),
  ],

  "leases of every kind to resume": [
    "resumable: only leases that have ended under `resume`, with attempts left and before expiry",
    lossy((record) =>
      record.state === "in_progress" ? { terms: { leaseEnd: "resume", attemptsMax: 9 } } : {},
    ),
  ],
  "leases to resume that are given up": [
    "resumable: attempts that may be resumed are not given up, and the others are",
    {
      store: ({ rows, now }) => ({
        endedLeases: async (limit) =>
          rows
            .all()
            .flatMap(({ record, terms }) =>
              record.state === "in_progress" && terms !== null && now() >= record.leaseEndsAt
                ? [{ record, ...terms }]
                : [],
            )
            .slice(0, limit),
      }),
    },
  ],
  "records that may be resumed a millisecond early": [
    "resumable: when a lease ends or a time comes, not a millisecond earlier",
    settlement(({ inner, rows, now }) => ({
      resumable(...given) {
        for (const row of rows.all()) {
          if (row.resumeAfter === now() + 1) rows.put(row.record, { ...restored(row), resumeAfter: now() });
        }
        return inner.settlement.resumable(...given);
      },
    })),
  ],
  "resuming past expiry": [
    "resumable: not after expiry, which ends nothing a millisecond earlier",
    settlement(({ rows, now }) => ({
      resumable: async (operations, limit) =>
        resumableOf(rows, now(), operations, "in_progress").slice(0, limit),
    })),
  ],
  "resuming records that wait for the next request": [
    "resumable: retryable records whose time has come, and never those that the next request resumes",
    settlement(({ rows }) => ({
      resumable: async (operations, limit) => resumableOf(rows, 0, operations, "retryable").slice(0, limit),
    })),
  ],
  "no time to resume after a settlement": [
    "resumable: after settle_not_executed, once its time has come",
    settlement(({ inner, rows }) => ({
      async settle(key, ...rest) {
        const settled = await inner.settlement.settle(key, ...rest);
        const row = rows.find(key);
        if (row !== null) rows.put(row.record, { ...restored(row), resumeAfter: null });
        return settled;
      },
    })),
  ],
  "reading that claims": [
    "resumable: records are returned as they are stored, and stay so",
    settlement(({ inner, rows, now }) => ({
      async resumable(...given) {
        const found = await inner.settlement.resumable(...given);
        for (const { state, ...record } of found) {
          if (state === "in_progress") alter(rows, record, withLeaseEnding(now() + 1));
        }
        return found;
      },
    })),
  ],
  "resumable records in any order": [
    "resumable: the records that have waited longest first, at most `limit`",
    settlement(({ inner }) => ({
      resumable: async (operations, limit) =>
        (await inner.settlement.resumable(operations, 1e6))
          .toSorted((left, right) => left.createdAt - right.createdAt || (left.id < right.id ? -1 : 1))
          .slice(0, limit),
    })),
  ],
  "a resume time that is never cleared": [
    "resumable: not a record that was taken over, ended or settled",
    { rows: () => new DueRows() },
  ],

  "a list of every state": [
    "list: the records in one state, as they are stored",
    settlement(({ rows }) => ({
      list: async ({ limit }) =>
        rows
          .all()
          .map(({ record }) => record)
          .slice(0, limit),
    })),
  ],
  "a list of all tenants": [
    "list: of one tenant, of one operation, or of both",
    settlement(({ inner }) => ({ list: (filter) => inner.settlement.list({ ...filter, tenant: null }) })),
  ],
  "a list newest first": [
    "list: oldest first, page by page, none twice and none missing",
    settlement(({ inner }) => ({
      list: async (filter) => [...(await inner.settlement.list(filter))].reverse(),
    })),
  ],
  "a list whose pages continue by time only": [
    "list: records of the same time are ordered by their ids",
    settlement(({ inner }) => ({
      list: ({ after, ...filter }) =>
        inner.settlement.list({ ...filter, after: after && { ...after, id: "~" } }),
    })),
  ],
  "an audit of settlements that were only begun": [
    "audit: none before a settlement, and none for keys that were never settled",
    settlement(({ inner, now }) => ({
      async audit(key) {
        const entries = await inner.settlement.audit(key);
        const note = { id: "x", actor: "x", proof: "x", reason: null, event: "doubt" };
        const place = { key, recordId: "x", effectId: null, from: "in_progress", to: "unknown" } as const;
        const first = { ...note, at: now(), ...place };
        return [first, ...entries];
      },
    })),
  ],
  "an audit that is removed with its record": [
    "audit: includes all lives of the key, oldest first, even after cleaning",
    settlement(({ inner, rows }) => ({
      audit: async (key) => {
        const id = currentOf(rows, key)?.id;
        return (await inner.settlement.audit(key)).filter(({ recordId }) => recordId === id);
      },
    })),
  ],
  "an audit of all tenants": [
    "audit: includes this key only",
    settlement(({ audit }) => ({
      audit: async (key) => audit.filter((entry) => entry.key.key === key.key),
    })),
  ],
  "an audit without empty reasons": [
    "audit: actor, proof and reason come back unchanged, even without a reason",
    settlement(({ inner }) => ({
      settle: (key, guard, given, note) =>
        inner.settlement.settle(key, guard, given, { ...note, reason: note.reason || null }),
    })),
  ],
};

const newGroups =
  /^(journal|start call|end call|calls by downstream key|finished calls|refence|phase|settle|hasten|claim|postpone|resumable|list|audit):/u;

const skip = { [slowCase]: "it waits in real time" };
const newCasesOf = (mistake: Mistake) => casesOf(mistake, skip).filter(([name]) => newGroups.test(name));

const results = new Map<string, ReadonlyMap<string, unknown>>();

async function resultOf(name: string): Promise<ReadonlyMap<string, unknown>> {
  const known = results.get(name);
  if (known !== undefined) return known;
  const [, mistake] = mistakes[name] ?? [];
  const failures = await failuresOf(newCasesOf(mistake ?? {}));
  results.set(name, failures);
  return failures;
}

test.each(sample(Object.entries(mistakes), 8))("the suite catches: %s", async (name, [caughtBy]) => {
  const failures = await resultOf(name);
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store that the broken ones are made from", async () => {
    expect([...(await failuresOf(newCasesOf({}))).keys()]).toEqual([]);
  });

  test.runIf(isThorough)("catches some of the mistakes", async () => {
    const caught = new Set<string>();
    for (const name of Object.keys(mistakes)) {
      for (const [failed, error] of await resultOf(name))
        if (error instanceof AssertionError) caught.add(failed);
    }
    expect(
      newCasesOf({})
        .map(([name]) => name)
        .filter((name) => !caught.has(name)),
    ).toEqual([]);
  });
});
