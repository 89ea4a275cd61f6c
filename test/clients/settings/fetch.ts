import { setTimeout as pause } from "node:timers/promises";

/** Statuses after which the same request may be sent again. */
const transient = [408, 409, 425, 429, 500, 502, 503, 504];

/** `fetch` that sends the request up to `attempts` times, with the same key, because `init` stays the same. */
export async function fetchAgain(
  url: string,
  init: RequestInit,
  { attempts = 4, timeoutMs = 10_000 } = {},
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const backoffMs = 250 * 2 ** attempt;
    try {
      const response = await fetch(url, { ...init, signal: AbortSignal.timeout(timeoutMs) });
      if (attempt === attempts || !transient.includes(response.status)) return response;
      await response.body?.cancel();
      await pause(1_000 * Number(response.headers.get("Retry-After")) || backoffMs);
    } catch (error) {
      if (attempt === attempts) throw error;
      await pause(backoffMs);
    }
  }
}
