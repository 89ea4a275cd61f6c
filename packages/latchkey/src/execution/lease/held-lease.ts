/** The lease of a running attempt: who owns the record, for how long, and what stops at its end. */
import type { Fence, InProgressRecord } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import type { Journal, Owner } from "../../stores/journal.ts";
import { retryUntil } from "../../time/retry-until.ts";
import type { Runtime } from "../runtime.ts";
import { startHeartbeat, stopsAtMs } from "./heartbeat.ts";

export interface HeldLease {
  /** The record as admitted, with the current fence. */
  record(): InProgressRecord;
  owner(): Owner;
  /** Aborts when the lease is lost or the attempt's time limit is over. */
  readonly signal: AbortSignal;
  /** Aborts when the lease is lost. */
  readonly lost: AbortSignal;
  /** By the current clock: a process that was frozen knows before its timers fire. */
  holds(): boolean;
  abort(reason: Error): void;
  /** While true, a lost lease is not reported: a renewal may find the record already ended by this attempt. */
  setEnding(ending: boolean): void;
  /** The attempt ends: from now on a lost lease is not reported, whatever its last step does. */
  conclude(): void;
  /** The fence requested last: the current one, or that of a `refence` which is running or in doubt. */
  latestFence(): Fence;
  /** Whether a record with this token belongs to this attempt. */
  isOwnToken(token: string): boolean;
  /**
   * Takes the record under a new token, so that no write under the old one can take effect. Returns the journal as it then is;
   * null when the owner has lost or the attempt has ended.
   *
   * @throws {StoreError} when that could not be confirmed within `timeoutMs`.
   */
  refence(timeoutMs: number): Promise<Journal | null>;
  stop(): void;
}

export interface HeldLeaseOptions {
  readonly record: InProgressRecord;
  readonly leaseMs: number;
  /** Monotonic time until which the lease is certain to hold. */
  readonly ownedUntilMs: number;
  /** Called once, when the lease is lost before the attempt has begun to end. */
  readonly onLost: () => void;
}

export function holdLease<Tx>(runtime: Runtime<Tx>, options: HeldLeaseOptions): HeldLease {
  const { leaseMs } = options;
  const { clock, random } = runtime.ports;
  const abort = new AbortController();
  const lost = new AbortController();
  let record = options.record;
  let ending = false;
  let concluding = false;
  let stopped = false;
  const tokens = new Set([record.fence.token]);
  let latestToken = record.fence.token;
  const lose = () => {
    if (!ending && !concluding) options.onLost();
    const reason = new Error("The lease was lost");
    abort.abort(reason);
    lost.abort(reason);
  };
  const beat = (ownedUntilMs: number) =>
    startHeartbeat(runtime, {
      key: record,
      id: record.id,
      fence: record.fence,
      leaseMs,
      ownedUntilMs,
      onLost: lose,
    });
  let heartbeat = beat(options.ownedUntilMs);
  const owner = (): Owner => ({ key: record, id: record.id, fence: record.fence });
  return {
    record: () => record,
    owner,
    signal: abort.signal,
    lost: lost.signal,
    holds: () => !abort.signal.aborted && clock.monotonicMs() < stopsAtMs(heartbeat.ownedUntilMs(), leaseMs),
    abort: (reason) => abort.abort(reason),
    setEnding(value) {
      ending = value;
    },
    conclude() {
      concluding = true;
    },
    latestFence: () => ({ ...record.fence, token: latestToken }),
    isOwnToken: (token) => tokens.has(token),
    async refence(timeoutMs) {
      // A beat under the old token would mistake the new one for another owner's.
      heartbeat.stop();
      const token = random.token();
      tokens.add(token);
      latestToken = token;
      let sentAtMs = clock.monotonicMs();
      const made = await retryUntil(runtime.ports, { untilMs: sentAtMs + timeoutMs }, (leftMs) => {
        sentAtMs = clock.monotonicMs();
        return runtime.store.journal.refence(owner(), token, leaseMs, leftMs);
      });
      if (made.kind === "gave_up") throw new StoreError("in_doubt", { cause: made.error });
      if (made.value === null) return null;
      record = { ...record, fence: made.value.fence };
      // A step may outlive its attempt: a heartbeat that never stops would hold the key as long as the process lives.
      if (!stopped) heartbeat = beat(sentAtMs + leaseMs);
      return made.value.journal;
    },
    stop() {
      stopped = true;
      heartbeat.stop();
    },
  };
}
