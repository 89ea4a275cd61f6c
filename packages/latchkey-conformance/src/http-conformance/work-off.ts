/** One round of a worker, run when a case calls it. */

import { type Latchkey, leaseRescuer } from "latchkey";
import { leaseTerms, runClaimed } from "latchkey/internal";

/** More than any case leaves behind. */
const roomFor = 10;

/** Runs what waits for a worker and resumes what is due; resolves when all of it has ended, with whatever result. */
export async function workOff<Tx>(latchkey: Latchkey<Tx>): Promise<void> {
  const { runtime } = latchkey;
  const { clock, random } = runtime.ports;
  const claimedAtMs = clock.monotonicMs();
  const deferred = [...runtime.operations.values()].filter(({ execution }) => execution === "deferred");
  const wants = deferred.map((operation) => ({
    operation: operation.name,
    tokens: Array.from({ length: roomFor }, () => random.token()),
    terms: leaseTerms(operation),
  }));
  const claimed = await runtime.store.claimPending(wants);
  // An error that the work throws has already been reported for its attempt.
  await Promise.allSettled(claimed.map((record) => runClaimed(runtime, record, claimedAtMs)));
  await leaseRescuer(latchkey).runOnce();
}
