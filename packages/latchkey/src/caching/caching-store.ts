/** A store that copies its finished records to the cache. Every method still calls the store's own. */
import type { RecordKey } from "../engine/record.ts";
import type { Reading } from "../stores/life.ts";
import type { Store } from "../stores/store.ts";
import type { TenantData } from "../stores/tenant-data.ts";
import type { TransactionOutcome, TransactionSupport } from "../stores/transactions.ts";
import type { FinishedCache, ReadFrom } from "./finished-cache.ts";

/** The methods that a cached store adds. */
export interface Cached {
  /**
   * Removes the copies of a key whose record you deleted from the store by hand. Pass key and scope as the store keeps them.
   * Copies in the memory of other processes stay for their `maxAgeMs`.
   *
   * @throws {Error} when the copy may still be in Redis
   */
  forget(key: RecordKey): Promise<void>;
  /** Reads a record and copies it if it is finished. Errors of Redis are not thrown. */
  warm(key: RecordKey): Promise<void>;
}

export function cachingStore<S extends Store<unknown>>(
  store: S,
  cache: FinishedCache,
  onError: (error: unknown) => void,
): S & Cached {
  /** Requests do not wait for the copy to be written. */
  const keep = (reading: Reading, from: ReadFrom) => {
    cache.keep(reading, from).catch(onError);
  };
  const readKeeping = async (key: RecordKey, wait: boolean) => {
    const from = await cache.begin(key);
    const reading = await store.read(key);
    if (wait) await cache.keep(reading, from);
    else keep(reading, from);
    return reading;
  };
  return {
    ...store,
    transactions: store.transactions === null ? null : keepingTransactions(store.transactions, cache, keep),
    finished: cache,
    settlement: {
      ...store.settlement,
      async hasten(key, guard, note) {
        // A copy carries the old expiry. If it cannot be removed, the record must not be changed.
        await cache.forget(key);
        const hastened = await store.settlement.hasten(key, guard, note);
        // Removes what this process read in between; in Redis the mark of the first call still keeps copies out.
        if (hastened) await cache.forget(key).catch(onError);
        return hastened;
      },
    },
    read: (key: RecordKey) => readKeeping(key, false),
    async warm(key: RecordKey) {
      await readKeeping(key, true);
    },
    forget: (key: RecordKey) => cache.forget(key),
    ...(store.tenantData === undefined ? {} : { tenantData: forgettingTenants(store.tenantData, cache) }),
  };
}

/** Removes copies before their records, so that a crash in between leaves none, and again afterwards. */
function forgettingTenants(data: TenantData, cache: FinishedCache): TenantData {
  const forget = async (keys: readonly RecordKey[]) => {
    for (const key of keys) await cache.forget(key);
  };
  return {
    note: (tenant, note) => data.note(tenant, note),
    async sweep(sweep) {
      const removes = sweep.remove !== null && sweep.part === "records";
      if (removes) await forget((await data.sweep({ ...sweep, remove: null })).keys);
      const page = await data.sweep(sweep);
      if (removes) await forget(page.keys);
      return page;
    },
  };
}

function keepingTransactions<Tx>(
  transactions: TransactionSupport<Tx>,
  cache: FinishedCache,
  keep: (reading: Reading, from: ReadFrom) => void,
): TransactionSupport<Tx> {
  /** Copies a reading only after a rollback; a store that replicates has confirmed the reading by then. */
  const keeping = async <T>(
    key: RecordKey,
    run: (see: (reading: Reading) => void) => Promise<TransactionOutcome<T>>,
  ): Promise<TransactionOutcome<T>> => {
    const from = await cache.begin(key);
    const seen: Reading[] = [];
    const outcome = await run((reading) => seen.push(reading));
    const last = seen.at(-1);
    if (outcome.kind === "rolled_back" && last !== undefined) keep(last, from);
    return outcome;
  };
  const { runOptimistic } = transactions;
  const optimistic: Pick<TransactionSupport<Tx>, "runOptimistic"> = runOptimistic === undefined
    ? {}
    : {
        runOptimistic: (request, admit, work) =>
          keeping(request.key, (see) => {
            const seeing: typeof admit = (seen) => {
              see(seen.reading);
              return admit(seen);
            };
            return runOptimistic(request, seeing, work);
          }),
      };
  return {
    ...transactions,
    ...optimistic,
    run: (request, work) =>
      keeping(request.key, (see) =>
        transactions.run(request, (open) => {
          see(open.reading);
          return work(open);
        }),
      ),
  };
}
