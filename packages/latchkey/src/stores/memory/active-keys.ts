import type { LatchkeyRecord } from "../../engine/record.ts";
import type { ActiveKeys } from "../active-keys.ts";
import type { MemoryRows } from "./rows.ts";

export function countActiveKeys(
  rows: MemoryRows,
  now: number,
  tenants: readonly string[],
  countMax: number,
): readonly ActiveKeys[] {
  const records = rows.all().map(({ record }) => record);
  return tenants.map((tenant) => {
    const live = records.filter(
      (record) => record.tenant === tenant && (forgetAtOf(record) ?? now + 1) > now,
    );
    const counted = live.slice(0, countMax);
    const ends = counted.map(forgetAtOf).filter((at) => at !== null);
    const isFull = counted.length === countMax;
    return {
      tenant,
      count: counted.length,
      roomAfterMs: isFull && ends.length > 0 ? Math.min(...ends) - now : null,
    };
  });
}

function forgetAtOf(record: LatchkeyRecord): number | null {
  return "forgetAt" in record ? record.forgetAt : null;
}
