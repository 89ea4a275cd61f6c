/** Inputs and steps. Null or false if the owner has lost. */
import type { RecordKey } from "../../engine/record.ts";
import type { Random } from "../../ports.ts";
import type {
  CallIntent,
  CallState,
  CallStep,
  FinishedCallsQuery,
  Journal,
  JournalCall,
  JournalSupport,
} from "../journal.ts";
import { bytes, ownerArguments } from "./arguments.ts";
import { collect, prefixes, timeText } from "./index-ranges.ts";
import { digestLength, type RedisLocation } from "./keys.ts";
import { readingOf } from "./records.ts";
import { bytesOf, listOf, nullable, numberOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { journalScripts } from "./scripts/journal.ts";
import { partitionScripts } from "./scripts/partition.ts";

export function redisJournal(runner: Runner, random: Pick<Random, "token">): JournalSupport {
  const { layout } = runner;
  return {
    async read(key, id) {
      const reply = await runner.on(layout.locationOf(key), journalScripts.journal, [id]);
      return reply === null ? null : journalOf(reply);
    },

    async startCall(owner, intent) {
      const named = [intent.name, String(intent.generation), bytes(intent.input), metaOf(intent)];
      const args = [...ownerArguments(owner), ...named, random.token()];
      const reply = await runner.on(layout.locationOf(owner.key), journalScripts.startCall, args);
      return reply === null ? null : { step: callOf(reply), now: numberOf(listOf(reply)[0]) };
    },

    async endCall(owner, { name, generation }, end) {
      const state: CallState = endStates[end.event];
      const result = end.event === "not_executed" ? "" : bytes(end.result);
      const args = [...ownerArguments(owner), name, String(generation), state, result];
      return (await runner.on(layout.locationOf(owner.key), journalScripts.endCall, args)) !== null;
    },

    async refence(owner, token, leaseMs, timeoutMs) {
      const args = [...ownerArguments(owner), token, String(leaseMs)];
      const location = layout.locationOf(owner.key);
      const reply = await runner.on(location, journalScripts.refence, args, timeoutMs);
      if (reply === null) return null;
      return { fence: { attempt: owner.fence.attempt, token }, journal: journalOf(reply) };
    },

    async callsByDownstreamKey(asked) {
      const keys = [...new Set(asked)];
      if (keys.length === 0) return [];
      const names = keys.map((key) => `c${key}`);
      const replies = await runner.askAll(partitionScripts.find, names);
      const calls = replies.flatMap((reply) =>
        listOf(reply)
          .slice(1)
          .map(async (found, index): Promise<readonly JournalCall[]> => {
            const call = await foundCall(runner, found);
            return call !== null && call.step.downstreamKey === keys[index] ? [call] : [];
          }),
      );
      return (await Promise.all(calls)).flat();
    },

    finishedCalls: (query) => finishedCalls(runner, query),
  };
}

const endStates = { finish: "finished", refuse: "refused", not_executed: "not_executed" } as const;

/** A step's fields in its JSON. Times are texts, because JSON's numbers in Redis have 14 digits. */
interface Meta {
  /** Position, version. */
  readonly p: number;
  readonly v: string;
  readonly st: CallState;
  /** Effect, generation, downstream key. */
  readonly ef: string;
  readonly g: number;
  readonly dk: string;
  /** Sends; startedAt; finishedAt. */
  readonly n: number;
  readonly sa: string;
  readonly fi?: string;
}

function metaOf({ position, version, effect, generation, downstreamKey }: CallIntent): string {
  const meta = { p: position, v: version, ef: effect, g: generation, dk: downstreamKey };
  return JSON.stringify(meta satisfies Partial<Meta>);
}

function stepOf(name: string, meta: Meta, input: Uint8Array, result: Uint8Array | null): CallStep {
  return {
    kind: "call",
    name,
    position: meta.p,
    version: meta.v,
    state: meta.st,
    effect: meta.ef,
    generation: meta.g,
    downstreamKey: meta.dk,
    input,
    result,
    sends: meta.n,
    startedAt: Number(meta.sa),
    finishedAt: meta.fi === undefined ? null : Number(meta.fi),
  };
}

/** The time, the step's JSON, its input, its result, its name. */
function callOf(reply: unknown): CallStep {
  const [, meta, input, result, name] = listOf(reply);
  return stepOf(textOf(name), JSON.parse(textOf(meta)), bytesOf(input), nullable(result, bytesOf));
}

/** The time, the recovery point, and the hash of the steps, which has the life's input, too. */
function journalOf(reply: unknown): Journal {
  const [now, recoveryPoint, hash] = listOf(reply);
  const fields = fieldsOf(listOf(hash));
  const steps = [...fields]
    .filter(([field]) => field.startsWith("m"))
    .map(([field, meta]) => {
      const name = field.slice(1);
      const result = fields.get(`r${name}`) ?? null;
      return stepOf(name, JSON.parse(Buffer.from(meta).toString()), bytesOf(fields.get(`i${name}`)), result);
    })
    .sort((left, right) => left.position - right.position);
  return {
    input: fields.get("I") ?? null,
    recoveryPoint: nullable(recoveryPoint, textOf),
    steps,
    now: numberOf(now),
  };
}

function fieldsOf(flat: readonly unknown[]): ReadonlyMap<string, Uint8Array> {
  const fields = new Map<string, Uint8Array>();
  for (let index = 0; index < flat.length; index += 2) {
    fields.set(textOf(flat[index]), bytesOf(flat[index + 1]));
  }
  return fields;
}

/** The call under a downstream key, for which the look-up table has the digest of the record's key and the name of the step. */
async function foundCall(runner: Runner, found: unknown): Promise<JournalCall | null> {
  if (found == null) return null;
  const text = textOf(found);
  return callAt(runner, runner.layout.locationAt(text.slice(0, digestLength)), text.slice(digestLength));
}

async function callAt(runner: Runner, location: RedisLocation, name: string): Promise<JournalCall | null> {
  const reply = await runner.on(location, journalScripts.call, [name]);
  if (reply === null) return null;
  const [view, call] = listOf(reply);
  const record = readingOf(view).stored?.record;
  if (record === undefined) return null;
  const key: RecordKey = { tenant: record.tenant, scope: record.scope, key: record.key };
  return { key, recordId: record.id, fingerprint: record.fingerprint.digest, step: callOf(call) };
}

/** An entry of the index is: the prefix, the time, the downstream key, a separator, the digest of the record's key. */
function finishedCalls(
  runner: Runner,
  { effect, from, to, limit, after }: FinishedCallsQuery,
): Promise<readonly JournalCall[]> {
  const start = after === null ? timeText(from) : `${timeText(after.finishedAt)}${after.downstreamKey}\x01`;
  const search = {
    prefixes: [prefixes.calls(effect)],
    due: false,
    after: start,
    before: timeText(to),
    limit,
  };
  return collect(runner, search, async ({ location, rest }) => {
    const downstreamKey = rest.slice(16, -digestLength - 1);
    const [, found] = listOf(
      await runner.ask(location.partition, partitionScripts.find, [`c${downstreamKey}`]),
    );
    const call = await foundCall(runner, found);
    const { state, finishedAt } = call?.step ?? { state: null, finishedAt: null };
    const same = finishedAt !== null && timeText(finishedAt) === rest.slice(0, 16);
    return call?.step.effect === effect && state === "finished" && same ? call : null;
  });
}
