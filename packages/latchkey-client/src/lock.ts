/**
 * One request at a time for an intent across tabs. The lock saves the server duplicates; it is not what prevents a second
 * effect: the tabs share the key. So if the lock cannot be acquired in time, the request is sent without it.
 */
import type { LockRequest } from "./lease.ts";
import type { Settings } from "./options.ts";
import { limited, pause, platform } from "./ports.ts";

type SendRequest = () => Promise<Response>;

export async function withLock(settings: Settings, about: LockRequest, send: SendRequest): Promise<Response> {
  const locks = platform.navigator?.locks;
  // Loaded on demand: nearly every browser has Web Locks.
  const lease = async () => (await import("./lease.ts")).withLease(settings, about, send, pause);
  if (locks === undefined) return lease();
  const waiting = limited(settings.ports.clock, settings.limitMs, about.signal);
  let isHeld = false;
  try {
    return await locks.request(`latchkey:${about.intent}`, waiting, () => {
      isHeld = true;
      waiting.cancel();
      return send();
    });
  } catch (error) {
    if (isHeld) throw error;
    about.signal.throwIfAborted();
    // Waited long enough, or in a sandboxed frame, where locks exist but may not be used.
    return lease();
  } finally {
    waiting.cancel();
  }
}
