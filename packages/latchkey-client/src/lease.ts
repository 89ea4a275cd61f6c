/**
 * One request at a time for an intent across tabs on platforms without Web Locks: by a lease in the record. The tab that
 * holds it renews it; a tab that died loses it.
 */
import type { Settings } from "./options.ts";
import type { Clock } from "./ports.ts";

export interface LockRequest {
  readonly intent: string;
  readonly key: string;
  readonly signal: AbortSignal;
}

const leaseMs = 10_000;

/** @param pause from `ports.ts`, which bundlers would otherwise remove from the main file */
export async function withLease(
  settings: Settings,
  about: LockRequest,
  send: () => Promise<Response>,
  pause: (clock: Clock, delayMs: number, signal: AbortSignal) => Promise<void>,
): Promise<Response> {
  const { clock, random } = settings.ports;
  const owner = settings.newKey();
  const deadline = clock.monotonicMs() + settings.limitMs;
  // If the storage has failed meanwhile, the key is still stored.
  while (!(await takeLease(settings, about, owner).catch(() => true))) {
    if (clock.monotonicMs() >= deadline) return send();
    await pause(clock, 100 + 100 * random.fraction(), about.signal);
  }
  let isOver = false;
  let cancel = () => {};
  const renewLater = () => {
    if (isOver) return;
    cancel = clock.startTimer(leaseMs / 3, () => {
      void takeLease(settings, about, owner).then(renewLater, renewLater);
    });
  };
  renewLater();
  try {
    return await send();
  } finally {
    isOver = true;
    cancel();
    await dropLease(settings, about, owner);
  }
}

async function takeLease(
  { storage, ports: { clock } }: Settings,
  { intent, key }: LockRequest,
  owner: string,
): Promise<boolean> {
  let isMine = true;
  await storage.update(intent, (stored) => {
    isMine = true;
    if (stored?.key !== key) return stored;
    const now = clock.wallMs();
    const { lease } = stored;
    // A lease that ends later than possible was written by a wrong clock.
    isMine =
      lease === undefined || lease.owner === owner || lease.until <= now || lease.until > now + leaseMs;
    return isMine ? { ...stored, lease: { owner, until: now + leaseMs } } : stored;
  });
  return isMine;
}

async function dropLease({ storage }: Settings, { intent }: LockRequest, owner: string): Promise<void> {
  await storage
    .update(intent, (stored) => {
      if (stored?.lease?.owner !== owner) return stored;
      const { lease: _, ...rest } = stored;
      return rest;
    })
    // The lease ends on its own.
    .catch(() => {});
}
