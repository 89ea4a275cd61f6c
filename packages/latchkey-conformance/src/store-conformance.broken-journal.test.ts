/** The cases about journals, phases and settlements can fail: every one of them catches some of these mistakes. */

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

/** One of the owner's writes, given another owner than it was called with. */
function writing(writer: Writer, change: (parts: Parts, owner: Owner) => Owner): Mistake {
  if (writer === "phase") {
    return {
      transactions: (parts) => ({
        phase: ({ owner, ...request }, work) => {
          // Judged when the phase ends, as the sound store does.
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

/** Any tenant's owner writes on the record of the tenant that has it. */
const acrossTenants = (writer: Writer) =>
  writing(writer, ({ rows }, owner) => {
    const there = rows.all().find(({ record }) => record.id === owner.id)?.record;
    return there === undefined ? owner : { ...owner, key: there };
  });

/** Puts a record that does not run back to running, whatever it has come to. */
const reviving = (writer: Writer) =>
  writing(writer, ({ rows, now }, owner) => {
    alter(rows, owner.key, (record) =>
      record.id !== owner.id || record.state === "in_progress"
        ? record
        : running(record, now(), now() + year),
    );
    return owner;
  });

/** Insists on a lease that runs. */
const insisting = (writer: Writer) =>
  writing(writer, ({ rows, now }, owner) => {
    const there = currentOf(rows, owner.key);
    const dead = there?.state === "in_progress" && now() >= there.leaseEndsAt;
    return dead ? { ...owner, id: "00000000-0000-7000-8000-000000000000" } : owner;
  });

/** Looks first, and writes on what it saw. */
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

/** Bytes of a journal, stored as `lose` says. */
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

/** Rows whose steps belong to the key, whatever lives come after. */
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

/** A phase whose handle and whose end are changed. */
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

/** A phase that is run as `run` says. */
function phaseRun(run: (parts: Parts) => Support["phase"]): Mistake {
  return { transactions: (parts) => ({ phase: run(parts) }) };
}

/** Rows whose time to be resumed stays when they go on. */
class DueRows extends MemoryRows {
  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    const before = super.find(record)?.resumeAfter ?? null;
    return super.put(record, { ...change, resumeAfter: change.resumeAfter ?? before });
  }
}

/** Records whose lease has ended or whose life is retryable, whether or not their time has come or is over. */
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

/** After the sound store's own step, one more. */
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
  "a journal for anybody who asks": [
    "journal: null where there is no record, and for another life",
    journal(({ inner, rows }) => ({
      read: (key, id) => inner.journal.read(key, currentOf(rows, key)?.id ?? id),
    })),
  ],
  "a journal of nothing": [
    "journal: null where there is no record, and for another life",
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
  "an empty input for none": [
    "journal: a life that was begun without an input has none",
    lossy((_, { input }) => ({ input: input ?? new Uint8Array() })),
  ],
  "no input for what waits": [
    "journal: a request that waits and a lost transaction keep their input",
    losingInputIn("pending"),
  ],
  "inputs that are never cleared": [
    "journal: a life that completed needs its input no more, and keeps its steps and recovery point",
    { rows: () => new HoardingRows() },
  ],
  "steps by the order of writing": [
    "journal: steps come by their position, whatever the order in which they were written",
    journal(({ inner, rows }) => ({
      async read(key, id) {
        const read = await inner.journal.read(key, id);
        return read && { ...read, steps: rows.find(key)?.life.steps ?? [] };
      },
    })),
  ],
  "positions ordered as text": [
    "journal: steps come by their position, whatever the order in which they were written",
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
  "steps known by their name alone": [
    "journal: steps of the same name in other lives and other tenants are others",
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
    "journal: inputs and results of any bytes come back as they were",
    bytesStoredAs((bytes) => new TextEncoder().encode(new TextDecoder().decode(bytes))),
  ],
  "journals without trailing zeros": [
    "journal: a phase's result of any bytes comes back as it was",
    bytesStoredAs((bytes) => (bytes.at(-1) === 0 ? bytes.slice(0, -1) : bytes)),
  ],
  "names without white space around": [
    "journal: names, versions and keys of any characters come back as they were",
    journal(({ inner }) => ({
      startCall: (owner, intent) =>
        inner.journal.startCall(owner, { ...intent, name: intent.name.trim(), effect: intent.effect.trim() }),
    })),
  ],
  "bytes that are shared": [
    "journal: changing what was handed in or out changes nothing",
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
  "steps that are left behind": [
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
  "a take-over that begins from nothing": [
    "journal: a life that is taken over keeps its input, its steps and its recovery point",
    lossy((record) => (record.fence.attempt > 1 ? { steps: [], recoveryPoint: null } : {})),
  ],
  "a take-over without the input": [
    "journal: a life that was retried keeps its input, its steps and its recovery point",
    lossy((record) => (record.fence.attempt > 1 ? { input: null } : {})),
  ],
  "retryable without an input": [
    "journal: a life that is to be retried keeps its input, its steps and its recovery point",
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
    "journal: a life that was settled as completed needs its input no more, and keeps its steps and recovery point",
    losingStepsIn("completed"),
  ],
  "failed without its steps": [
    "journal: a life that was settled as failed needs its input no more, and keeps its steps and recovery point",
    losingStepsIn("failed"),
  ],
  "a purge that takes the steps": [
    "journal: a life that was purged needs its input no more, and keeps its steps and recovery point",
    losingStepsIn("expired"),
  ],
  "a cleaner of old steps": [
    "journal: cleaning leaves a record that is unknown and its steps, however old",
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
  "a lost transaction's input in place of the first": [
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
    "start call: refused to everyone but the owner",
    ownedBy("startCall", anyToken),
  ],
  "a call by anybody's id": ["start call: refused to everyone but the owner", ownedBy("startCall", anyId)],
  "a call by any number": ["start call: refused to everyone but the owner", ownedBy("startCall", anyNumber)],
  "a call across tenants": ["start call: refused to everyone but the owner", acrossTenants("startCall")],
  "a call after the take-over": [
    "start call: after the lease, as long as nobody has taken over, and not after that",
    ownedBy("startCall", anybody),
  ],
  "a call that insists on a running lease": [
    "start call: after the lease, as long as nobody has taken over, and not after that",
    insisting("startCall"),
  ],
  "a call on what does not run": ["start call: refused on a record that is unknown", reviving("startCall")],
  "a call that checks, then acts": [
    "start call: however many at once, one step that has counted them all",
    checksThenActs("startCall"),
  ],
  "a call that is answered, not written": [
    "start call: racing with a take-over, what was answered is what is stored",
    journal(({ inner, rows }) => ({
      async startCall(owner, intent) {
        const started = await inner.journal.startCall(owner, intent);
        alterCalls(rows, owner.key, () => null);
        return started;
      },
    })),
  ],
  "an intent without its version": [
    "start call: the intent is written as it was given, begun now",
    journal(({ inner }) => ({
      startCall: (owner, intent) => inner.journal.startCall(owner, { ...intent, version: "1" }),
    })),
  ],
  "a call that extends the lease": [
    "start call: the record itself stays as it is",
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
    "start call: one that is started keeps all it has, and counts one more send",
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
    "start call: however many at once, one step that has counted them all",
    journal(({ inner, rows }) => ({
      startCall(owner, { downstreamKey, ...intent }) {
        alterCalls(rows, owner.key, (step) =>
          step.name === intent.name ? { ...step, downstreamKey } : step,
        );
        return inner.journal.startCall(owner, { downstreamKey, ...intent });
      },
    })),
  ],
  "a call that is started again as of its first time": [
    "start call: one that is not executed is started again with its own input and key, from now on",
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
  "a finished call that is started again": [
    "start call: one that has come to finish is answered and left as it is",
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
  "a refused call that is tried again": [
    "start call: one that has come to refuse is answered and left as it is",
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
  "generations that do not count": [
    "start call: one of another generation is answered and left as it is",
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

  "an end by anybody's token": ["end call: refused to everyone but the owner", ownedBy("endCall", anyToken)],
  "an end by anybody's id": ["end call: refused to everyone but the owner", ownedBy("endCall", anyId)],
  "an end by any number": ["end call: refused to everyone but the owner", ownedBy("endCall", anyNumber)],
  "an end across tenants": ["end call: refused to everyone but the owner", acrossTenants("endCall")],
  "an end after the take-over": [
    "end call: after the lease, as long as nobody has taken over, and not after that",
    ownedBy("endCall", anybody),
  ],
  "an end that insists on a running lease": [
    "end call: after the lease, as long as nobody has taken over, and not after that",
    insisting("endCall"),
  ],
  "an end on what does not run": ["end call: refused on a record that is unknown", reviving("endCall")],
  "an end that checks, then acts": [
    "end call: exactly one of many different ends at once is taken",
    checksThenActs("endCall"),
  ],
  "an end that is answered, not written": [
    "end call: racing with a take-over, what was answered is what is stored",
    journal(({ inner }) => ({
      endCall: async (owner, call, end) =>
        end.event === "finish" ? true : inner.journal.endCall(owner, call, end),
    })),
  ],
  "a refusal that is no recovery point": [
    "end call: refuse keeps the result and advances the recovery point",
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
  "a recovery point of what did not happen": [
    "end call: not_executed gives it back, and leaves the recovery point",
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
    "end call: finish keeps the result and advances the recovery point",
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
    "end call: after finish, no other end is taken",
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
    "end call: false where no such call was started, or one of another generation",
    journal(({ inner }) => ({
      async endCall(owner, call, end) {
        await inner.journal.endCall(owner, call, end);
        return true;
      },
    })),
  ],
  "an end of any generation": [
    "end call: an end of the generation before a reopened one is false",
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
    "calls by downstream key: found in any state, with their records, and unknown keys are left out",
    journal(({ inner }) => ({
      callsByDownstreamKey: async (keys) =>
        (await inner.journal.callsByDownstreamKey(keys)).filter(({ step }) => step.state === "finished"),
    })),
  ],
  "calls of one tenant for all": [
    "calls by downstream key: of several tenants, each with its own key",
    journal(({ inner }) => ({
      callsByDownstreamKey: async (keys) =>
        (await inner.journal.callsByDownstreamKey(keys)).map((call) => ({
          ...call,
          key: { ...call.key, tenant: "tenant-1" },
        })),
    })),
  ],
  "calls without their request's fingerprint": [
    "calls by downstream key: found in any state, with their records, and unknown keys are left out",
    journal(({ inner }) => ({
      callsByDownstreamKey: async (keys) =>
        (await inner.journal.callsByDownstreamKey(keys)).map((call) => ({
          ...call,
          fingerprint: new Uint8Array(32),
        })),
    })),
  ],
  "every call for no keys": [
    "calls by downstream key: none for no keys",
    journal(({ inner, rows }) => ({
      callsByDownstreamKey(keys) {
        const all = rows.all().flatMap(({ life }) => life.steps);
        const any = all.flatMap((step) => (step.kind === "call" ? [step.downstreamKey] : []));
        return inner.journal.callsByDownstreamKey(keys.length === 0 ? any : keys);
      },
    })),
  ],
  "a reopened call under its old key": [
    "calls by downstream key: a reopened call is known by its new key alone",
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
    "finished calls: those of the effect that are finished, and no others",
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
    "finished calls: from the first time on, before the second",
    journal(({ inner }) => ({
      finishedCalls: (query) => inner.journal.finishedCalls({ ...query, to: query.to + 1 }),
    })),
  ],
  "finished calls newest first": [
    "finished calls: oldest first, page by page, none twice and none left out",
    journal(({ inner }) => ({
      finishedCalls: async (query) => [...(await inner.journal.finishedCalls(query))].reverse(),
    })),
  ],
  "pages that go on by the time alone": [
    "finished calls: those that ended together are ordered by their downstream keys",
    journal(({ inner }) => ({
      finishedCalls: ({ after, ...query }) =>
        inner.journal.finishedCalls({ ...query, after: after && { ...after, downstreamKey: "~" } }),
    })),
  ],
  "finished calls that go with the answer": [
    "finished calls: found until their record is forgotten, also when its answer was purged",
    losingStepsIn("expired"),
  ],

  "re-fencing by anybody's token": [
    "refence: refused to everyone but the owner",
    ownedBy("refence", anyToken),
  ],
  "re-fencing by anybody's id": ["refence: refused to everyone but the owner", ownedBy("refence", anyId)],
  "re-fencing across tenants": ["refence: refused to everyone but the owner", acrossTenants("refence")],
  "re-fencing after the take-over": [
    "refence: after the lease, as long as nobody has taken over, and not after that",
    ownedBy("refence", anybody),
  ],
  "re-fencing that insists on a running lease": [
    "refence: after the lease, as long as nobody has taken over, and not after that",
    insisting("refence"),
  ],
  "re-fencing what does not run": ["refence: refused on a record that is unknown", reviving("refence")],
  "re-fencing that checks, then acts": [
    "refence: exactly one of many tokens at once is the new one",
    checksThenActs("refence"),
  ],
  "a new token that is only told": [
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
    "refence: the same attempt goes on under the new token, with a lease from now",
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
    "refence: repeating it with the same token after a lost reply answers again",
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
    "refence: exactly one of an owner and a take-over at once is answered",
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
    "refence: racing with a commit, the journal it answers is the one that stays",
    journal(({ inner }) => ({
      async refence(owner, ...rest) {
        const before = await inner.journal.read(owner.key, owner.id);
        for (let turn = 0; turn < 20; turn += 1) await otherTurn();
        const refenced = await inner.journal.refence(owner, ...rest);
        return refenced && before && { ...refenced, journal: before };
      },
    })),
  ],
  "re-fencing without a look at the phases": [
    "refence: a phase that was committed is found, and later ones under the old token are lost",
    journal(({ inner }) => ({
      async refence(owner, ...rest) {
        const refenced = await inner.journal.refence(owner, ...rest);
        if (refenced === null) return null;
        const steps = refenced.journal.steps.filter(({ kind }) => kind === "call");
        return { ...refenced, journal: { ...refenced.journal, steps } };
      },
    })),
  ],
  "re-fencing of what has completed": [
    "refence: refused after a phase that completed the attempt, and the record says so",
    reviving("refence"),
  ],

  "a phase by anybody's token": [
    "phase: lost to everyone but the owner, and leaves no row",
    ownedBy("phase", anyToken),
  ],
  "a phase by anybody's id": [
    "phase: lost to everyone but the owner, and leaves no row",
    ownedBy("phase", anyId),
  ],
  "a phase by any number": [
    "phase: lost to everyone but the owner, and leaves no row",
    ownedBy("phase", anyNumber),
  ],
  "a phase across tenants": [
    "phase: lost to everyone but the owner, and leaves no row",
    acrossTenants("phase"),
  ],
  "a phase after the take-over": [
    "phase: after the lease, as long as nobody has taken over, and not after that",
    ownedBy("phase", anybody),
  ],
  "a phase that insists on a running lease": [
    "phase: after the lease, as long as nobody has taken over, and not after that",
    insisting("phase"),
  ],
  "a phase on what does not run": [
    "phase: lost on a record that is unknown, also when it would complete it",
    reviving("phase"),
  ],
  "a fence that is checked when the phase opens": [
    "phase: one that was taken over while it was open is lost, and leaves no row",
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
    "phase: lost to everyone but the owner, and leaves no row",
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
    "phase: commits its rows, its step and the recovery point, and nothing else of the record",
    phase(() => ({
      end: (work) => (work.end === "commit" ? { ...work, step: { ...work.step, version: "1" } } : work),
    })),
  ],
  "a last phase that completes nothing": [
    "phase: the last one completes the attempt in the same commit",
    phase(() => ({ end: (work) => (work.end === "commit" ? { ...work, completes: null } : work) })),
  ],
  "an attempt that goes on after its last phase": [
    "phase: nothing comes after the one that completed the attempt",
    reviving("phase"),
  ],
  "a phase whose failure is swallowed": [
    "phase: what the work throws comes out, after everything was rolled back",
    phaseRun(({ support }) => async (request, work) => {
      const outcome = await support.phase<unknown>(request, (open) =>
        work(open).catch((): PhaseWork<unknown> => ({ end: "rollback", value: null })),
      );
      return outcome as never;
    }),
  ],
  "a phase over the step that is there": [
    "phase: the name of a phase that is there already is refused, and leaves no row",
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
    "phase: the name of a call that is there already is refused, and leaves no row",
    phase(({ rows }) => ({
      end(work, { owner }) {
        if (work.end === "commit") {
          alterCalls(rows, owner.key, (step) => (step.name === work.step.name ? null : step));
        }
        return work;
      },
    })),
  ],
  "recovery points of calls alone": [
    "phase: the recovery point is the last finished step, of either kind",
    lossy((_, { recoveryPoint, steps }) => {
      const calls = steps.filter(({ kind, name }) => kind === "call" && name === recoveryPoint);
      return { recoveryPoint: calls.length === 0 ? null : recoveryPoint };
    }),
  ],
  "a record written back as it was at the beginning": [
    "phase: the heartbeat goes on while one is open, and neither undoes the other",
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
    "phase: a heartbeat while one is open undoes it at no isolation level",
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
    "phase: commits at isolation level serializable, also after a renewal",
    phaseRun(({ support }) => async (request, work) => {
      const outcome = await support.phase(request, work);
      if (request.isolation !== "serializable" && request.isolation !== "repeatable read") return outcome;
      return { kind: "refused", value: outcome.value, because: "serialization", error: null };
    }),
  ],
  "phases at no level at all": [
    "phase: commits at isolation level as the database has it, also after a renewal",
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
    "phase: one does not hold up those of other records",
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
    "phase: of many with one name at once, exactly one commits",
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
  "every phase taken for used": [
    "phase: work that has not used `tx` is known, and work that has",
    phase(() => ({ open: (open) => ({ ...open, used: () => true }) })),
  ],
  "phases that must use their handle": [
    "phase: one that never used `tx` commits its step",
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
    "phase: a revoked `tx` refuses, and what it wrote before is committed",
    phase(() => ({ open: (open) => ({ ...open, revoke() {} }) })),
  ],
  "a phase's handle that works after its end": [
    "phase: after its end, however it ended, `tx` refuses",
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
    "phase: the last one, with a heartbeat while it is open, commits or may be run again",
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
    "settle: for settle_failed, the guard names every part of the record",
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
  "a settlement that forgets what led to it": [
    "settle: settle_not_executed makes the life retryable, and the next attempt goes on with it",
    afterSettle(({ rows }, key) =>
      alter(rows, key, (record) =>
        record.state === "retryable" ? { ...record, lastErrorCode: null } : record,
      ),
    ),
  ],
  "a settlement that counts as an attempt": [
    "settle: settle_call makes the life retryable, and the next attempt goes on with it",
    afterSettle(({ rows }, key) =>
      alter(rows, key, (record) => ({
        ...record,
        fence: { ...record.fence, attempt: record.fence.attempt + 1 },
      })),
    ),
  ],
  "a settlement by the id alone": [
    "settle: for settle_completed, the guard names every part of the record",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = currentOf(rows, key);
        return inner.settlement.settle(key, there?.id === guard.id ? guardOf(there) : guard, ...rest);
      },
    })),
  ],
  "a settlement of whatever is there": [
    "settle: for settle_call, the guard names every part of the record",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = currentOf(rows, key);
        return inner.settlement.settle(key, there === null ? guard : guardOf(there), ...rest);
      },
    })),
  ],
  "a settlement across tenants": [
    "settle: for settle_not_executed, the guard names every part of the record",
    settlement(({ inner, rows }) => ({
      settle(key, guard, ...rest) {
        const there = rows.all().find(({ record }) => record.id === guard.id)?.record;
        return inner.settlement.settle(there ?? key, guard, ...rest);
      },
    })),
  ],
  "a settlement of what is not unknown": [
    "settle: refused on a record that is in_progress, whatever the guard says",
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
  "a repetition with a row of its own": [
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
  "a repetition that is not known": [
    "settle: a repetition at the same time as the first is true, with one audit row",
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
  "never-happened for finished calls, too": [
    "settle: never-happened gives back the calls that are started, and only these",
    afterSettle(({ rows }, key) =>
      alterCalls(rows, key, (step) => (step.state === "refused" ? { ...step, state: "not_executed" } : step)),
    ),
  ],
  "may-repeat that gives back": [
    "settle: may-repeat leaves every call as it is",
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
  "a found call that is no recovery point": [
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
  "a found call wherever it is": [
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
  "a found call that is nowhere": [
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
  "reopening that does not look": [
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
  "a claim that writes back what it saw": [
    "settle: racing with a claim, nothing is left to claim",
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
  "a retryable life for many": [
    "settle: what has become retryable is taken over by exactly one of many",
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
    "claim: an unknown record whose time has come is handed out, and hidden for the time of the claim",
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
  "claims of what waits for a person": [
    "claim: one that waits for a person is never handed out",
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
    "claim: by the operation, also where keys are unique per tenant",
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
    "claim: oldest first, at most as many as asked for",
    settlement(({ inner }) => ({
      claimUnknowns: async (...given) => [...(await inner.settlement.claimUnknowns(...given))].reverse(),
    })),
  ],
  "claims that look, then take": [
    "claim: many at once take each record once",
    settlement(({ inner, rows }) => ({
      async claimUnknowns(...given) {
        const seen = rows.all();
        await otherTurn();
        for (const row of seen) rows.put(row.record, restored(row));
        return inner.settlement.claimUnknowns(...given);
      },
    })),
  ],
  "claims of what is retryable": [
    "claim: no record in another state",
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
    "claim: tries are counted over the whole life, and in a new one from the start",
    lossy((record) => (record.state === "retryable" ? { tries: 0 } : {})),
  ],
  "tries that a new try starts again": [
    "postpone: does not start the tries again",
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
  "a hastening of whatever is there": [
    "hasten: another version of a record that is completed is refused",
    settlement(({ inner, rows }) => ({
      hasten: (key, guard, note) => {
        const record = rows.find(key)?.record;
        return inner.settlement.hasten(key, record === undefined ? guard : guardOf(record), note);
      },
    })),
  ],
  "a hastening that ends the answer's time alone": [
    "hasten: the record-cleaner forgets what was completed",
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
  "a hastening that lets the record stand": [
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
  "a hastening that nobody sees": [
    "hasten: a record that is retryable keeps its state and gets an audit row",
    settlement(({ inner }) => ({
      audit: async (key) => (await inner.settlement.audit(key)).filter(({ event }) => event !== "retry"),
    })),
  ],
  "no next try taken for none at once": [
    "postpone: null leaves it to a person, and a time takes it back",
    settlement(({ inner }) => ({
      postpone: (key, guard, afterMs) => inner.settlement.postpone(key, guard, afterMs ?? 0),
    })),
  ],
  "a next try by the id alone": [
    "postpone: the guard names every part of the record",
    settlement(({ inner, rows }) => ({
      postpone(key, guard, afterMs) {
        const there = currentOf(rows, key);
        return inner.settlement.postpone(key, there?.id === guard.id ? guardOf(there) : guard, afterMs);
      },
    })),
  ],
  "a next try for what is not unknown": [
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
    "resumable: leases that have ended under `resume`, with attempts left and before expiry, and no others",
    lossy((record) =>
      record.state === "in_progress" ? { terms: { leaseEnd: "resume", attemptsMax: 9 } } : {},
    ),
  ],
  "leases to resume that are given up": [
    "resumable: what may be resumed is not given up, and what may not is",
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
  "what may be resumed a millisecond early": [
    "resumable: a lease that ends or a time that comes, not a millisecond earlier",
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
    "resumable: expiry ends it, not a millisecond earlier",
    settlement(({ rows, now }) => ({
      resumable: async (operations, limit) =>
        resumableOf(rows, now(), operations, "in_progress").slice(0, limit),
    })),
  ],
  "resuming what waits for the next request": [
    "resumable: what is to be retried, when its time has come, and never what the next request resumes",
    settlement(({ rows }) => ({
      resumable: async (operations, limit) => resumableOf(rows, 0, operations, "retryable").slice(0, limit),
    })),
  ],
  "no time to resume after a settlement": [
    "resumable: after settle_not_executed, when its time has come",
    settlement(({ inner, rows }) => ({
      async settle(key, ...rest) {
        const settled = await inner.settlement.settle(key, ...rest);
        const row = rows.find(key);
        if (row !== null) rows.put(row.record, { ...restored(row), resumeAfter: null });
        return settled;
      },
    })),
  ],
  "looking that takes": [
    "resumable: records come as they are, and stay as they are",
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
  "what may be resumed in any order": [
    "resumable: what has waited longest first, at most as many as asked for",
    settlement(({ inner }) => ({
      resumable: async (operations, limit) =>
        (await inner.settlement.resumable(operations, 1e6))
          .toSorted((left, right) => left.createdAt - right.createdAt || (left.id < right.id ? -1 : 1))
          .slice(0, limit),
    })),
  ],
  "a time to resume that stays": [
    "resumable: what was taken over, ended or settled is not",
    { rows: () => new DueRows() },
  ],

  "a list of every state": [
    "list: the records in one state, as they are",
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
    "list: oldest first, page by page, none twice and none left out",
    settlement(({ inner }) => ({
      list: async (filter) => [...(await inner.settlement.list(filter))].reverse(),
    })),
  ],
  "a list whose pages go on by the time alone": [
    "list: records of the same time are ordered by their ids",
    settlement(({ inner }) => ({
      list: ({ after, ...filter }) =>
        inner.settlement.list({ ...filter, after: after && { ...after, id: "~" } }),
    })),
  ],
  "an audit of what was only begun": [
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
  "an audit that goes with its record": [
    "audit: over all lives of the key, oldest first, also after cleaning",
    settlement(({ inner, rows }) => ({
      audit: async (key) => {
        const id = currentOf(rows, key)?.id;
        return (await inner.settlement.audit(key)).filter(({ recordId }) => recordId === id);
      },
    })),
  ],
  "an audit of all tenants": [
    "audit: of this key alone",
    settlement(({ audit }) => ({
      audit: async (key) => audit.filter((entry) => entry.key.key === key.key),
    })),
  ],
  "an audit without empty reasons": [
    "audit: actor, proof and reason come back as they were, also without a reason",
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
