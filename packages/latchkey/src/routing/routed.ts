/** Several stores as one, so that each tenant's records are in the database of its business rows. */
import { LatchkeyError, StoreError } from "../errors.ts";
import { overviewOf } from "../execution/overview.ts";
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type Ports, systemPorts } from "../ports.ts";
import type { HintSupport } from "../stores/hints.ts";
import type { Store } from "../stores/store.ts";
import { type EveryMember, wrapped } from "../stores/wrapped.ts";
import { type CircuitOptions, resolveCircuit } from "../time/circuit-breaker.ts";
import { countActiveKeys } from "./active-keys.ts";
import { capabilitiesOf, checkFits } from "./capabilities.ts";
import { clean, cleanAudit, routedArchival } from "./cleaning.ts";
import { Members } from "./members.ts";
import { ClaimedFrom, routedOutbox } from "./outbox.ts";
import {
  listAudit,
  routedEarly,
  routedFacts,
  routedJournal,
  routedMessages,
  routedSettlement,
  routedTenantData,
  routedTransactions,
  sumOverviews,
} from "./records.ts";
import { interleave, shareOut } from "./shares.ts";

export interface RoutedStoreOptions<Tx> {
  /**
   * Returns the store of a tenant: always the same one, because only that store knows its keys. It must be one of `stores`. If
   * this throws, the request fails with that error and nothing runs.
   */
  readonly route: (tenant: string) => Store<Tx>;
  /**
   * Returns all stores, at least one. Workers call this in each round, so the list may grow. The first store also carries the
   * hints between processes and the tallies of messages without a tenant: keep it first.
   */
  readonly stores: () => readonly Store<Tx>[];
  /** Shown in events and in the first line of `latchkey worker`. Default `routed`. */
  readonly name?: string;
  /**
   * When a store's requests are refused without calling it, as in `createLatchkey`; each store has its own circuit breaker.
   * `false`: stores are always called. Default: 5 failures in a row, 1 second.
   */
  readonly circuitBreaker?: CircuitOptions | false;
  /**
   * Called when a worker could not use one of the stores; it still serves the others. Must not throw. Default: a process warning
   * with the code `LATCHKEY_STORE_DOWN`.
   */
  readonly onError?: (error: unknown, store: Store<Tx>) => void;
  /** The process's clock. Default: the system clock. */
  readonly ports?: Pick<Ports, "clock">;
}

const optionNames = {
  route: true,
  stores: true,
  name: true,
  circuitBreaker: true,
  onError: true,
  ports: true,
} as const satisfies OptionNames<RoutedStoreOptions<unknown>>;

/**
 * Combines several stores into one, such as a database or a schema for each tenant. Requests, transactions and look-ups go to
 * the tenant's store; workers divide their capacity among all stores; lists and look-ups without a tenant read all stores.
 *
 * @throws {TypeError} when an option is out of range, or `stores` lists none or stores that do not fit together.
 */
export function routedStore<Tx>(options: RoutedStoreOptions<Tx>): Store<Tx> {
  checkOptions("routedStore", options, optionNames);
  checkPorts("routedStore", options.ports);
  for (const name of ["route", "stores"] as const) {
    if (typeof options[name] !== "function") throw new TypeError(`routedStore: ${name} must be a function`);
  }
  const stores = options.stores();
  if (!Array.isArray(stores) || stores.length === 0) {
    throw new TypeError("routedStore: stores() must list at least one store");
  }
  const capabilities = capabilitiesOf(stores);
  const members = new Members<Tx>({
    route: options.route,
    stores: options.stores,
    check: (store) => checkFits(store as Store<never>, capabilities),
    clock: (options.ports ?? systemPorts).clock,
    circuit: options.circuitBreaker === false ? null : resolveCircuit(options.circuitBreaker),
    onError: options.onError ?? warn,
  });
  return assemble(options.name ?? "routed", members, capabilities, stores);
}

