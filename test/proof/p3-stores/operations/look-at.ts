/** The end of a sequence of operations, on one store. */
import { guardOf } from "../../../../packages/latchkey/src/engine/record.ts";
import type { Subject } from "../bench.ts";
import { states } from "../calls/dump.ts";

/** Without what each process has drawn by itself. */
export async function lookAt({ store, rows }: Subject) {
  const page = { tenant: null, limit: 1_000, after: null };
  const records = (
    await Promise.all(states.map((state) => store.settlement.list({ ...page, operation: null, state })))
  ).flat();
  const details = await Promise.all(
    records.map(async (record) => ({
      ...record,
      id: null,
      fence: guardOf(record).fence.attempt,
      steps: (await store.journal.read(record, record.id))?.steps.map((step) => ({
        ...step,
        downstreamKey: null,
      })),
      audit: (await store.settlement.audit(record)).map((entry) => ({
        ...entry,
        id: null,
        recordId: null,
        effectId: null,
      })),
      effects: (await store.outbox?.ofRecord(record.id))?.map((effect) => ({
        ...effect,
        id: null,
        recordId: null,
        fence: effect.fence.attempt,
        downstreamKey: null,
      })),
    })),
  );
  const place = ({ tenant, scope, key }: (typeof details)[number]) => `${scope} ${tenant} ${key}`;
  return {
    records: details.toSorted((left, right) => (place(left) < place(right) ? -1 : 1)),
    rows: (await rows()).toSorted(),
  };
}
