/** Stand-ins for requests that may run without a key. */

import { noKey } from "../key/hash-key.ts";
import type { Attempt, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { Retention } from "../stores/store.ts";
import { createHandle } from "./handle.ts";
import type { Runtime } from "./runtime.ts";

/** An attempt without a record: it has the usual shape, but its methods have no effect. */
export function nullAttempt<Tx>(runtime: Runtime<Tx>, operation: Operation): Attempt {
  const { clock, random } = runtime.ports;
  const id = random.uuid(clock.wallMs());
  const fence = { attempt: 1, token: random.token() };
  const nowhere = { tenant: "", scope: operation.name, key: "" };
  const { signal } = new AbortController();
  return createHandle({ ...nowhere, id, fence }, signal, operation.settings, null).attempt;
}

/**
 * A submission under a key that no client can send, whose record is forgotten as soon as it is written.
 */
export function keylessSubmission<Tx>(
  runtime: Runtime<Tx>,
  tenant: string,
  scope: string,
): { readonly submission: Submission; readonly forgetAtOnce: Retention } {
  return {
    submission: {
      key: { tenant, scope, key: `${noKey}${runtime.ports.random.token()}` },
      clientKey: null,
      fingerprint: { version: 0, digest: new Uint8Array(32) },
      principal: null,
    },
    forgetAtOnce: { retentionMs: 1, forgetAfterMs: 1 },
  };
}
