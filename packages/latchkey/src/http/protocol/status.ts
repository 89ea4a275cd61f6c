/**
 * The status resource: the outcome of a request that was answered 202, by the id of its record. It changes nothing. Other
 * callers than the request's own get 404.
 *
 * Order of checks: tenant and principal, the id's form, the limit of look-ups, the record.
 */

import { isLatchkeyError } from "../../errors.ts";
import { askAgainMs, resultOf } from "../../execution/admission.ts";
import type { Runtime } from "../../execution/runtime.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { Result } from "../../operations/attempt.ts";
import { overLimit } from "../../operations/limits.ts";
import type { Reading } from "../../stores/life.ts";
import { isStorable } from "../../stores/storable.ts";
import { withoutFraming } from "./capture.ts";
import { type HttpOptions, resolveHttpOptions } from "./http-options.ts";
import type { Incoming } from "./incoming.ts";
import { type Answered, accepted, outcomeOf, problem, retryAfterStoreError, withHeaders } from "./outcome.ts";
import { identify } from "./receive.ts";
import { statusOf } from "./record-status.ts";
import type { ReplyRules } from "./route.ts";
import { withoutPrivateHeaders } from "./serving.ts";
import { policyUnder } from "./status-rules.ts";

/**
 * Answers a GET or HEAD request to the status resource. The last segment of the path is the id.
 *
 * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`; and the codec's errors for an answer that it cannot
 * decode. The framework's own error handling then answers.
 */
export type AskStatus<R> = (request: R, incoming: Pick<Incoming, "method" | "target">) => Promise<Answered>;

/**
 * Makes the status resource of one adapter.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function createStatus<R, Tx>(latchkey: Latchkey<Tx>, options: HttpOptions<R>): AskStatus<R> {
  const { rules, identity } = resolveHttpOptions(options);
  const replyRules = { policy: policyUnder(rules, latchkey.policy), rules };
  return async (request, { method, target }) => {
    const caller = await identify(latchkey.runtime.checkIdentity, identity, request);
    const { reply } = await ask(latchkey, replyRules, caller, idIn(target));
    // Replaces the answer's own value: this address answers differently later, and to other callers.
    const uncached = withHeaders(reply, [["Cache-Control", "no-store"]]);
    return { kind: "latchkey", reply: withoutFraming(method, uncached) };
  };
}

interface Caller {
  readonly tenant: string;
  readonly principal: string | null;
}

const idForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u;

/** Null if the last segment of the path does not have the form of an id. */
function idIn(target: string): string | null {
  const path = target.split("?", 1)[0] ?? "";
  const id = path.slice(path.lastIndexOf("/") + 1);
  return idForm.test(id) ? id : null;
}

async function ask<Tx>(
  { runtime }: Latchkey<Tx>,
  replyRules: ReplyRules,
  { tenant, principal }: Caller,
  id: string | null,
): Promise<Answered> {
  if (id === null || !isStorable(tenant)) return problem(replyRules, "not-found");
  // The operation and the key are not known before the record is read.
  const about = () => runtime.about("*", { tenant, scope: "*", key: id });
  const { lookups } = runtime.limits;
  const waitMs =
    lookups === undefined
      ? null
      : await overLimit(runtime.ports.clock, lookups, tenant, (error) =>
          runtime.emit({ ...about(), type: "limiter_error", limit: "lookups", error }),
        );
  if (waitMs !== null) {
    runtime.emit({ ...about(), type: "too_many_keys", because: "lookups" });
    return problem(replyRules, "too-many-keys", { retryAfterMs: waitMs });
  }
  try {
    const reading = await runtime.guard(() => runtime.store.readById(tenant, id));
    return await answerOf(runtime, replyRules, principal, reading);
  } catch (error) {
    if (!isLatchkeyError(error) || error.code !== "store-unavailable") throw error;
    runtime.emit({ ...about(), type: "store_error", error });
    return problem(replyRules, "store-unavailable", { retryAfterMs: retryAfterStoreError(error) });
  }
}

async function answerOf<Tx>(
  runtime: Runtime<Tx>,
  replyRules: ReplyRules,
  principal: string | null,
  { record, now }: Reading,
): Promise<Answered> {
  const operation = record === null ? undefined : runtime.operations.get(record.operation);
  // An operation that this process does not define may be resumed by a worker elsewhere.
  const status = statusOf(record, principal, now, operation?.execution !== "lease");
  switch (status.kind) {
    case "absent":
      return problem(replyRules, "not-found");
    case "waiting": {
      const { state, recordId, decision } = status;
      return accepted(replyRules.rules, { state, recordId, retryAfterMs: askAgainMs(decision, now) });
    }
    case "stopped": {
      const retryAfterMs = askAgainMs(status.decision, now);
      return problem(replyRules, "in-progress", {
        operationRef: status.recordId,
        retryAfterMs,
        detail: continueDetail,
      });
    }
    case "decided": {
      // None of these decisions runs a handler.
      const result = (await resultOf(runtime, status.decision, now)) as StatusResult;
      if (result.kind !== "replay") return outcomeOf(replyRules, result);
      return outcomeOf(replyRules, { ...result, answer: withoutPrivateHeaders(replyRules, result.answer) });
    }
    default:
      return status satisfies never;
  }
}

type StatusResult = Exclude<Result, { readonly kind: "executed" }>;

const continueDetail =
  "The last attempt ended early. Its finished work is kept: send the same request again with its key to continue it.";
