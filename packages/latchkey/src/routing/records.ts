/** Steps, settlements and messages of several stores as one. A call that names a tenant goes to its store alone. */
import { StoreError } from "../errors.ts";
import type { EarlySettlements } from "../stores/early.ts";
import type { FactSupport } from "../stores/facts.ts";
import type { JournalSupport } from "../stores/journal.ts";
import type { MessageSupport } from "../stores/messages.ts";
import type { Depth, Overview } from "../stores/overview.ts";
import type { AuditEntry, AuditFilter, SettlementSupport } from "../stores/settlement.ts";
import type { Store } from "../stores/store.ts";
import type { TenantData } from "../stores/tenant-data.ts";
import type { TransactionSupport } from "../stores/transactions.ts";
import type { Members } from "./members.ts";
import { interleave, mergePages, shareOut } from "./shares.ts";

function missing(store: Store<never>, what: string): StoreError {
  return new StoreError("not_sent", { message: `Store ${store.name} has no ${what}` });
}

function transactionsOf<Tx>(store: Store<Tx>): TransactionSupport<Tx> {
  if (store.transactions === null) throw missing(store as Store<never>, "transactions");
  return store.transactions;
}

/** @param optimistic whether all stores have optimistic admission */
export function routedTransactions<Tx>(members: Members<Tx>, optimistic: boolean): TransactionSupport<Tx> {
  const of = (tenant: string) => transactionsOf(members.of(tenant).store);
  const runOptimistic: NonNullable<TransactionSupport<Tx>["runOptimistic"]> = async (
    request,
    admit,
    work,
  ) => {
    const { store, guard } = members.of(request.key.tenant);
    const run = transactionsOf(store).runOptimistic;
    if (run === undefined) throw missing(store as Store<never>, "optimistic admission");
    return guard(() => run(request, admit, work));
  };
  return {
    ...(optimistic ? { runOptimistic } : {}),
    async run(request, work) {
      const { store, guard } = members.of(request.key.tenant);
      return guard(() => transactionsOf(store).run(request, work));
    },
    phase: async (request, work) => of(request.owner.key.tenant).phase(request, work),
    deliver: async (request, work) => of(request.tenant).deliver(request, work),
    resolve: async (key, id, fence, timeoutMs) => of(key.tenant).resolve(key, id, fence, timeoutMs),
  };
}

export function routedJournal<Tx>(members: Members<Tx>): JournalSupport {
  const of = (tenant: string) => members.of(tenant).store.journal;
  return {
    read: async (key, id) => of(key.tenant).read(key, id),
    startCall: async (owner, intent) => of(owner.key.tenant).startCall(owner, intent),
    endCall: async (owner, call, end) => of(owner.key.tenant).endCall(owner, call, end),
    refence: async (owner, token, leaseMs, timeoutMs) =>
      of(owner.key.tenant).refence(owner, token, leaseMs, timeoutMs),
    callsByDownstreamKey: async (keys) =>
      (await members.every(({ journal }) => journal.callsByDownstreamKey(keys))).flat(),
    async finishedCalls(query) {
      const pages = await members.every(({ journal }) => journal.finishedCalls(query));
      return mergePages(pages, query.limit, ({ step: { finishedAt, downstreamKey } }) => [
        finishedAt ?? 0,
        downstreamKey,
      ]);
    },
  };
}

export function routedSettlement<Tx>(members: Members<Tx>): SettlementSupport {
  const of = (tenant: string) => members.of(tenant).store.settlement;
  return {
    settle: async (key, guard, settlement, note) => of(key.tenant).settle(key, guard, settlement, note),
    hasten: async (key, guard, note) => of(key.tenant).hasten(key, guard, note),
    async claimUnknowns(operations, limit, claimMs) {
      const pages = await shareOut(members, [limit], async ({ store }, [share = 0]) => {
        const value = await store.settlement.claimUnknowns(operations, share, claimMs);
        return { value, used: [value.length] };
      });
      return pages.flat();
    },
    postpone: async (key, guard, afterMs) => of(key.tenant).postpone(key, guard, afterMs),
    async resumable(operations, limit) {
      const lists = await members.reachable(({ settlement }) => settlement.resumable(operations, limit));
      return interleave(lists, limit);
    },
    async list(filter) {
      if (filter.tenant !== null) return of(filter.tenant).list(filter);
      const pages = await members.every(({ settlement }) => settlement.list(filter));
      return mergePages(pages, filter.limit, ({ createdAt, id }) => [createdAt, id]);
    },
    audit: async (key) => of(key.tenant).audit(key),
  };
}

