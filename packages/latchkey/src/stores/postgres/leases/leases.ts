/** Attempts under a lease: how they begin, stay and end. */
import type { Guard, InProgressRecord, LatchkeyRecord } from "../../../engine/record.ts";
import type { Clock } from "../../../ports.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import type { NewLife } from "../../life.ts";
import type { AttemptEnd, Store } from "../../store.ts";
import type { PostgresExecutor } from "../executor.ts";
import { type GatheredWriteParts, GatheredWrites } from "../gathering/gathered-writes.ts";
import { patienceMs } from "../gathering/gathering.ts";
import type { Settings } from "../settings.ts";
import { begunLife, momentOf, nullableText, numberOf, textOf, tracedAs } from "../statements/rows.ts";
import type { StatementTemplate } from "../statements/template.ts";
import {
  fingerprintValues,
  guardValues,
  keyValues,
  leaseValues,
  lifeValues,
  type ownerOfValues,
  ownerValues,
  retentionValues,
} from "../statements/values.ts";
import type { leaseStatements } from "./lease-statements.ts";

/** Of each kind. With fewer, a few attempts wait for each other's COMMIT; docs/performance.md compares others. */
const sentMax = 4;

type LeaseStatements = ReturnType<typeof leaseStatements>;
type Finish = Extract<AttemptEnd, { readonly event: "complete" | "fail" }>;
type Park = Extract<AttemptEnd, { readonly event: "retry_later" | "doubt" }>;

interface LeaseParts {
  readonly executor: PostgresExecutor;
  readonly statements: LeaseStatements;
  readonly settings: Settings;
  readonly clock: Pick<Clock, "startTimer">;
}

type LeaseMethods = Pick<Store, "create" | "accept" | "takeOver" | "renew" | "end" | "giveUp">;

export function postgresLeases(parts: LeaseParts): LeaseMethods {
  const { executor, statements, settings } = parts;
  const { heartbeats } = executor;
  const { creates, finishes, renewals } = gatheredLeases(parts);
  /** The row, or null if the guard did not hold. */
  const write = async (statement: SqlStatement) => (await executor.write(statement))[0] ?? null;

  const begin = beginning(parts);
  const writeEnd = ending(statements, finishes, write);

  return {
    async create(life, replaces, terms) {
      const values = { ...lifeValues(life), ...leaseValues(terms) };
      const row = await begin(life.fence.token, terms.leaseMs, () =>
        replaces === null
          ? creates.write(values)
          : write(createOverOf(statements, life).bind({ ...values, ...guardValues(replaces) })),
      );
      return row === null ? null : runningLife(begunLife(life, row), row);
    },

    async accept(life, replaces, expiresAfterMs) {
      await settings.suits();
      const statement = acceptOf(statements, life, replaces);
      const values = { ...lifeValues(life), ...guardValues(replaces), expires_after_ms: expiresAfterMs };
      const row = await write(statement.bind(values));
      return row === null
        ? null
        : { ...begunLife(life, row), state: "pending", expiresAt: momentOf(row, "expires_at") };
    },

    async takeOver(key, guard, fingerprint, token, terms) {
      const statement = takeOverFrom(statements, guard.state);
      if (statement === null) return null;
      const values = {
        ...keyValues(key),
        ...guardValues(guard),
        ...fingerprintValues(fingerprint),
        ...leaseValues(terms),
        id: guard.id,
        token,
      };
      const row = await begin(token, terms.leaseMs, () => write(statement.bind(values)));
      if (row === null) return null;
      const fence = { attempt: numberOf(row, "attempt"), token };
      const operation = textOf(row, "operation");
      const principal = nullableText(row, "principal");
      const life = { ...key, id: guard.id, operation, fingerprint, principal, fence };
      return runningLife(begunLife(tracedAs(life, row), row), row);
    },

    async renew(key, id, fence, leaseMs) {
      const values = { ...keyValues(key), ...ownerValues(id, fence), lease_ms: leaseMs };
      const held = heartbeats.holds(fence.token);
      const row = await renewals.write(values);
      if (row === null) heartbeats.drop(fence.token);
      // If it was dropped meanwhile, the attempt has ended, its lease has by this process's clock, or the store was closed. It
      // was not held before if the attempt's beginning was in doubt.
      else if (!held || heartbeats.holds(fence.token)) await heartbeats.hold(fence.token, leaseMs);
      return row !== null;
    },

    async end(key, id, fence, end) {
      const row = await writeEnd({ ...keyValues(key), ...ownerValues(id, fence) }, end);
      heartbeats.drop(fence.token);
      if (row === null) return null;
      return { expiresAt: "expires_at" in row ? momentOf(row, "expires_at") : null };
    },

    async giveUp(key, guard, errorCode, reconcileAfterMs) {
      const reason = { error_code: errorCode, reconcile_after_ms: reconcileAfterMs };
      const values = { ...keyValues(key), ...guardValues(guard), ...reason };
      return (await write(statements.giveUp.bind(values))) !== null;
    },
  };
}

