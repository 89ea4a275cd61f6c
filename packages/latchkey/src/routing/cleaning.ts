/** Cleans several stores for the record cleaner, whose batch they share. */
import { StoreError } from "../errors.ts";
import type { Archival } from "../stores/archival.ts";
import type { CleanReport, Store } from "../stores/store.ts";
import type { Members } from "./members.ts";
import { interleave, shareOut } from "./shares.ts";

export async function clean<Tx>(
  members: Members<Tx>,
  limit: number,
  cleanOne: (store: Store<Tx>, limit: number) => Promise<CleanReport> = (store, share) => store.clean(share),
): Promise<CleanReport> {
  const reports = await shareOut(members, [limit], async ({ store }, [share = 0]) => {
    const value = await cleanOne(store, share);
    return { value, used: [Math.max(...Object.values(value))] };
  });
  const sum = (of: keyof CleanReport) => reports.reduce((all, report) => all + report[of], 0);
  return {
    abandoned: sum("abandoned"),
    purged: sum("purged"),
    forgotten: sum("forgotten"),
    effects: sum("effects"),
    messages: sum("messages"),
  };
}

export function routedArchival<Tx>(members: Members<Tx>): Archival {
  return {
    clean: (limit) => clean(members, limit, (store, share) => archivalOf(store).clean(share)),
    async due(limit) {
      return interleave(await members.reachable(async (store) => archivalOf(store).due(limit)), limit);
    },
    async forget(records) {
      const groups = [...Map.groupBy(records, ({ tenant }) => members.of(tenant).store)];
      const gone = await Promise.all(groups.map(([store, those]) => archivalOf(store).forget(those)));
      return gone.reduce((all, one) => all + one, 0);
    },
  };
}

function archivalOf<Tx>({ archival, name }: Store<Tx>): Archival {
  if (archival !== undefined) return archival;
  throw new StoreError("not_sent", { message: `Store ${name} cannot archive` });
}

export async function cleanAudit<Tx>(members: Members<Tx>, keepMs: number, limit: number): Promise<number> {
  const removed = await shareOut(members, [limit], async ({ store }, [share = 0]) => {
    const value = (await store.cleanAudit?.(keepMs, share)) ?? 0;
    return { value, used: [value] };
  });
  return removed.reduce((all, one) => all + one, 0);
}
