/** Deferred work on Postgres. */
import type { Clock } from "../../../ports.ts";
import { checkStorable } from "../../storable.ts";
import type { Store } from "../../store.ts";
import type { PostgresExecutor } from "../executor.ts";
import { storedRecord } from "../statements/rows.ts";
import type { Confirmation } from "../transactions/confirm.ts";
import type { deferredStatements } from "./deferred-statements.ts";
import { PendingClaims } from "./pending-claims.ts";

export function postgresDeferred(
  executor: PostgresExecutor,
  statements: ReturnType<typeof deferredStatements>,
  confirmation: Confirmation,
  clock: Clock,
): Pick<Store, "readById" | "claimPending"> {
  const claims = new PendingClaims(executor, statements, clock);
  return {
    async readById(tenant, id) {
      if (tenant !== null) checkStorable("tenant", tenant);
      return confirmation.read(statements.readById.bind({ tenant, id }));
    },

    async claimPending(wants) {
      const wanted = wants.filter(({ tokens }) => tokens.length > 0);
      if (wanted.length === 0) return [];
      const { heartbeats } = executor;
      const held = wanted.flatMap(({ tokens, terms }) => tokens.map((token) => ({ token, terms })));
      const keep = new Set<string>();
      try {
        for (const { token, terms } of held) await heartbeats.hold(token, terms.leaseMs);
        const rows = await claims.claim(wanted);
        const records = rows.map((row) => storedRecord(row, "in_progress"));
        for (const { fence } of records) keep.add(fence.token);
        return records;
      } finally {
        for (const { token } of held) if (!keep.has(token)) heartbeats.drop(token);
      }
    },
  };
}
