/**
 * Keeps a lease alive, and reports in time when it cannot. The process's monotonic clock only serves to stop early: it counts
 * from before a renewal was sent, so it always ends before the store's own clock does.
 */
import type { Fence, RecordKey } from "../../engine/record.ts";
import type { CancelTimer } from "../../ports.ts";
import type { Runtime } from "../runtime.ts";

/** Three renewals per lease: two in a row may fail. */
const renewalsPerLease = 3;
/** The owner stops when this share of the lease is left, so that nothing is running when another owner takes over. */
const marginShare = 1 / 6;

/** Monotonic time at which an owner whose lease ends at `ownedUntilMs` stops, and until which it may start. */
export function stopsAtMs(ownedUntilMs: number, leaseMs: number): number {
  return ownedUntilMs - leaseMs * marginShare;
}

export interface Heartbeat {
  /** Monotonic time until which the lease is certain to hold. */
  ownedUntilMs(): number;
  /** Stops the renewals. Calling it twice does nothing. */
  stop(): void;
}

export interface HeartbeatOptions {
  readonly key: RecordKey;
  readonly id: string;
  readonly fence: Fence;
  readonly leaseMs: number;
  /** Monotonic time until which the lease is certain to hold when the heartbeat starts. */
  readonly ownedUntilMs: number;
  /** Called once, when the lease is lost or can no longer be proven. */
  readonly onLost: () => void;
}

export function startHeartbeat<Tx>(runtime: Runtime<Tx>, options: HeartbeatOptions): Heartbeat {
  const { clock } = runtime.ports;
  const { leaseMs } = options;
  let stopped = false;
  let ownedUntilMs = options.ownedUntilMs;
  let cancelBeat: CancelTimer = () => {};
  let cancelDeadline: CancelTimer = () => {};

  const stop = () => {
    stopped = true;
    cancelBeat();
    cancelDeadline();
  };
  const lose = () => {
    if (stopped) return;
    stop();
    options.onLost();
  };
  const timerAt = (dueMs: number, task: () => void) =>
    clock.startTimer(Math.max(0, dueMs - clock.monotonicMs()), task, "background");
  /** The next beat counts from the same moment as the lease, or a slow store would leave no time for it. */
  const ownedUntil = (endsAtMs: number) => {
    ownedUntilMs = endsAtMs;
    cancelDeadline();
    cancelDeadline = timerAt(stopsAtMs(endsAtMs, leaseMs), lose);
    cancelBeat = timerAt(endsAtMs - leaseMs + leaseMs / renewalsPerLease, beat);
  };
  const ask = async () => runtime.store.renew(options.key, options.id, options.fence, leaseMs);
  const renew = async () => {
    const sentAtMs = clock.monotonicMs();
    const renewed = await ask().catch(() => null);
    if (stopped) return;
    if (renewed === false) return lose();
    if (renewed === true) return ownedUntil(sentAtMs + leaseMs);
    // An unconfirmed renewal is repeated sooner; the deadline decides when it is too late.
    cancelBeat = clock.startTimer(leaseMs / renewalsPerLease / 4, beat, "background");
  };

  const beat = () => {
    void renew();
  };
  ownedUntil(options.ownedUntilMs);
  return { ownedUntilMs: () => ownedUntilMs, stop };
}
