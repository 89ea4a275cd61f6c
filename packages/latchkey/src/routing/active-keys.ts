/** Counts each tenant's records in its own store. If a store fails, only the counts of its own tenants are missing. */
import { StoreError } from "../errors.ts";
import type { ActiveKeys } from "../stores/active-keys.ts";
import type { Members } from "./members.ts";

export async function countActiveKeys<Tx>(
  members: Members<Tx>,
  tenants: readonly string[],
  countMax: number,
): Promise<readonly ActiveKeys[]> {
  const groups = [...Map.groupBy(tenants, (tenant) => members.of(tenant))];
  const those = new Map(groups);
  const counted = await members.ask([...those.keys()], async (member) => {
    const count = member.store.countActiveKeys;
    if (count === undefined) {
      throw new StoreError("not_sent", { message: `Store ${member.store.name} cannot count keys` });
    }
    return count.call(member.store, those.get(member) ?? [], countMax);
  });
  return [...counted.values()].flat();
}
