/**
 * Optimistic admission: the handler starts at once, and its transaction opens, with the look-up, together with its first
 * statement. The commit is guarded as always; a handler that ran without being admitted is rolled back.
 */
import type { AdmissionRequest } from "../../engine/decide.ts";
import type { RecordKey } from "../../engine/record.ts";
import type {
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
} from "../../stores/transactions.ts";
import { type Admitted, admit, newLife, runningElsewhere } from "./admit.ts";
import type { Job, Ran, RoundState } from "./job.ts";
import { runHandler } from "./run-handler.ts";

type RunOptimistic<Tx> = NonNullable<TransactionSupport<Tx>["runOptimistic"]>;

/** For each latchkey: keys whose handlers run here before they are admitted, so that no duplicate in this process starts. */
const runningOf = new WeakMap<object, Set<string>>();

export async function runOptimistic<Tx>(
  job: Job<Tx>,
  begin: RunOptimistic<Tx>,
  transaction: TransactionRequest,
  request: AdmissionRequest,
  roundState: RoundState,
): Promise<TransactionOutcome<Ran>> {
  const running = runningOf.get(job.runtime) ?? new Set<string>();
  runningOf.set(job.runtime, running);
  const key = keyText(job.submission.key);
  if (running.has(key)) {
    return { kind: "rolled_back", value: runningElsewhere(null, job.runtime.ports.clock.wallMs()) };
  }
  running.add(key);
  try {
    return await runAlone(job, begin, transaction, request, roundState);
  } finally {
    running.delete(key);
  }
}

function keyText({ tenant, scope, key }: RecordKey): string {
  return JSON.stringify([tenant, scope, key]);
}

function runAlone<Tx>(
  job: Job<Tx>,
  begin: RunOptimistic<Tx>,
  transaction: TransactionRequest,
  request: AdmissionRequest,
  roundState: RoundState,
): Promise<TransactionOutcome<Ran>> {
  // The store's time is not known yet. Only the order of ids depends on it.
  const about = job.runtime.ports.clock.wallMs();
  const life = newLife(job, null, request.token, about);
  let admitted: Admitted | null = null;
  return begin<Ran>(
    transaction,
    async (seen) => {
      admitted = await admit(job, seen, request, (retried) => (retried === null ? life : null));
      if (admitted.kind === "runs") roundState.admitted = admitted.admittedLife;
      return admitted.kind === "runs";
    },
    (open) =>
      runHandler(job, open, life, about, {
        // An ordinary transaction meets and reports the error that prevented the opening.
        ensureDecided: () =>
          open.admitted().catch(() => {
            admitted = { kind: "ends", ran: { kind: "again" } };
          }),
        result: () => admitted,
      }),
  );
}
