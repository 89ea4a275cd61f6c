/** The store's part in the background services: deferred work, and expiry. */
import type { InProgressRecord } from "../../engine/record.ts";
import type { CleanReport, PendingWant } from "../store.ts";
import { termsArguments } from "./arguments.ts";
import { collect, prefixes } from "./index-ranges.ts";
import { runningOf, writtenOf } from "./records.ts";
import type { Runner } from "./runner.ts";
import { recordScripts } from "./scripts/records.ts";

export async function claimPending(
  runner: Runner,
  wants: readonly PendingWant[],
): Promise<readonly InProgressRecord[]> {
  const claims = await Promise.allSettled(wants.map((want) => claimOf(runner, want)));
  const claimed = claims.flatMap((claim) => (claim.status === "fulfilled" ? claim.value : []));
  const failed = claims.find((claim) => claim.status === "rejected");
  if (failed !== undefined && claimed.length === 0) throw failed.reason;
  return claimed;
}

function claimOf(runner: Runner, { operation, tokens, terms }: PendingWant) {
  const free = [...tokens];
  const search = { prefixes: [prefixes.pending(operation)], due: false, live: true, limit: tokens.length };
  return collect(runner, search, async ({ location }): Promise<InProgressRecord | null> => {
    const token = free.shift();
    if (token === undefined) return null;
    const args = [operation, token, ...termsArguments(terms)];
    const claimed = runningOf(writtenOf(await runner.on(location, recordScripts.claimPending, args)));
    // After an error the token may own a record, so only tokens of calls that claimed nothing are used again.
    if (claimed === null) free.push(token);
    return claimed;
  });
}

export async function clean(runner: Runner, limit: number): Promise<CleanReport> {
  const take = async (kind: "abandon" | "purge" | "forget", prefix: string): Promise<number> => {
    const search = { prefixes: [prefix], due: true, limit };
    const taken = await collect(runner, search, ({ location }) =>
      runner.on(location, recordScripts.clean, [kind]),
    );
    return taken.length;
  };
  const abandoned = await take("abandon", prefixes.pendingPastExpiry);
  const purged = await take("purge", prefixes.finished);
  const forgotten = await take("forget", prefixes.expired);
  return { abandoned, purged, forgotten, effects: 0, messages: 0 };
}
