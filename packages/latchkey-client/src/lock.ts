/**
 * One flight for an intent across tabs. The lock spares the server duplicates; it is not what keeps the effect single:
 * the tabs share the key. So where it cannot be had in time, the request is sent without it.
 */
import type { LockRequest } from "./lease.ts";
import type { Settings } from "./options.ts";
import { limited, pause, platform } from "./ports.ts";

type Flight = () => Promise<Response>;

export async function withLock(settings: Settings, about: LockRequest, flight: Flight): Promise<Response> {
  const locks = platform.navigator?.locks;
  // Loaded where it is needed: nearly every browser has Web Locks.
  const lease = async () => (await import("./lease.ts")).withLease(settings, about, flight, pause);
  if (locks === undefined) return lease();
  const waiting = limited(settings.ports.clock, settings.limitMs, about.signal);
  let isHeld = false;
  try {
    return await locks.request(`latchkey:${about.intent}`, waiting, () => {
      isHeld = true;
      waiting.cancel();
      return flight();
    });
  } catch (error) {
    if (isHeld) throw error;
    about.signal.throwIfAborted();
    // Waited long enough, or in a sandboxed frame, which has locks and may not use them.
    return lease();
  } finally {
    waiting.cancel();
  }
}
