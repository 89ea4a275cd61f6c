/** Inputs and steps on Postgres. */
import { StoreError } from "../../../errors.ts";
import type { CallEnd, CallIntent, JournalSupport, Owner } from "../../journal.ts";
import { checkStorable, isStorable } from "../../storable.ts";
import type { PostgresExecutor } from "../executor.ts";
import { booleanOf, foundRows, momentOf, onlyRow, primaryRows } from "../statements/rows.ts";
import type { StatementTemplate } from "../statements/template.ts";
import { keyValues, ownerOfValues, timeoutText } from "../statements/values.ts";
import { callOf, journalCallOf, journalOf } from "./journal-rows.ts";
import type { journalStatements } from "./journal-statements.ts";

export interface JournalParts {
  readonly executor: PostgresExecutor;
  readonly statements: ReturnType<typeof journalStatements>;
  readonly waitSettings: StatementTemplate;
}

/**
 * How long one try of a refence, which has locked the lease, waits for the lock on the record. Shorter than a renewal waits for
 * the lease (100 ms), so that the lease can be renewed between two tries.
 */
const waitMaxMs = 50;

export function postgresJournal(parts: JournalParts): JournalSupport {
  const { executor, statements } = parts;
  return {
    async read(key, id) {
      return journalOf(primaryRows(await executor.read(statements.journal.bind({ ...keyValues(key), id }))));
    },

    async startCall(owner, intent) {
      const values = { ...ownerOfValues(owner), ...intentValues(intent) };
      const [row] = await executor.write(statements.startCall.bind(values));
      return row === undefined ? null : { step: callOf(row), now: momentOf(row, "now") };
    },

    async endCall(owner, { name, generation }, end) {
      checkStorable("name", name);
      const values = { ...ownerOfValues(owner), name, generation, ...endValues(end) };
      const [row] = await executor.write(statements.endCall.bind(values));
      if (row !== undefined) return true;
      return booleanOf(onlyRow(await executor.read(statements.callEnded.bind(values))), "ended");
    },

    refence: (owner, token, leaseMs, timeoutMs) => refence(parts, owner, { token, leaseMs, timeoutMs }),

    async callsByDownstreamKey(keys) {
      const known = keys.filter(isStorable);
      const rows = await executor.read(statements.callsByKey.bind({ keys: JSON.stringify(known) }));
      return foundRows(rows, "record_id").map(journalCallOf);
    },

    async finishedCalls({ effect, from, to, limit, after }) {
      checkStorable("effect", effect);
      const page = { after_ms: after?.finishedAt ?? null, after_key: after?.downstreamKey ?? null };
      const values = { effect, from_ms: from, to_ms: to, limit, ...page };
      const rows = await executor.read(statements.finishedCalls.bind(values));
      return foundRows(rows, "record_id").map(journalCallOf);
    },
  };
}

async function refence(
  { executor, statements, waitSettings }: JournalParts,
  owner: Owner,
  terms: { readonly token: string; readonly leaseMs: number; readonly timeoutMs: number },
): ReturnType<JournalSupport["refence"]> {
  const { token, leaseMs, timeoutMs } = terms;
  const values = { ...ownerOfValues(owner), new_token: token, lease_ms: leaseMs };
  const { heartbeats } = executor;
  await heartbeats.hold(token, leaseMs);
  const rows = await executor.runUntilConfirmed(
    (leftMs) => [
      waitSettings.bind({ limit_ms: timeoutText(Math.min(leftMs, waitMaxMs)) }),
      statements.refence.bind(values),
      // A separate statement, so that its snapshot is taken after the record was locked.
      statements.journal.bind({ ...keyValues(owner.key), id: owner.id }),
    ],
    timeoutMs,
  );
  const journal = rows?.[1]?.length ? journalOf(rows[2]) : null;
  heartbeats.drop(journal === null ? token : owner.fence.token);
  if (rows === null) {
    const message = `It could not be confirmed within ${timeoutMs} ms whether the attempt has a new fence`;
    throw new StoreError("in_doubt", { message });
  }
  return journal && { fence: { attempt: owner.fence.attempt, token }, journal };
}

function intentValues(intent: CallIntent) {
  const { name, position, version, effect, generation, downstreamKey, input } = intent;
  for (const [what, text] of Object.entries({ name, version, effect, downstreamKey }))
    checkStorable(what, text);
  return { name, position, version, effect, generation, downstream_key: downstreamKey, step_input: input };
}

const stateAfter = { finish: "finished", refuse: "refused", not_executed: "not_executed" } as const;

function endValues(end: CallEnd) {
  return { state: stateAfter[end.event], result: end.event === "not_executed" ? null : end.result };
}
