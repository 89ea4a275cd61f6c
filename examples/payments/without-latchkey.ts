/** For comparison: the same work as `POST /charges`, in steps that are not stored. */
import { randomUUID } from "node:crypto";
import type { ChargeInput, Steps } from "./charges.ts";
import type { Database } from "./database.ts";

const timeoutMs = 30_000;

export function withoutLatchkey<A>(
  query: Database["query"],
  work: (input: ChargeInput, attempt: Steps) => Promise<A>,
): (input: ChargeInput) => Promise<A> {
  const steps: Steps = {
    phase: (_name, local) => local({ query }),
    // A retry could only find a key that was stored beforehand; nothing does that here.
    call: (_name, { settings }, input) =>
      settings.execute(input, { key: randomUUID(), signal: AbortSignal.timeout(timeoutMs) }),
    finish: (_name, local) => local({ query }),
  };
  return (input) => work(input, steps);
}
