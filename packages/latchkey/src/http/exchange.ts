/**
 * The HTTP protocol, once for all frameworks. An adapter tells it what arrived, lends it a way to run the handler and
 * capture its answer, and sends what it gets back; everything that is decided is decided here.
 *
 * Order of checks: tenant and principal, key, age, body within its cap, fingerprint, admission. Nothing is stored before
 * admission, so a request that is refused earlier may be sent again with the same key.
 */
import type { Answer } from "../attempt/answer.ts";
import type { Attempt, HandlerContext, Result } from "../attempt/attempt.ts";
import { scopeOf } from "../attempt/run-function.ts";
import type { Execution } from "../engine/classify.ts";
import type { Fingerprint, RecordKey } from "../engine/record.ts";
import { isLatchkeyError, LatchkeyError, StoreError } from "../errors.ts";
import { fingerprint } from "../fingerprint/fingerprint.ts";
import { parseKey } from "../key/parse-key.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import type { Policy, ProblemCode } from "../policies/policy.ts";
import { type HeaderEntry, type Reply, storedForm, tombstoneHeaders, withoutFraming } from "./capture.ts";
import { formatHttpDate } from "./http-date.ts";
import {
  type HttpOptions,
  type HttpRules,
  type Identity,
  type RouteOptions,
  resolveHttpOptions,
  withOverrides,
} from "./http-options.ts";
import type { BodyReading, Incoming } from "./incoming.ts";
import { type Occurrence, problemReply, shouldRetryHeaders } from "./problem.ts";
import { checkAgainstMemory, judgeAge } from "./request-age.ts";
import { parsedForm, rawForm } from "./request-body.ts";
import { standInAttempt, standInSubmission } from "./unprotected.ts";

/** Thrown by an adapter whose framework has answered already, where the whole transaction would have to run again. */
export class CannotRunAgain extends StoreError {}

/** Runs the handler once, on a clean response, and captures its answer. `report` takes errors that change nothing. */
export type HttpWork<Tx, E extends Execution> = (
  context: HandlerContext<Tx, E>,
  report: (error: unknown) => void,
) => Promise<Reply>;

export type Outcome =
  /** Send the handler's own answer, with all its headers. */
  | { readonly kind: "handler"; readonly reply: Reply }
  /** Send this; headers that the framework has prepared for this request stay, unless the reply has the same. */
  | { readonly kind: "latchkey"; readonly reply: Reply }
  /** Add the headers and let the handler answer as if Latchkey were not there. Never for operations with `tx`. */
  | { readonly kind: "pass"; readonly attempt: Attempt; readonly headers: readonly HeaderEntry[] };

/**
 * Submits a request.
 *
 * @throws {LatchkeyError} `tenant-missing`, `body-consumed` and what `Latchkey.execute` throws except for an unavailable
 * store, and whatever the handler throws. The framework's own error handling answers then.
 */
export type Submit<R, Tx, E extends Execution> = (
  request: R,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
) => Promise<Outcome>;

export interface Exchange<R, Tx> {
  /** One protected route. */
  route<E extends Execution>(operation: Operation<E>, overrides?: RouteOptions<R>): Submit<R, Tx, E>;
  /** A mount over many routes: requests with other methods than `methods` pass. */
  mount<E extends Execution>(operation: Operation<E>, overrides?: RouteOptions<R>): Submit<R, Tx, E>;
}

/**
 * Makes the exchange of one adapter.
 *
 * @throws {TypeError} when an option is missing or out of range; `route` and `mount` throw the same for theirs.
 */
export function createExchange<R, Tx>(latchkey: Latchkey<Tx>, options: HttpOptions<R>): Exchange<R, Tx> {
  resolveHttpOptions(options);
  const resolve = <E extends Execution>(operation: Operation<E>, overrides?: RouteOptions<R>) => {
    const { rules, identity } = resolveHttpOptions(withOverrides(options, overrides));
    const { requestAge } = rules;
    const { forgetAfterMs } = operation.settings;
    if (requestAge !== null) checkAgainstMemory(requestAge, operation.name, forgetAfterMs);
    return { identity, route: { latchkey, policy: latchkey.policy, operation, rules } };
  };
  return {
    route(operation, overrides) {
      const { route, identity } = resolve(operation, overrides);
      return (request, incoming, work) => submit(route, identity, request, incoming, work);
    },
    mount(operation, overrides) {
      const { route, identity } = resolve(operation, overrides);
      return async (request, incoming, work) =>
        route.rules.methods.has(incoming.method)
          ? submit(route, identity, request, incoming, work)
          : uncovered(route, incoming);
    },
  };
}

interface Route<Tx, E extends Execution> {
  readonly latchkey: Latchkey<Tx>;
  readonly policy: Policy;
  readonly operation: Operation<E>;
  readonly rules: HttpRules;
}

