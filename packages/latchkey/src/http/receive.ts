/** Everything that is looked at before admission. */
import { scopeOf } from "../attempt/run-function.ts";
import type { Execution } from "../engine/classify.ts";
import type { Fingerprint, RecordKey } from "../engine/record.ts";
import { LatchkeyError } from "../errors.ts";
import { fingerprint } from "../fingerprint/fingerprint.ts";
import { parseKey } from "../key/parse-key.ts";
import type { Identity } from "./http-options.ts";
import type { BodyReading, Incoming } from "./incoming.ts";
import { type Answered, problem } from "./outcome.ts";
import { judgeAge } from "./request-age.ts";
import { parsedForm, rawForm } from "./request-body.ts";
import type { Desk, Route } from "./route.ts";

export interface HttpSubmission {
  readonly key: RecordKey;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  /** A duplicate of it may be sent to its status resource. */
  readonly addressable?: boolean;
}

export type Received =
  | { readonly kind: "refused"; readonly outcome: Answered }
  | { readonly kind: "keyless"; readonly tenant: string; readonly principal: string | null }
  | { readonly kind: "keyed"; readonly submission: HttpSubmission };

/**
 * Whose request it is.
 *
 * @throws {LatchkeyError} `tenant-missing`.
 */
export async function identify<R>(
  identity: Identity<R>,
  request: R,
): Promise<{ readonly tenant: string; readonly principal: string | null }> {
  const tenant = checkTenant(await identifyTenant(identity, request));
  return { tenant, principal: checkPrincipal(await identity.principal(request)) };
}

/**
 * Looks at a request, up to its fingerprint; at once, where nothing has to be waited for.
 *
 * @throws {LatchkeyError} `tenant-missing`, `body-consumed`; and what the adapter throws while it reads the body.
 */
export function receive<R, Tx, E extends Execution>(
  route: Route<Tx, E>,
  identity: Identity<R>,
  request: R,
  incoming: Incoming,
): Received | Promise<Received> {
  return whenThere(identifyTenant(identity, request), (givenTenant) => {
    const tenant = checkTenant(givenTenant);
    const givenPrincipal: unknown = identity.principal(request);
    return whenThere(givenPrincipal, (principal) =>
      receiveFrom(route, { tenant, principal: checkPrincipal(principal) }, incoming),
    );
  });
}

interface Sender {
  readonly tenant: string;
  readonly principal: string | null;
}

function receiveFrom<Tx, E extends Execution>(
  route: Route<Tx, E>,
  sender: Sender,
  incoming: Incoming,
): Received | Promise<Received> {
  const reading = readKey(route, incoming);
  if (reading.kind === "refused") return reading;
  const outcome = reading.kind === "present" ? refuseAge(route, incoming) : null;
  if (outcome !== null) return { kind: "refused", outcome };
  return whenThere(incoming.readBody(route.rules.bodyLimitBytes), (body): Received => {
    if (body.kind === "too-large") return { kind: "refused", outcome: problem(route, "payload-too-large") };
    const { tenant, principal } = sender;
    if (reading.kind === "absent") return { kind: "keyless", tenant, principal };
    const key = { tenant, scope: scopeOf(route.operation), key: reading.key };
    const submission = {
      key,
      fingerprint: fingerprintOf(route, incoming, body),
      principal,
      addressable: route.rules.inProgress === 202,
    };
    return { kind: "keyed", submission };
  });
}

/** Goes on at once with what is there, which takes less time than a promise does. */
function whenThere<T, U>(value: T | PromiseLike<T>, goOn: (value: T) => U | Promise<U>): U | Promise<U> {
  return isPromise(value) ? Promise.resolve(value).then(goOn) : goOn(value);
}

function identifyTenant<R>(identity: Identity<R>, request: R): unknown {
  const missing = (cause: unknown) => new LatchkeyError("tenant-missing", { cause });
  try {
    const tenant: unknown = identity.tenant(request);
    return isPromise(tenant) ? tenant.then(undefined, (cause) => Promise.reject(missing(cause))) : tenant;
  } catch (cause) {
    throw missing(cause);
  }
}

export function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

function checkTenant(tenant: unknown): string {
  if (typeof tenant !== "string" || tenant === "") throw new LatchkeyError("tenant-missing");
  return tenant;
}

function checkPrincipal(given: unknown): string | null {
  const principal = given ?? null;
  if (principal === null || (typeof principal === "string" && principal !== "")) return principal;
  throw new TypeError("`principal` must return a non-empty string, null or undefined");
}

type KeyReading =
  | { readonly kind: "present"; readonly key: string }
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly outcome: Answered };

/** A malformed key is refused even where none is needed: its sender counts on being protected. */
function readKey(desk: Desk, incoming: Incoming): KeyReading {
  const { rules, operation } = desk;
  const { lines, joined } = incoming.header(rules.header);
  const parsed = parseKey(lines, joined ? { ...rules.key, joined } : rules.key);
  if (parsed.ok) return { kind: "present", key: parsed.key };
  const { detail } = parsed;
  if (parsed.reason === "invalid")
    return { kind: "refused", outcome: problem(desk, "invalid-key", { detail }) };
  if (operation.settings.key === "optional") return { kind: "absent" };
  const wanted = `This operation needs the header ${rules.header}, with a value that is new for every new request.`;
  return { kind: "refused", outcome: problem(desk, "missing-key", { detail: wanted }) };
}

/** Null: the request is young enough, or does not have to say. */
function refuseAge<Tx, E extends Execution>(route: Route<Tx, E>, incoming: Incoming): Answered | null {
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