/** Newest first over all stores; the order is only as exact as their clocks agree. */
export async function listAudit<Tx>(
  members: Members<Tx>,
  filter: AuditFilter,
): Promise<readonly AuditEntry[]> {
  const listOf = async (store: Store<Tx>) => (await store.listAudit?.(filter)) ?? [];
  if (filter.tenant !== null) return listOf(members.of(filter.tenant).store);
  const pages = await members.every(listOf);
  const newestFirst = (left: AuditEntry, right: AuditEntry) =>
    right.at - left.at || (left.id < right.id ? 1 : -1);
  return pages.flat().sort(newestFirst).slice(0, filter.limit);
}

/** If one store fails, the others still keep their facts. */
export function routedFacts<Tx>(members: Members<Tx>): FactSupport {
  const of = (tenant: string) => members.of(tenant).store;
  return {
    async keep(groups) {
      const byStore = [...Map.groupBy(groups, ({ key }) => of(key.tenant))];
      const ends = await Promise.allSettled(byStore.map(async ([store, those]) => store.facts?.keep(those)));
      for (const end of ends) if (end.status === "rejected") throw end.reason;
    },
    of: async (key, recordId) => (await of(key.tenant).facts?.of(key, recordId)) ?? [],
  };
}

export function routedTenantData<Tx>(members: Members<Tx>): TenantData {
  const of = (tenant: string) => {
    const { store } = members.of(tenant);
    if (store.tenantData !== undefined) return store.tenantData;
    throw missing(store as Store<never>, "way to delete a tenant");
  };
  return {
    sweep: async (sweep) => of(sweep.tenant).sweep(sweep),
    note: async (tenant, note) => of(tenant).note(tenant, note),
  };
}

export function routedEarly<Tx>(members: Members<Tx>): EarlySettlements {
  return {
    keep: async (key, guard, early) =>
      (await members.of(key.tenant).store.early?.keep(key, guard, early)) ?? false,
    of: async (key, recordId) => (await members.of(key.tenant).store.early?.of(key, recordId)) ?? [],
    async due(limit) {
      const lists = await members.reachable(async ({ early }) => (await early?.due(limit)) ?? []);
      return interleave(lists, limit);
    },
  };
}

export function routedMessages<Tx>(members: Members<Tx>): MessageSupport {
  const support = (store: Store<Tx>): MessageSupport => {
    if (store.messages === null) throw missing(store as Store<never>, "messages");
    return store.messages;
  };
  const home = (tenant: string | null) => (tenant === null ? members.first() : members.of(tenant));
  return {
    async find(digest, tenant) {
      if (tenant === undefined) {
        return members.find(
          (store) => support(store).find(digest),
          (tally) => tally !== null,
        );
      }
      const { store, guard } = home(tenant);
      return guard(() => support(store).find(digest, tenant));
    },
    count: async (facts, count, id) => support(home(facts.tenant).store).count(facts, count, id),
    async forget(digest, tenant) {
      if (tenant !== undefined) return support(home(tenant).store).forget(digest, tenant);
      await members.every((store) => support(store).forget(digest));
    },
    bury: async (facts, letter, judged) => support(home(facts.tenant).store).bury(facts, letter, judged),
    async list(filter) {
      if (filter.tenant !== null) return support(members.of(filter.tenant).store).list(filter);
      const pages = await members.every((store) => support(store).list(filter));
      return mergePages(pages, filter.limit, ({ diedAt, id }) => [diedAt, id]);
    },
    remove: (id, event, note) =>
      members.find(
        (store) => support(store).remove(id, event, note),
        (done) => done,
      ),
  };
}

/** The sums over all stores, each up to `countMax`. */
export function sumOverviews(all: readonly Overview[], countMax: number): Overview {
  const depth = (of: (one: Overview) => Depth | undefined): Depth => {
    const depths = all.map(of).filter((one) => one !== undefined);
    const count = depths.reduce((sum, one) => sum + one.count, 0);
    const times = depths.map(({ oldestAt }) => oldestAt).filter((at) => at !== null);
    return {
      count: Math.min(count, countMax),
      more: count > countMax || depths.some(({ more }) => more),
      oldestAt: times.length === 0 ? null : Math.min(...times),
    };
  };
  return {
    now: Math.max(...all.map(({ now }) => now)),
    records: {
      pending: depth(({ records }) => records.pending),
      inProgress: depth(({ records }) => records.inProgress),
      retryable: depth(({ records }) => records.retryable),
      unknown: depth(({ records }) => records.unknown),
    },
    overdueLeases: depth(({ overdueLeases }) => overdueLeases),
    effects: all.every(({ effects }) => effects === null)
      ? null
      : {
          pending: depth(({ effects }) => effects?.pending),
          claimed: depth(({ effects }) => effects?.claimed),
          dead: depth(({ effects }) => effects?.dead),
        },
    messages: all.every(({ messages }) => messages === null)
      ? null
      : { dead: depth(({ messages }) => messages?.dead) },
  };
}