/** The part of a route that answers without running anything. */
type Desk = Pick<Route<never, Execution>, "policy" | "operation" | "rules">;

interface HttpSubmission {
  readonly key: RecordKey;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
}

function uncovered<Tx, E extends Execution>(route: Route<Tx, E>, incoming: Incoming): Outcome {
  const { markIgnored, header } = route.rules;
  const ignored = markIgnored && incoming.header(header).lines.length > 0;
  return {
    kind: "pass",
    attempt: standInAttempt(route.latchkey.runtime, route.operation),
    headers: ignored ? [["Idempotency-Status", "ignored"]] : [],
  };
}

async function submit<R, Tx, E extends Execution>(
  route: Route<Tx, E>,
  identity: Identity<R>,
  request: R,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Promise<Outcome> {
  const tenant = await tenantOf(identity, request);
  const principal = await principalOf(identity, request);
  const reading = readKey(route, incoming);
  if (reading.kind === "refused") return reading.outcome;
  const refusal = reading.kind === "present" ? refuseAge(route, incoming) : null;
  if (refusal !== null) return refusal;
  const body = await incoming.readBody(route.rules.bodyLimitBytes);
  if (body.kind === "too-large") return problem(route, "payload-too-large");
  if (reading.kind === "absent") return runUnprotected(route, tenant, incoming, work);
  const key = { tenant, scope: scopeOf(route.operation), key: reading.key };
  const submission = { key, fingerprint: fingerprintOf(route, incoming, body), principal };
  return perform(route, submission, incoming, work);
}

async function tenantOf<R>(identity: Identity<R>, request: R): Promise<string> {
  let tenant: unknown;
  try {
    tenant = await identity.tenant(request);
  } catch (cause) {
    throw new LatchkeyError("tenant-missing", { cause });
  }
  if (typeof tenant !== "string" || tenant === "") throw new LatchkeyError("tenant-missing");
  return tenant;
}

async function principalOf<R>(identity: Identity<R>, request: R): Promise<string | null> {
  const principal: unknown = (await identity.principal(request)) ?? null;
  if (principal === null || (typeof principal === "string" && principal !== "")) return principal;
  throw new TypeError("`principal` must return a non-empty string, null or undefined");
}

type KeyReading =
  | { readonly kind: "present"; readonly key: string }
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly outcome: Outcome };

/** A malformed key is refused even where none is needed: its sender counts on being protected. */
function readKey(desk: Desk, incoming: Incoming): KeyReading {
  const { rules, operation } = desk;
  const { lines, joined } = incoming.header(rules.header);
  const parsed = parseKey(lines, { ...rules.key, joined });
  if (parsed.ok) return { kind: "present", key: parsed.key };
  const { detail } = parsed;
  if (parsed.reason === "invalid")
    return { kind: "refused", outcome: problem(desk, "invalid-key", { detail }) };
  if (operation.settings.key === "optional") return { kind: "absent" };
  const wanted = `This operation needs the header ${rules.header}, with a value that is new for every new request.`;
  return { kind: "refused", outcome: problem(desk, "missing-key", { detail: wanted }) };
}

/** Null: the request is young enough, or does not have to say. */
function refuseAge<Tx, E extends Execution>(route: Route<Tx, E>, incoming: Incoming): Outcome | null {
  const { requestAge } = route.rules;
  if (requestAge === null) return null;
  const now = route.latchkey.runtime.ports.clock.wallMs();
  const verdict = judgeAge(requestAge, incoming.header(requestAge.header), now);
  if (verdict !== "invalid-request-date") return verdict === null ? null : problem(route, verdict);
  const detail =
    `The header ${requestAge.header} must say once when the request was first sent, as an HTTP date that is not ` +
    `in the future: Sun, 06 Nov 1994 08:49:37 GMT.`;
  return problem(route, verdict, { detail });
}

function fingerprintOf(desk: Desk, incoming: Incoming, body: BodyReading): Fingerprint {
  const options = desk.rules.fingerprint;
  const { target } = incoming;
  const mediaType = incoming.header("content-type").lines[0] ?? null;
  const queryAt = target.indexOf("?");
  return fingerprint(
    {
      operation: desk.operation.name,
      method: incoming.method,
      path: queryAt < 0 ? target : target.slice(0, queryAt),
      query: queryAt < 0 ? "" : target.slice(queryAt + 1),
      mediaType,
      headers: options.headers.flatMap((name) =>
        incoming.header(name).lines.map((value) => [name, value] as const),
      ),
      body: options.body === "parsed" ? { parsed: parsedForm(body, mediaType) } : rawForm(body),
    },
    options,
  );
}

