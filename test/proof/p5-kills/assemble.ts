/** Latchkey as a process here uses it: over a pool, with the clock of its lane, and the works defined. */
import type pg from "pg";
import {
  createLatchkey,
  type EventListener,
  effectDispatcher,
  type Latchkey,
  leaseRescuer,
  outcomeReconciler,
  recordCleaner,
} from "../../../packages/latchkey/src/index.ts";
import { type PostgresStore, postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import { createPendingWork } from "../../../packages/latchkey/src/workers/pending-work.ts";
import { plantedStore } from "./plants.ts";
import { defineWorks, type Surroundings, type Works } from "./work.ts";

export const serviceNames = ["rescuer", "reconciler", "pending", "dispatcher", "cleaner"] as const;
export type ServiceName = (typeof serviceNames)[number];

type Tx = ReturnType<typeof openStore> extends PostgresStore<infer T> ? T : never;

export interface Assembled {
  readonly latchkey: Latchkey<Tx>;
  readonly works: Works;
  /** One round of a service, to its end. */
  work(service: ServiceName): Promise<unknown>;
}

/** How often the other side is asked about one record before it is left to a person. */
const triesMax = 3;

function openStore(pool: pg.Pool) {
  return postgresStore({ pool, timeFunction: "public.proof_clock()" });
}

/**
 * @param around the works' surroundings
 * @param wrap what is between Latchkey and the store
 */
export function assemble(
  pool: pg.Pool,
  around: Surroundings,
  onEvent: EventListener,
  wrap: (store: Store<Tx>) => Store<Tx> = (store) => store,
): Assembled & { close(): Promise<void> } {
  const inner = openStore(pool);
  const latchkey = createLatchkey({ store: plantedStore(wrap(inner), around.plant), onEvent, strict: true });
  const works = defineWorks(latchkey, around);
  const services: Readonly<Record<ServiceName, { runOnce(): Promise<unknown> }>> = {
    rescuer: leaseRescuer(latchkey),
    reconciler: outcomeReconciler(latchkey, { triesMax }),
    // Room for every operation in each round.
    pending: createPendingWork(latchkey.runtime, { intervalMs: 1_000, concurrency: 50 }),
    dispatcher: effectDispatcher(latchkey),
    cleaner: recordCleaner(latchkey),
  };
  return {
    latchkey,
    works,
    work: (service) => services[service].runOnce(),
    close: () => inner.close(),
  };
}
