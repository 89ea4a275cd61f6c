/** A worker's part, once: in the cases it comes exactly when it is called. */

import { type Latchkey, leaseRescuer } from "latchkey";
import { leaseTerms, runClaimed } from "latchkey/internal";

/** More than any case leaves. */
const roomFor = 10;

/** Runs what waits for a worker and goes on with what is due; fulfils when all of it has ended, however. */
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
  // What work throws has been reported as its attempt's.
  await Promise.allSettled(claimed.map((record) => runClaimed(runtime, record, claimedAtMs)));
  await leaseRescuer(latchkey).runOnce();
}