/** Without a key there is nothing to look up. An operation that promises `tx` gets a key that nobody can send again. */
async function runUnprotected<Tx, E extends Execution>(
  route: Route<Tx, E>,
  tenant: string,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Promise<Outcome> {
  const { runtime } = route.latchkey;
  if (route.operation.execution === "lease") {
    return { kind: "pass", attempt: standInAttempt(runtime, route.operation), headers: [] };
  }
  const { submission, forgetAtOnce } = standInSubmission(runtime, tenant, scopeOf(route.operation));
  // Its answer is never replayed, so there is no time until when it could be.
  const unmarked = { ...route, rules: { ...route.rules, expiresHeader: false } } as const;
  return perform(unmarked, submission, incoming, (context, report) => {
    context.attempt.retain(forgetAtOnce);
    return work(context, report);
  });
}

async function perform<Tx, E extends Execution>(
  route: Route<Tx, E>,
  submission: HttpSubmission,
  incoming: Incoming,
  work: HttpWork<Tx, E>,
): Promise<Outcome> {
  const { latchkey, operation, rules } = route;
  const about = latchkey.runtime.about(operation.name, submission.key);
  // Each answer finds its own reply: a handler that was given up may finish after the one that replaced it.
  const replies = new WeakMap<Answer, Reply>();
  const thrown = new WeakSet<object>();
  try {
    const result = await latchkey.execute(operation, submission, async (context) => {
      const recordId = context.attempt.id;
      const report = (error: unknown) =>
        latchkey.runtime.emit({ ...about, type: "attempt_failed", recordId, error });
      const reply = await work(context, report).then(
        (captured) => withoutFraming(incoming.method, captured),
        (error: unknown) => {
          if (error instanceof Error && !(error instanceof CannotRunAgain)) thrown.add(error);
          throw error;
        },
      );
      const answer = storedForm(reply, rules.storedHeaders);
      replies.set(answer, reply);
      return answer;
    });
    if (result.kind !== "executed") return outcomeOf(route, result);
    const reply = replies.get(result.answer) ?? result.answer;
    return { kind: "handler", reply: withExpiry(rules, reply, result.expiresAt) };
  } catch (error) {
    // A handler's own trouble with some store says nothing about this request's record.
    if (!isLatchkeyError(error) || thrown.has(error) || error.code !== "store-unavailable") throw error;
    // Whatever is in doubt about a call to the store: no handler ran, or all it did was rolled back.
    latchkey.runtime.emit({ ...about, type: "store_error", error });
    return problem(route, "store-unavailable", { retryAfterMs: storeRetryAfterMs });
  }
}

const storeRetryAfterMs = 1_000;

function outcomeOf(desk: Desk, result: Exclude<Result, { readonly kind: "executed" }>): Outcome {
  switch (result.kind) {
    case "replay":
      return {
        kind: "latchkey",
        reply: withExpiry(desk.rules, replayOf(desk, result.answer), result.expiresAt),
      };
    case "timeout":
      return problem(desk, "timeout", { operationRef: result.recordId });
    case "in_progress":
      return problem(desk, "in-progress", {
        operationRef: result.recordId,
        retryAfterMs: result.retryAfterMs,
      });
    case "key_misuse":
      return problem(desk, "key-misuse");
    case "unknown":
      return problem(desk, "outcome-unknown", {
        operationRef: result.recordId,
        retryAfterMs: result.retryAfterMs,
      });
    case "expired":
      return problem(desk, "expired");
    case "too_many_keys":
      return problem(desk, "too-many-keys", { retryAfterMs: result.retryAfterMs });
    case "commit_in_doubt":
      return problem(desk, "commit-in-doubt", { retryAfterMs: result.retryAfterMs });
    default:
      return result satisfies never;
  }
}

function replayOf({ rules, policy }: Desk, answer: Answer): Reply {
  const marker: HeaderEntry = [rules.replayHeader, "true"];
  if (answer.omitted === null) {
    return { status: answer.status, headers: [...answer.headers, marker], body: answer.body };
  }
  return {
    status: answer.status,
    headers: [
      ...tombstoneHeaders(answer.headers),
      marker,
      ["Idempotency-Status", "answer-not-stored"],
      ...(policy.shouldRetryHeaders ? shouldRetryHeaders(false) : []),
    ],
    body: new Uint8Array(0),
  };
}

/** Says until when an answer is kept; nothing where that is not known, or the answer is not kept. */
function withExpiry(rules: HttpRules, reply: Reply, expiresAt: number | null): Reply {
  const { expiresHeader } = rules;
  if (expiresHeader === false || expiresAt === null) return reply;
  const others = reply.headers.filter(([name]) => name.toLowerCase() !== expiresHeader.toLowerCase());
  return { ...reply, headers: [...others, [expiresHeader, formatHttpDate(expiresAt)]] };
}

function problem(desk: Desk, code: ProblemCode, occurrence: Occurrence = {}): Outcome {
  return { kind: "latchkey", reply: problemReply(code, occurrence, desk.policy, desk.rules) };
}