function assemble<Tx>(
  name: string,
  members: Members<Tx>,
  capabilities: Store<Tx>["capabilities"],
  stores: readonly Store<Tx>[],
): Store<Tx> {
  const claimedFrom = new ClaimedFrom<Tx>();
  const of = (tenant: string) => members.of(tenant).store;
  /** For calls that begin new work. */
  const guarded = async <T>(tenant: string, ask: (store: Store<Tx>) => Promise<T>): Promise<T> => {
    const { store, guard } = members.of(tenant);
    return guard(() => ask(store));
  };
  return wrapped<Store<Tx>>({
    name,
    capabilities,
    ownCircuits: true,
    leasesRefused: stores.find(({ leasesRefused }) => leasesRefused !== undefined)?.leasesRefused,
    transactions: capabilities.transactions
      ? routedTransactions(members, capabilities.optimisticAdmission === true)
      : null,
    journal: routedJournal(members),
    settlement: routedSettlement(members),
    outbox: stores.every(({ outbox }) => outbox !== null) ? routedOutbox(members, claimedFrom) : null,
    messages: stores.every(({ messages }) => messages !== null) ? routedMessages(members) : null,
    hints: stores[0]?.hints === null ? null : hintsOfFirst(members),
    early: stores.every(({ early }) => early !== undefined) ? routedEarly(members) : undefined,
    finished: stores.some(({ finished }) => finished !== undefined)
      ? { look: async (key) => (await of(key.tenant).finished?.look(key)) ?? null }
      : undefined,
    keepsTraces: stores.every(({ keepsTraces }) => keepsTraces) ? true : undefined,
    ...whatAllKeep(members, stores),
    async overview(countMax) {
      return sumOverviews(await members.every((store) => overviewOf(store, countMax)), countMax);
    },
    async close() {
      await Promise.allSettled(members.all().map(async ({ store }) => store.close?.()));
    },
    async examine(request) {
      const found = members.all().map(async ({ store }, at) => {
        const place = `${at + 1} ${store.name}`;
        return ((await store.examine?.(request)) ?? []).map((finding) => ({ ...finding, place }));
      });
      return (await Promise.all(found)).flat();
    },
    verify: () => verifyAll(members),
    read: (key) => guarded(key.tenant, (store) => store.read(key)),
    readById: (tenant, id) =>
      tenant === null
        ? members.find(
            (store) => store.readById(null, id),
            ({ record }) => record !== null,
          )
        : guarded(tenant, (store) => store.readById(tenant, id)),
    create: (life, replaces, terms) => guarded(life.tenant, (store) => store.create(life, replaces, terms)),
    accept: (life, replaces, expiresAfterMs) =>
      guarded(life.tenant, (store) => store.accept(life, replaces, expiresAfterMs)),
    claimPending: (wants) => claimPending(members, wants),
    takeOver: async (key, ...rest) => of(key.tenant).takeOver(key, ...rest),
    renew: async (key, ...rest) => of(key.tenant).renew(key, ...rest),
    end: async (key, ...rest) => of(key.tenant).end(key, ...rest),
    giveUp: async (key, ...rest) => of(key.tenant).giveUp(key, ...rest),
    recordLostTransaction: async (life, ...rest) => of(life.tenant).recordLostTransaction(life, ...rest),
    async endedLeases(limit) {
      return interleave(await members.reachable((store) => store.endedLeases(limit)), limit);
    },
    clean: (limit) => clean(members, limit),
  });
}

type PartsOfAll<Tx> = Pick<
  Store<Tx>,
  "summaries" | "facts" | "archival" | "tenantData" | "cleanAudit" | "listAudit" | "countActiveKeys"
>;

/** Parts that serve no requests. One exists if every store has it; `cleanAudit` if any store does. */
function whatAllKeep<Tx>(members: Members<Tx>, stores: readonly Store<Tx>[]): EveryMember<PartsOfAll<Tx>> {
  const of = (tenant: string) => members.of(tenant).store;
  const allHave = (part: keyof PartsOfAll<Tx>) => stores.every((store) => store[part] !== undefined);
  return {
    summaries: allHave("summaries")
      ? { of: async (key, id) => (await of(key.tenant).summaries?.of(key, id)) ?? null }
      : undefined,
    facts: allHave("facts") ? routedFacts(members) : undefined,
    archival: allHave("archival") ? routedArchival(members) : undefined,
    tenantData: allHave("tenantData") ? routedTenantData(members) : undefined,
    cleanAudit: stores.some((store) => store.cleanAudit !== undefined)
      ? (keepMs, limit) => cleanAudit(members, keepMs, limit)
      : undefined,
    listAudit: allHave("listAudit") ? (filter) => listAudit(members, filter) : undefined,
    countActiveKeys: allHave("countActiveKeys")
      ? (tenants, countMax) => countActiveKeys(members, tenants, countMax)
      : undefined,
  };
}

async function claimPending<Tx>(
  members: Members<Tx>,
  wants: Parameters<Store<Tx>["claimPending"]>[0],
): ReturnType<Store<Tx>["claimPending"]> {
  /** Each token is for one record, in any of the stores. */
  const free = wants.map(({ tokens }) => [...tokens]);
  const limits = free.map(({ length }) => length);
  const pages = await shareOut(members, limits, async ({ store }, shares) => {
    const own = wants.flatMap((want, at) => {
      const tokens = free[at]?.splice(0, shares[at] ?? 0) ?? [];
      return tokens.length === 0 ? [] : [{ ...want, tokens }];
    });
    const records = await store.claimPending(own);
    const taken = new Set(records.map(({ fence }) => fence.token));
    const used = wants.map(({ operation }, at) => {
      const given = own.find((want) => want.operation === operation)?.tokens ?? [];
      const unused = given.filter((token) => !taken.has(token));
      free[at]?.push(...unused);
      return given.length - unused.length;
    });
    return { value: records, used };
  });
  return pages.flat();
}

/** Hints name no tenant, and one connection is enough for them. */
function hintsOfFirst<Tx>(members: Members<Tx>): HintSupport {
  return {
    send: (hint) => members.first().store.hints?.send(hint),
    async listen(onHint) {
      const { hints } = members.first().store;
      if (hints === null) throw new StoreError("not_sent", { message: "The first store has no hints" });
      return hints.listen(onHint);
    },
  };
}

/**
 * A store that is down is only reported, so that workers still serve the others. Any other problem, such as missing tables, is
 * an error.
 */
async function verifyAll<Tx>(members: Members<Tx>): Promise<void> {
  const failed = (error: unknown): unknown => {
    if (error instanceof LatchkeyError && !(error instanceof StoreError)) return error;
    throw error;
  };
  const found = await members.ask(members.all(), ({ store }) => store.verify().then(() => null, failed));
  for (const error of found.values()) if (error !== null) throw error;
}

function warn(error: unknown, { name }: Pick<Store<never>, "name">): void {
  process.emitWarning(`A store (${name}) of a routed store cannot be used now: ${String(error)}`, {
    type: "LatchkeyWarning",
    code: "LATCHKEY_STORE_DOWN",
  });
}
