/** What stands in where a request without a key is allowed to run. */
import type { Attempt, Submission } from "../attempt/attempt.ts";
import { createHandle } from "../attempt/handle.ts";
import type { Runtime } from "../attempt/runtime.ts";
import type { Operation } from "../operation.ts";
import type { Retention } from "../stores/store.ts";

/** An attempt of nothing: handlers find the same shape, and what they ask of it has no effect. */
export function standInAttempt<Tx>(runtime: Runtime<Tx>, operation: Operation): Attempt {
  const { clock, random } = runtime.ports;
  const id = random.uuid(clock.wallMs());
  const fence = { attempt: 1, token: random.token() };
  const nowhere = { tenant: "", scope: operation.name, key: "" };
  return createHandle({ ...nowhere, id, fence }, new AbortController().signal, operation.settings).attempt;
}

/**
 * A submission under a key that no client can send (a no-break space belongs to no key), whose record is to be forgotten
 * as soon as it is written.
 */
export function standInSubmission<Tx>(
  runtime: Runtime<Tx>,
  tenant: string,
  scope: string,
): { readonly submission: Submission; readonly forgetAtOnce: Retention } {
  return {
    submission: {
      key: { tenant, scope, key: `\u00a0${runtime.ports.random.token()}` },
      fingerprint: { version: 0, digest: new Uint8Array(32) },
      principal: null,
    },
    forgetAtOnce: { retentionMs: 1, forgetAfterMs: 1 },
  };
}
