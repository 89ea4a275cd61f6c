/** The store contract on Redis: one script per step. Its guard decides; null means that it did not hold. */
import { giveUpReason } from "../../engine/decide.ts";
import type { RecordKey } from "../../engine/record.ts";
import type { Random } from "../../ports.ts";
import type { Finding } from "../examination.ts";
import type { NewLife } from "../life.ts";
import type { AttemptEnd, EndedLease, Store, StoreCapabilities } from "../store.ts";
import {
  bytes,
  delay,
  guardArguments,
  maybeBytes,
  maybeText,
  ownerArguments,
  retentionArguments,
  termsArguments,
} from "./arguments.ts";
import type { Argument } from "./client.ts";
import { redisEarly } from "./early.ts";
import type { RecordField } from "./fields.ts";
import { collect, prefixes } from "./index-ranges.ts";
import { redisJournal } from "./journal.ts";
import { readingOf, runningOf, type StoredReading, writtenOf } from "./records.ts";
import { listOf, numberOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { partitionScripts } from "./scripts/partition.ts";
import { recordScripts } from "./scripts/records.ts";
import { redisSettlement } from "./settlement.ts";
import { claimPending, clean } from "./sweeps.ts";

const capabilities: StoreCapabilities = Object.freeze({
  transactions: false,
  inProgress: "immediate",
  durability: "may-lose-acknowledged",
  commitNotice: false,
  fenceSurvivesFailover: false,
  statusReads: "primary",
});

export interface RedisParts {
  readonly runner: Runner;
  readonly random: Pick<Random, "token">;
  readonly verify: () => Promise<void>;
  readonly examine: () => Promise<readonly Finding[]>;
}

export function assembleRedisStore({ runner, random, verify, examine }: RedisParts): Store {
  return {
    name: "redis",
    capabilities,
    keepsTraces: true,
    transactions: null,
    journal: redisJournal(runner, random),
    settlement: redisSettlement(runner, random),
    early: redisEarly(runner),
    outbox: null,
    messages: null,
    hints: null,
    verify,
    examine,
    ...lookUps(runner),
    ...beginnings(runner, random),
    ...attempts(runner, random),
    claimPending: (wants) => claimPending(runner, wants),
    clean: (limit) => clean(runner, limit),
  };
}

function lookUps(runner: Runner): Pick<Store, "read" | "readById" | "endedLeases"> {
  return {
    async read(key) {
      const { now, stored } = await readAt(runner, key);
      return { record: stored?.record ?? null, now };
    },

    async readById(tenant, id) {
      const replies = await runner.askAll(partitionScripts.find, [`i${id}`]);
      let now = 0;
      for (const reply of replies) {
        const [at, digest] = listOf(reply);
        now = Math.max(now, numberOf(at));
        if (digest == null) continue;
        const location = runner.layout.locationAt(textOf(digest));
        const reading = readingOf(await runner.on(location, recordScripts.read));
        const record = reading.stored?.record;
        const found =
          record?.id === id && (tenant === null || (record.tenant === tenant && reading.stored?.addressable));
        if (found) return { record, now: reading.now };
      }
      return { record: null, now };
    },

    endedLeases: (limit) =>
      collect<EndedLease>(runner, { prefixes: [prefixes.leases], due: true, limit }, async ({ location }) => {
        const { now, stored } = readingOf(await runner.on(location, recordScripts.read));
        const record = runningOf(stored);
        if (record === null || stored?.terms == null || now < record.leaseEndsAt) return null;
        return giveUpReason(record, stored.terms, now) === null ? null : { record, ...stored.terms };
      }),
  };
}

async function readAt(runner: Runner, key: RecordKey): Promise<StoredReading> {
  return readingOf(await runner.on(runner.layout.locationOf(key), recordScripts.read));
}

function beginnings(
  runner: Runner,
  random: Pick<Random, "token">,
): Pick<Store, "create" | "accept" | "recordLostTransaction"> {
  const begin = async (
    state: string,
    life: NewLife,
    replaces: Parameters<Store["create"]>[1],
    times: readonly [string, string],
    more: Partial<Record<RecordField, string>>,
  ) => {
    const guard = replaces === null ? ["", "", "", ""] : guardArguments(replaces);
    const args = [
      state,
      ...guard,
      ...times,
      maybeBytes(life.input),
      ...fieldsOf(life, { ...more, x: random.token() }),
    ];
    return writtenOf(await runner.on(runner.layout.locationOf(life), recordScripts.begin, args));
  };
  return {
    async create(life, replaces, terms) {
      const [leaseMs = "", abandonMs = "", lend = "", am = ""] = termsArguments(terms);
      return runningOf(await begin("in_progress", life, replaces, [leaseMs, abandonMs], { lend, am }));
    },
    async accept(life, replaces, expiresAfterMs) {
      const stored = await begin("pending", life, replaces, [String(expiresAfterMs), ""], {});
      return stored?.record.state === "pending" ? stored.record : null;
    },
    async recordLostTransaction(life, replaces, errorCode) {
      const stored = await begin("unknown", life, replaces, ["", ""], { er: errorCode });
      return stored?.record.state === "unknown" ? stored.record : null;
    },
  };
}

/** The fields of a new life, in pairs. */
function fieldsOf(life: NewLife, more: Partial<Record<RecordField, string>>): readonly Argument[] {
  const fields: Partial<Record<RecordField, Argument>> = {
    id: life.id,
    at: String(life.fence.attempt),
    tk: life.fence.token,
    op: life.operation,
    fv: String(life.fingerprint.version),
    fd: bytes(life.fingerprint.digest),
    t: life.tenant,
    s: life.scope,
    k: life.key,
    ...(life.principal === null ? {} : { pr: life.principal }),
    ...(life.addressable === true ? { ad: "1" } : {}),
    ...(life.trace === undefined ? {} : { tp: life.trace }),
    ...more,
  };
  return Object.entries(fields).flat();
}

function attempts(
  runner: Runner,
  random: Pick<Random, "token">,
): Pick<Store, "takeOver" | "renew" | "end" | "giveUp"> {
  const { layout } = runner;
  return {
    async takeOver(key, guard, { version, digest }, token, terms) {
      const print = [String(version), bytes(digest)];
      const args = [...guardArguments(guard), ...print, token, ...termsArguments(terms), random.token()];
      return runningOf(writtenOf(await runner.on(layout.locationOf(key), recordScripts.takeOver, args)));
    },
    async renew(key, id, fence, leaseMs) {
      const args = [...ownerArguments({ id, fence }), String(leaseMs)];
      return (await runner.on(layout.locationOf(key), recordScripts.renew, args)) !== null;
    },
    async end(key, id, fence, end) {
      const [script, args] = endOf(end);
      const owner = [...ownerArguments({ id, fence }), random.token()];
      const reply = await runner.on(layout.locationOf(key), script, [...owner, ...args]);
      if (reply === null) return null;
      return { expiresAt: script === recordScripts.finish ? numberOf(reply) : null };
    },
    async giveUp(key, guard, errorCode, reconcileAfterMs) {
      const args = [...guardArguments(guard), maybeText(errorCode), delay(reconcileAfterMs), random.token()];
      return (await runner.on(layout.locationOf(key), recordScripts.giveUp, args)) !== null;
    },
  };
}

function endOf(end: AttemptEnd) {
  switch (end.event) {
    case "complete":
    case "fail": {
      const state = end.event === "complete" ? "completed" : "failed";
      const kept = [bytes(end.answer), ...retentionArguments(end.retention), maybeText(end.errorCode)];
      return [recordScripts.finish, [state, ...kept]] as const;
    }
    case "release":
      return [recordScripts.release, []] as const;
    case "retry_later":
      return [recordScripts.park, ["retryable", maybeText(end.errorCode), delay(end.resumeAfterMs)]] as const;
    case "doubt":
      return [
        recordScripts.park,
        ["unknown", maybeText(end.errorCode), delay(end.reconcileAfterMs)],
      ] as const;
    default:
      return end satisfies never;
  }
}
