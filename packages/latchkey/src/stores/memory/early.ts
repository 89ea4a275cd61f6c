/** Early settlements in memory: they live and go with their record's life. */
import { decodeEarly, type EarlySettlements, encodeEarly } from "../early.ts";
import { guardHolds, type MemoryRows } from "./rows.ts";

export function memoryEarly(rows: MemoryRows): EarlySettlements {
  return {
    async keep(key, guard, early) {
      const row = rows.find(key);
      if (row === null || !guardHolds(row.record, guard)) return false;
      const { record, terms, resumeAfter, life } = row;
      if (record.state !== "in_progress" && record.state !== "retryable") return false;
      if (life.early.some((text) => decodeEarly(text).note.id === early.note.id)) return true;
      rows.put(record, { terms, resumeAfter, early: [...life.early, encodeEarly(early)] });
      return true;
    },
    async of(key, recordId) {
      const row = rows.find(key);
      return row?.record.id === recordId ? row.life.early.map(decodeEarly) : [];
    },
    due: async (limit) =>
      rows
        .all()
        .flatMap(({ record, life }) => (record.state === "unknown" && life.early.length > 0 ? [record] : []))
        .slice(0, limit),
  };
}
