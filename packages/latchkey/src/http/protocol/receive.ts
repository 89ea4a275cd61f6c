/** Everything that is read and checked before admission. */

import type { Execution } from "../../engine/classify.ts";
import type { Fingerprint, RecordKey } from "../../engine/record.ts";
import { LatchkeyError } from "../../errors.ts";
import type { CheckIdentity } from "../../execution/check-sent.ts";
import { originForm, scopeOf, scopePath } from "../../execution/scope.ts";
import { FINGERPRINT_VERSION, fingerprint } from "../../fingerprint/fingerprint.ts";
import { parseKey } from "../../key/parse-key.ts";
import type { Result } from "../../operations/attempt.ts";
import { type RequestSummary, type SummaryParts, summaryOf } from "../../operations/summary.ts";
import type { Identity } from "./http-options.ts";
import type { BodyReading, Incoming } from "./incoming.ts";
import { type Answered, problem } from "./outcome.ts";
import { judgeAge } from "./request-age.ts";
import { parsedForm, rawForm, refuseValue } from "./request-body.ts";
import type { Route, RouteContext } from "./route.ts";

export interface HttpSubmission {
  readonly key: RecordKey;
  readonly fingerprint: Fingerprint;
  /** The fingerprint by the previous algorithm, for records that were made with it. Absent: it is the same. */
  readonly earlier?: () => Fingerprint;
  readonly principal: string | null;
  /** Whether a duplicate may be redirected to the status resource. */
  readonly addressable?: boolean;
  readonly summarize?: () => RequestSummary;
}

export type Received =
  | { readonly kind: "refused"; readonly outcome: Answered }
  | { readonly kind: "keyless"; readonly tenant: string; readonly principal: string | null }
  | { readonly kind: "keyed"; readonly submission: HttpSubmission };

interface Sender {
  readonly tenant: string;
  readonly principal: string | null;
}

/**
 * Determines the tenant and the principal of a request.
 *
 * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`.
 */
export async function identify<R>(check: CheckIdentity, identity: Identity<R>, request: R): Promise<Sender> {
  const tenant = checkTenant(check, await tenantOf(identity, request));
  return { tenant, principal: checkPrincipal(check, await identity.principal?.(request)) };
}

/** The tenant function's result, or a promise of it. Its errors become `tenant-missing`. */
function tenantOf<R>(identity: Identity<R>, request: R): unknown {
  const missing = (cause: unknown) => new LatchkeyError("tenant-missing", { cause });
  try {
    const tenant: unknown = identity.tenant(request);
    if (!isPromise(tenant)) return tenant;
    return Promise.resolve(tenant).catch((cause) => Promise.reject(missing(cause)));
  } catch (cause) {
    throw missing(cause);
  }
}

/**
 * Reads and checks a request, up to its fingerprint.
 *
 * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`, `body-consumed`; and the adapter's errors while reading
 * the body.
 */
export async function receive<R, Tx, E extends Execution>(
  route: Route<Tx, E>,
  identity: Identity<R>,
  request: R,
  incoming: Incoming,
): Promise<Received> {
  const check = route.latchkey.runtime.checkIdentity;
  // Awaits only promises. If tenant and principal are known at once, reading the body begins synchronously: other middleware
  // may listen to its chunks, and those that came with the head would be gone a microtask later.
  const givenTenant = tenantOf(identity, request);
  const tenant = checkTenant(check, isPromise(givenTenant) ? await givenTenant : givenTenant);
  const givenPrincipal: unknown = identity.principal?.(request);
  const principal = checkPrincipal(check, isPromise(givenPrincipal) ? await givenPrincipal : givenPrincipal);
  const reading = readKey(route, incoming);
  if (reading.kind === "refused") return reading;
  const tooOld = reading.kind === "present" ? refuseAge(route, incoming) : null;
  if (tooOld !== null) return { kind: "refused", outcome: tooOld };
  const read = incoming.readBody(route.rules.bodyLimitBytes);
  const body = isPromise(read) ? await read : read;
  if (body.kind === "too-large") return { kind: "refused", outcome: problem(route, "payload-too-large") };
  if (reading.kind === "absent") return { kind: "keyless", tenant, principal };
  const path = route.operation.settings.keyScope === "path" ? pathOf(incoming) : null;
  const key = { tenant, scope: scopeOf(route.operation, path), key: reading.key };
  const addressable = route.rules.inProgress === 202;
  const submission = { ...fingerprintsOf(route, incoming, body), key, principal, addressable };
  if (route.operation.settings.summary === null) return { kind: "keyed", submission };
  const summary = summaryOf(route.operation, () => summaryParts(incoming, body));
  return { kind: "keyed", submission: { ...submission, ...summary } };
}

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

function checkTenant(check: CheckIdentity, tenant: unknown): string {
  if (typeof tenant !== "string" || tenant === "") throw new LatchkeyError("tenant-missing");
  check("tenant", tenant);
  return tenant;
}

function checkPrincipal(check: CheckIdentity, given: unknown): string | null {
  const principal = given ?? null;
  if (principal === null) return null;
  if (typeof principal === "string" && principal !== "") {
    check("principal", principal);
    return principal;
  }
  throw new TypeError("`principal` must return a non-empty string, null or undefined");
}

type KeyReading =
  | { readonly kind: "present"; readonly key: string }
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly outcome: Answered };

