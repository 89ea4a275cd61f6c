/**
 * The status resource: what became of a request that was answered 202, by the id of its record. It reads and changes
 * nothing. To everybody but the request's own caller there is no such record.
 *
 * Order of checks: tenant and principal, the id's form, the limit of look-ups, the record.
 */
import { askAgainMs, resultOf } from "../attempt/admission.ts";
import type { Result } from "../attempt/attempt.ts";
import type { Runtime } from "../attempt/runtime.ts";
import { isLatchkeyError } from "../errors.ts";
import type { Latchkey } from "../latchkey.ts";
import { overLimit } from "../resilience/limits.ts";
import { isStorable } from "../storable.ts";
import type { Reading } from "../stores/store.ts";
import { withoutFraming } from "./capture.ts";
import { type HttpOptions, resolveHttpOptions } from "./http-options.ts";
import type { Incoming } from "./incoming.ts";
import { type Answered, accepted, outcomeOf, problem, storeRetryAfterMs, withHeaders } from "./outcome.ts";
import { identify } from "./receive.ts";
import type { Style } from "./route.ts";
import { forEverybody } from "./serving.ts";
import { standingOf } from "./standing.ts";
import { policyUnder } from "./status-rules.ts";

/**
 * Answers a GET or HEAD of the status resource. The last segment of the path is the id.
 *
 * @throws {LatchkeyError} `tenant-missing`; what the codec throws for an answer that it cannot read. The framework's own
 * error handling answers then.
 */
export type AskStatus<R> = (request: R, incoming: Pick<Incoming, "method" | "target">) => Promise<Answered>;

/**
 * Makes the status resource of one adapter.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function createStatus<R, Tx>(latchkey: Latchkey<Tx>, options: HttpOptions<R>): AskStatus<R> {
  const { rules, identity } = resolveHttpOptions(options);
  const style = { policy: policyUnder(rules, latchkey.policy), rules };
  return async (request, { method, target }) => {
    const caller = await identify(identity, request);
    const { reply } = await ask(latchkey, style, caller, idIn(target));
    // Whatever the answer itself says: this address says something else tomorrow, and to others.
    const uncached = withHeaders(reply, [["Cache-Control", "no-store"]]);
    return { kind: "latchkey", reply: withoutFraming(method, uncached) };
  };
}

interface Caller {
  readonly tenant: string;
  readonly principal: string | null;
}

const idForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u;

/** Null where the last segment of the path is no record's id. */
function idIn(target: string): string | null {
  const path = target.split("?", 1)[0] ?? "";
  const id = path.slice(path.lastIndexOf("/") + 1);
  return idForm.test(id) ? id : null;
}

async function ask<Tx>(
  { runtime }: Latchkey<Tx>,
  style: Style,
  { tenant, principal }: Caller,
  id: string | null,
): Promise<Answered> {
  if (id === null || !isStorable(tenant)) return problem(style, "not-found");
  // Which operation it is of, and which key, is in the record.
  const about = () => runtime.about("*", { tenant, scope: "*", key: id });
  const { lookups } = runtime.limits;
  const waitMs =
    lookups === undefined
      ? null
      : await overLimit(lookups, tenant, (error) =>
          runtime.emit({ ...about(), type: "limiter_error", limit: "lookups", error }),
        );
  if (waitMs !== null) {
    runtime.emit({ ...about(), type: "too_many_keys", because: "lookups" });
    return problem(style, "too-many-keys", { retryAfterMs: waitMs });
  }
  try {
    const reading = await runtime.guard(() => runtime.store.readById(tenant, id));
    return await answerOf(runtime, style, principal, reading);
  } catch (error) {
    if (!isLatchkeyError(error) || error.code !== "store-unavailable") throw error;
    runtime.emit({ ...about(), type: "store_error", error });
    return problem(style, "store-unavailable", { retryAfterMs: storeRetryAfterMs });
  }
}

async function answerOf<Tx>(
  runtime: Runtime<Tx>,
  style: Style,
  principal: string | null,
  { record, now }: Reading,
): Promise<Answered> {
  const operation = record === null ? undefined : runtime.operations.get(record.operation);
  // A process that does not know the operation leaves it to those that do.
  const standing = standingOf(record, principal, now, operation?.execution !== "lease");
  switch (standing.kind) {
    case "absent":
      return problem(style, "not-found");
    case "waiting": {
      const { state, recordId, decision } = standing;
      return accepted(style.rules, { state, recordId, retryAfterMs: askAgainMs(decision, now) });
    }
    case "stopped": {
      const retryAfterMs = askAgainMs(standing.decision, now);
      return problem(style, "in-progress", { operationRef: standing.recordId, retryAfterMs, detail: goOn });
    }
    case "decided": {
      // None of these decisions executes anything.
      const result = (await resultOf(runtime, standing.decision, now)) as Told;
      if (result.kind !== "replay") return outcomeOf(style, result);
      return outcomeOf(style, { ...result, answer: forEverybody(style, result.answer) });
    }
    default:
      return standing satisfies never;
  }
}

type Told = Exclude<Result, { readonly kind: "executed" }>;

const goOn =
  "The last attempt ended early. What it had done is kept: send the same request again with its key, to go on with it.";
