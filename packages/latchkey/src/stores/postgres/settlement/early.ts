/** Early settlements on Postgres. */
import type { UnknownRecord } from "../../../engine/record.ts";
import { decodeEarly, type EarlySettlements, encodeEarly } from "../../early.ts";
import { checkStorable } from "../../storable.ts";
import type { PostgresExecutor } from "../executor.ts";
import { foundRows, storedRecord, textOf } from "../statements/rows.ts";
import { guardValues, keyValues } from "../statements/values.ts";
import type { earlyStatements } from "./early-statements.ts";

export function postgresEarly(
  executor: PostgresExecutor,
  statements: ReturnType<typeof earlyStatements>,
): EarlySettlements {
  return {
    async keep(key, guard, early) {
      const encoded = encodeEarly(early);
      checkStorable("the settlement", encoded);
      const values = { ...keyValues(key), ...guardValues(guard), audit_id: early.note.id, said: encoded };
      return (await executor.write(statements.keepEarly.bind(values))).length > 0;
    },

    async of(key, recordId) {
      const rows = await executor.read(statements.earlyOf.bind({ ...keyValues(key), id: recordId }));
      return foundRows(rows, "said").map((row) => decodeEarly(textOf(row, "said")));
    },

    async due(limit) {
      const found = foundRows(await executor.read(statements.dueEarly.bind({ limit })), "record");
      const records = found.map((row) => storedRecord(row, "unknown"));
      // A record is in the rows once for each of its early settlements.
      return [...new Map(records.map((record): [string, UnknownRecord] => [record.id, record])).values()];
    },
  };
}