/** A malformed key is refused even if no key is required, because its sender relies on protection. */
function readKey(context: RouteContext, incoming: Incoming): KeyReading {
  const { rules, operation } = context;
  const { lines, joined } = incoming.header(rules.header);
  const parsed = parseKey(lines, joined ? { ...rules.key, joined } : rules.key);
  if (parsed.ok) return { kind: "present", key: parsed.key };
  const { detail } = parsed;
  if (parsed.reason === "invalid")
    return { kind: "refused", outcome: problem(context, "invalid-key", { detail }) };
  if (operation.settings.key === "optional") return { kind: "absent" };
  const wanted = `This operation needs the header ${rules.header}, with a new value for every new request.`;
  return { kind: "refused", outcome: problem(context, "missing-key", { detail: wanted }) };
}

/** Null: the request is young enough, or needs no date. */
function refuseAge<Tx, E extends Execution>(route: Route<Tx, E>, incoming: Incoming): Answered | null {
  const { requestAge } = route.rules;
  if (requestAge === null) return null;
  const now = route.latchkey.runtime.ports.clock.wallMs();
  const verdict = judgeAge(requestAge, incoming.header(requestAge.header), now);
  if (verdict !== "invalid-request-date") return verdict === null ? null : problem(route, verdict);
  const detail =
    `The header ${requestAge.header} must appear once and contain the time at which the request was first sent, as an HTTP ` +
    `date that is not in the future: Sun, 06 Nov 1994 08:49:37 GMT.`;
  return problem(route, verdict, { detail });
}

/** Leaves out the query, which may contain secrets. */
function summaryParts(incoming: Incoming, body: BodyReading): SummaryParts {
  const target = originForm(incoming.target);
  const queryAt = target.indexOf("?");
  const mediaType = incoming.header("content-type").lines[0] ?? null;
  return {
    method: incoming.method,
    path: queryAt < 0 ? target : target.slice(0, queryAt),
    value: () => parsedForm(body, mediaType),
  };
}

/** The key's scope under `keyScope: "path"`. */
function pathOf({ target, variant }: Incoming): string {
  const path = scopePath(originForm(target));
  return variant === undefined ? path : `${path} ${variant}`;
}

function fingerprintsOf(
  context: RouteContext,
  incoming: Incoming,
  body: BodyReading,
): Pick<HttpSubmission, "fingerprint" | "earlier"> {
  const options = context.rules.fingerprint;
  const { variant } = incoming;
  const target = originForm(incoming.target);
  const mediaType = incoming.header("content-type").lines[0] ?? null;
  const queryAt = target.indexOf("?");
  const request = {
    operation: context.operation.name,
    method: incoming.method,
    path: queryAt < 0 ? target : target.slice(0, queryAt),
    query: queryAt < 0 ? "" : target.slice(queryAt + 1),
    mediaType,
    headers: linesOf(incoming, options.headers),
    conditions: linesOf(incoming, conditionNames),
    body: options.body === "parsed" ? { parsed: parsedForm(body, mediaType) } : rawForm(body),
  };
  const make = body.kind === "parsed" ? ofParsed : fingerprint;
  if (variant !== undefined) {
    const headers = [...request.headers, [variantName, variant] as const];
    // The earlier one matches records from before fingerprints covered variants.
    return {
      fingerprint: make({ ...request, headers }, options),
      earlier: () => fingerprint(request, options),
    };
  }
  const made = make(request, options);
  // Earlier parsed forms did not cover uploaded files: another file must not get the first one's answer.
  if (made.version === FINGERPRINT_VERSION || options.body === "parsed") return { fingerprint: made };
  return {
    fingerprint: made,
    earlier: () => fingerprint(request, { ...options, version: FINGERPRINT_VERSION }),
  };
}

function linesOf(incoming: Incoming, names: readonly string[]): (readonly [name: string, value: string])[] {
  const found: (readonly [string, string])[] = [];
  for (const name of names) for (const value of incoming.header(name).lines) found.push([name, value]);
  return found;
}

/** @throws {LatchkeyError} `body-consumed` when JSON cannot represent all of the value. */
function ofParsed(...of: Parameters<typeof fingerprint>): Fingerprint {
  try {
    return fingerprint(...of);
  } catch (error) {
    return refuseValue(error);
  }
}

/** Not a valid header name, so it cannot collide. */
const variantName = ":variant";

/** A request with one of these may get 206, 304, 412 or 416, which would be wrong for a request without it. */
const conditionNames = [
  "content-range",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "range",
];

/**
 * Submits with the current fingerprint, and if that does not match, with the earlier one, in case the record was made with
 * that.
 */
export function executeEitherVersion<Out extends Result>(
  submission: HttpSubmission,
  execute: (submission: HttpSubmission) => Promise<Out>,
): Promise<Out> {
  return submission.earlier === undefined
    ? execute(submission)
    : executeBothVersions({ ...submission, earlier: submission.earlier }, execute);
}

async function executeBothVersions<Out extends Result>(
  { earlier, ...current }: HttpSubmission & Required<Pick<HttpSubmission, "earlier">>,
  execute: (submission: HttpSubmission) => Promise<Out>,
): Promise<Out> {
  const result = await execute(current);
  const mayBeEarlier = result.kind === "key_misuse" && result.because === "fingerprint";
  return mayBeEarlier ? execute({ ...current, fingerprint: earlier() }) : result;
}
