/** Deferred work on Postgres. */

import type { SqlRow } from "../../transactions/transaction.ts";
import type { PendingWant, Reading, Store } from "../store.ts";
import type { deferredStatements } from "./deferred-statements.ts";
import type { PostgresExecutor } from "./executor.ts";
import { storedRecord } from "./rows.ts";
import { checkStorable } from "./values.ts";

export function postgresDeferred(
  executor: PostgresExecutor,
  statements: ReturnType<typeof deferredStatements>,
  readingOf: (rows: readonly SqlRow[] | undefined) => Reading,
): Pick<Store, "readById" | "claimPending"> {
  return {
    async readById(tenant, id) {
      checkStorable("tenant", tenant);
      return readingOf(await executor.read(statements.readById.bind({ tenant, id })));
    },

    async claimPending(wants) {
      const wanted = wants.filter(({ tokens }) => tokens.length > 0);
      if (wanted.length === 0) return [];
      const { heartbeats } = executor;
      const held = wanted.flatMap(({ tokens, terms }) => tokens.map((token) => ({ token, terms })));
      const keep = new Set<string>();
      try {
        for (const { token, terms } of held) await heartbeats.hold(token, terms.leaseMs);
        const rows = await executor.write(statements.claimPending.bind({ wants: wantsList(wanted) }));
        const records = rows.map((row) => storedRecord(row, "in_progress"));
        for (const { fence } of records) keep.add(fence.token);
        return records;
      } finally {
        for (const { token } of held) if (!keep.has(token)) heartbeats.drop(token);
      }
    },
  };
}

/** @throws {TypeError} when an operation is named twice: its lives would share tokens */
function wantsList(wants: readonly PendingWant[]): string {
  if (new Set(wants.map(({ operation }) => operation)).size < wants.length) {
    throw new TypeError("An operation is wanted twice");
  }
  const rows = wants.map(({ operation, tokens, terms }) => {
    checkStorable("operation", operation);
    const { leaseMs, leaseEnd, attemptsMax, abandonAfterMs } = terms;
    const limits = { lease_ms: leaseMs, lease_end: leaseEnd, attempts_max: attemptsMax };
    return { operation, tokens, room: tokens.length, ...limits, abandon_after_ms: abandonAfterMs };
  });
  return JSON.stringify(rows);
}