/** Reserves the heartbeat's connection before the attempt begins, and releases it if there is no attempt after all. */
function beginning({ settings, executor: { heartbeats } }: LeaseParts) {
  return async (token: string, leaseMs: number, send: () => Promise<SqlRow | null>) => {
    await settings.suits();
    await heartbeats.hold(token, leaseMs);
    const row = await send().catch((error: unknown) => {
      heartbeats.drop(token);
      throw error;
    });
    if (row === null) heartbeats.drop(token);
    return row;
  };
}

type Owned = ReturnType<typeof ownerOfValues>;
type Write = (statement: SqlStatement) => Promise<SqlRow | null>;

function ending(statements: LeaseStatements, finishes: GatheredWrites, write: Write) {
  return (owner: Owned, end: AttemptEnd) => {
    switch (end.event) {
      case "complete":
      case "fail":
        return finishes.write({ ...owner, ...finishedValues(end) });
      case "release":
        return write(statements.release.bind(owner));
      case "retry_later":
      case "doubt":
        return write(statements.park.bind({ ...owner, ...parkedValues(end) }));
      default:
        return end satisfies never;
    }
  };
}

/** What concurrent requests write is sent together. */
function gatheredLeases({ executor, statements, clock }: LeaseParts) {
  const gather = (parts: Pick<GatheredWriteParts, "single" | "many">) =>
    new GatheredWrites({
      ...parts,
      clock,
      sentMax,
      patienceMs,
      write: (one) => executor.write(one),
    });
  return {
    creates: gather({
      single: (values) => (values.trace === null ? statements.create : statements.createTraced).bind(values),
      many: statements.createMany,
    }),
    finishes: gather({ single: (values) => statements.finish.bind(values), many: statements.finishMany }),
    renewals: new GatheredWrites({
      single: (values) => statements.renew.bind(values),
      many: statements.renewMany,
      clock,
      // Heartbeats have one connection.
      sentMax: 1,
      patienceMs: null,
      write: (one) => executor.heartbeats.beat(one),
    }),
  };
}

function createOverOf(all: LeaseStatements, { trace }: NewLife): StatementTemplate {
  return trace === undefined ? all.createOver : all.createOverTraced;
}

function acceptOf(all: LeaseStatements, { trace }: NewLife, replaces: Guard | null): StatementTemplate {
  if (trace === undefined) return replaces === null ? all.accept : all.acceptOver;
  return replaces === null ? all.acceptTraced : all.acceptOverTraced;
}

function takeOverFrom(
  statements: ReturnType<typeof leaseStatements>,
  state: LatchkeyRecord["state"],
): StatementTemplate | null {
  if (state === "retryable") return statements.takeOverRetryable;
  return state === "in_progress" ? statements.takeOverEnded : null;
}

function finishedValues({ event, answer, errorCode, retention }: Finish) {
  const state = event === "complete" ? "completed" : "failed";
  return { state, answer, error_code: errorCode, ...retentionValues(retention) };
}

function parkedValues(end: Park) {
  return end.event === "doubt"
    ? { state: "unknown", error_code: end.errorCode, reconcile_after_ms: end.reconcileAfterMs }
    : { state: "retryable", error_code: end.errorCode, reconcile_after_ms: end.resumeAfterMs };
}

function runningLife(life: ReturnType<typeof begunLife>, row: SqlRow): InProgressRecord {
  const leaseEndsAt = momentOf(row, "lease_ends_at");
  return { ...life, state: "in_progress", leaseEndsAt, expiresAt: momentOf(row, "expires_at") };
}
