/** The store's part in the background services: dead leases, expiry, and the age of audit rows. */
import type { LeaseEnd } from "../../../engine/record.ts";
import type { SqlRow } from "../../../sql/transaction.ts";
import type { EndedLease, Store } from "../../store.ts";
import type { PostgresExecutor } from "../executor.ts";
import type { messageStatements } from "../messages/message-statements.ts";
import type { outboxStatements } from "../outbox/outbox-statements.ts";
import type { earlyStatements } from "../settlement/early-statements.ts";
import {
  bytesOf,
  foundRows,
  inProgressOf,
  nullableText,
  numberOf,
  onlyRow,
  storedRecord,
  textOf,
} from "../statements/rows.ts";
import type { StatementTemplate } from "../statements/template.ts";
import type { maintenanceStatements } from "./maintenance-statements.ts";
import type { tenantStatements } from "./tenant-statements.ts";

type Statements = ReturnType<typeof maintenanceStatements> &
  Pick<ReturnType<typeof outboxStatements>, "cleanEffects"> &
  Pick<ReturnType<typeof messageStatements>, "cleanMessages"> &
  Pick<ReturnType<typeof earlyStatements>, "reapEarly"> &
  Pick<ReturnType<typeof tenantStatements>, "cleanAudit">;

export function postgresMaintenance(
  executor: PostgresExecutor,
  statements: Statements,
): Required<Pick<Store, "endedLeases" | "clean" | "cleanAudit" | "archival">> {
  const batch = async (statement: StatementTemplate, limit: number) =>
    onlyRow(await executor.write(statement.bind({ limit })));
  const cleaned = async (limit: number, forgets: boolean) => {
    const abandoned = numberOf(await batch(statements.abandon, limit), "abandoned");
    const gone = forgets ? await batch(statements.forget, limit) : { purged: 0, forgotten: 0 };
    const purged = numberOf(gone, "purged");
    const left = limit - purged;
    await executor.write(statements.reapLeases.bind({ limit }));
    await executor.write(statements.reapEarly.bind({ limit }));
    const purge = left > 0 ? numberOf(await batch(statements.purge, left), "purged") : 0;
    const effects = numberOf(await batch(statements.cleanEffects, limit), "effects");
    const messages = numberOf(await batch(statements.cleanMessages, limit), "messages");
    const counts = { abandoned, purged: purged + purge, forgotten: numberOf(gone, "forgotten") };
    return { ...counts, effects, messages };
  };
  return {
    async endedLeases(limit) {
      const rows = await executor.read(statements.endedLeases.bind({ limit }));
      return rows.map(endedLeaseOf);
    },

    clean: (limit) => cleaned(limit, true),

    archival: {
      clean: (limit) => cleaned(limit, false),
      async due(limit) {
        const rows = foundRows(await executor.read(statements.dueToForget.bind({ limit })), "record");
        return rows.map((row) => {
          const summary = nullableText(row, "summary");
          const record = storedRecord(row, "completed", "failed", "expired");
          return { ...record, summary: summary === null ? null : bytesOf(summary) };
        });
      },
      async forget(records) {
        const ids = JSON.stringify(records.map(({ id }) => id));
        const row = onlyRow(await executor.write(statements.forgetNamed.bind({ ids })));
        return numberOf(row, "forgotten");
      },
    },

    async cleanAudit(keepMs, limit) {
      const row = onlyRow(await executor.write(statements.cleanAudit.bind({ keep_ms: keepMs, limit })));
      return numberOf(row, "audit");
    },
  };
}

function endedLeaseOf(row: SqlRow): EndedLease {
  return {
    record: inProgressOf(row),
    leaseEnd: textOf(row, "lease_end") as LeaseEnd,
    attemptsMax: numberOf(row, "attempts_max"),
  };
}
