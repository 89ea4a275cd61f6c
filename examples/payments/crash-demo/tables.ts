/**
 * The contents of our own database, read while the app is not running: an embedded database belongs to one process at a time.
 */
import { type OpenDatabase, openDatabase } from "../database.ts";
import type { Purchase } from "./client.ts";

export interface OurTables {
  /** The record's state and steps; null: Latchkey has no record. */
  readonly record: string | null;
  readonly steps: readonly string[];
  /** Rows of the table `demo_charges` for the order. */
  readonly rows: readonly string[];
}

/** In the order of the purchases. */
export async function readTables(
  databaseUrl: string | undefined,
  folder: string,
  purchases: readonly Purchase[],
): Promise<readonly OurTables[]> {
  const database = await openDatabase(databaseUrl, folder);
  try {
    const read: OurTables[] = [];
    for (const purchase of purchases) read.push(await readOne(database, purchase));
    return read;
  } finally {
    await database.close();
  }
}

async function readOne({ store, query }: OpenDatabase, { order, key }: Purchase): Promise<OurTables> {
  const place = { tenant: "account-1", scope: "payments.charge", key };
  const { record } = await store.read(place);
  const journal = record === null ? null : await store.journal.read(place, record.id);
  const { rows } = await query(
    "select id, state, provider_charge from demo_charges where order_name = $1 order by id",
    [order],
  );
  return {
    record: record === null ? null : `${record.state}, attempt ${record.fence.attempt}`,
    steps: (journal?.steps ?? []).map((step) =>
      step.kind === "phase"
        ? `${step.name} is finished`
        : `${step.name} is ${step.state}, key ${short(step.downstreamKey)}, sent ${step.sends}×`,
    ),
    rows: rows.map(({ id, state, provider_charge: charge }) =>
      charge === null
        ? `row ${id} of demo_charges is ${state}`
        : `row ${id} of demo_charges is ${state} with ${charge}`,
    ),
  };
}

/** Enough of a key to distinguish it from others. */
export function short(key: string | null): string {
  return key === null ? "none" : `${key.slice(0, 11)}…`;
}
