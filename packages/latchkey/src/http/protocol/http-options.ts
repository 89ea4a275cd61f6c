import { type FingerprintOptions, fingerprint } from "../../fingerprint/fingerprint.ts";
import { type ParseKeyOptions, parseKey } from "../../key/parse-key.ts";
import { checkOptions, type OptionNames } from "../../known-options.ts";
import type { Policy } from "../../operations/policies/policy.ts";
import { checkStoredHeaders, isToken } from "./capture.ts";
import { headerSpecification, type Problem, type RenderedProblem } from "./problem.ts";
import { type AgeRules, type RequestAge, resolveRequestAge } from "./request-age.ts";
import { type InProgressStatus, resolveInProgress, resolveStatusPath } from "./status-rules.ts";

type Possibly<T> = T | null | undefined;

/** What every HTTP adapter takes; `R` is what the adapter's framework calls a request. */
export interface HttpSettings<R> {
  /**
   * Who asks, within the tenant; a replay to another principal of the same tenant is refused. From authentication.
   * `null` or `undefined` is nobody in particular. Default: always nobody in particular.
   */
  readonly principal?: (request: R) => Possibly<string> | Promise<Possibly<string>>;
  /** Name of the header that carries the key. Default `Idempotency-Key`. */
  readonly header?: string;
  /** What a key may look like. Default: as the policy says, up to 255 characters (`ietf`: quoted or bare, see `parseKey`). */
  readonly key?: Pick<ParseKeyOptions, "syntax" | "minLength" | "maxLength" | "pattern" | "refusePersonal">;
  /**
   * What makes two requests the same. A string is short for `{ body: … }`. Default: method, path, query, media type
   * and the body (as the policy says; `ietf`: JSON in canonical form, anything else as its bytes); no headers.
   */
  readonly fingerprint?: "auto" | "raw" | "parsed" | HttpFingerprint;
  /**
   * For mounts over a whole app: the methods that are protected; requests with others pass untouched. A route that is
   * protected by name is protected whatever its method. Default: as the policy says (`ietf`: `POST` and `PATCH`).
   */
  readonly methods?: readonly string[];
  /**
   * For mounts over a whole app: answers `Idempotency-Status: ignored` to a key on a request that passes untouched.
   * Default false.
   */
  readonly markIgnored?: boolean;
  /** Sends the key back, as it came, with every answer that Latchkey gives or passes on. Default: as the policy says (`ietf`: no). */
  readonly echoKey?: boolean;
  /** Header that marks a replay with the value `true`. Default `Idempotent-Replayed`. */
  readonly replayHeader?: string;
  /**
   * Header that says, on a stored first answer and on its replays, until when the answer can be replayed: an HTTP date
   * (IMF-fixdate) by the store's clock, such as `Idempotency-Expires`. Default false: none.
   */
  readonly expiresHeader?: string | false;
  /**
   * Refuses requests with a key that were first sent too long ago, by a header in which clients say when: 412
   * `request-too-old`. Judged by this process's clock, before the store is asked. Default false.
   */
  readonly requestAge?: RequestAge | false;
  /**
   * What a problem's code is appended to, to make its `type`. The default is an identifier and no address:
   * `urn:latchkey:problem:`.
   */
  readonly problemBase?: string;
  /**
   * What a problem's code is appended to, to make the address of its documentation (`Link` with `rel="describedby"`).
   * Default: `problemBase` where that is an http(s) address, else the page of the header's specification, without code.
   */
  readonly problemDocs?: string;
  /** Writes problems in the service's own envelope. Status and headers stay. Default: `application/problem+json`. */
  readonly renderProblem?: (problem: Problem) => RenderedProblem;
  /**
   * Sends `Stripe-Should-Retry` and `X-Should-Retry` with problems. Clients of Stripe's and OpenAI's families retry every
   * 409 without them, also one that stays as it is. Default: as the policy says (`ietf`: no; `stripe`: yes).
   */
  readonly shouldRetryHeaders?: boolean;
  /**
   * What a duplicate of a running request gets, without its answer: 409 or 429 `in-progress`, or 202 with the address of its
   * status resource. 202 needs `statusPath`, and an execution whose record is there before it runs: not `transaction`.
   * Default: as the policy says (409).
   */
  readonly inProgress?: InProgressStatus;
  /**
   * Where the adapter's status handler is mounted, as clients see it, without the id and without a slash at the end:
   * `/operations`. Needed by `deferred` operations and by `inProgress: 202`. Default: nowhere.
   */
  readonly statusPath?: string;
  /** Largest body of a protected request, in bytes. Larger ones are refused with 413. Default 1 MiB (1,048,576). */
  readonly bodyLimitBytes?: number;
  /** Headers of answers to store beside the usual ones (`Location`, `ETag`, `Link`, `Content-Type` …). Default none. */
  readonly storedHeaders?: readonly string[];
}

export interface HttpFingerprint {
  /** See `FingerprintOptions.body`. Default `auto`. */
  readonly body?: FingerprintOptions["body"];
  /** Request headers that belong to the fingerprint, such as one that chooses the API's version. Default none. */
  readonly headers?: readonly string[];
  /** Makes the digest an HMAC. Default none. */
  readonly secret?: FingerprintOptions["secret"];
  /** Bounds of the canonical form of JSON; beyond them the raw bytes count. */
  readonly limits?: FingerprintOptions["limits"];
}

/**
 * On whose behalf a request runs. From authentication, never from the body; it must be a non-empty string for every
 * request that gets this far.
 */
export type TenantFunction<R> = (request: R) => Possibly<string> | Promise<Possibly<string>>;

/** The options of an adapter: its settings, and whose request it is, which has no default. */
export type HttpOptions<R> = HttpSettings<R> &
  (
    | { readonly tenant: TenantFunction<R>; readonly singleTenant?: never }
    /** All requests are of one tenant. For services that have no tenants at all. */
    | { readonly singleTenant: true; readonly tenant?: never }
  );

/** What one route may say differently from its adapter. */
export type RouteOptions<R> = HttpSettings<R> & { readonly tenant?: TenantFunction<R> };

/** Whose request it is. */
export interface Identity<R> {
  readonly tenant: TenantFunction<R>;
  /** Null: all callers of a tenant count as one. */
  readonly principal: ((request: R) => Possibly<string> | Promise<Possibly<string>>) | null;
}

/** The options that need no request, resolved and checked. */
export interface HttpRules {
  readonly header: string;
  readonly key: NonNullable<HttpSettings<never>["key"]>;
  readonly fingerprint: Required<Pick<HttpFingerprint, "body" | "headers">> &
    Pick<HttpFingerprint, "secret" | "limits">;
  readonly methods: ReadonlySet<string>;
  readonly markIgnored: boolean;
  readonly echoKey: boolean;
  readonly replayHeader: string;
  readonly expiresHeader: string | false;
  readonly requestAge: AgeRules | null;
  readonly problemBase: string;
  readonly problemDocs: string;
  readonly renderProblem: ((problem: Problem) => RenderedProblem) | null;
  readonly shouldRetryHeaders: boolean | null;
  /** Null: as the policy says. */
  readonly inProgress: InProgressStatus | null;
  readonly statusPath: string | null;
  readonly bodyLimitBytes: number;
  readonly storedHeaders: ReadonlySet<string>;
}

/** The tenant of a service that has none. Parentheses keep it apart from names that people give. */
const singleTenantName = "(single)";

const problemBaseDefault = "urn:latchkey:problem:";

const httpOptions = {
  principal: true,
  header: true,
  key: true,
  fingerprint: true,
  methods: true,
  markIgnored: true,
  echoKey: true,
  replayHeader: true,
  expiresHeader: true,
  requestAge: true,
  problemBase: true,
  problemDocs: true,
  renderProblem: true,
  shouldRetryHeaders: true,
  inProgress: true,
  statusPath: true,
  bodyLimitBytes: true,
  storedHeaders: true,
  tenant: true,
  singleTenant: true,
} as const satisfies OptionNames<HttpSettings<never> & Record<"tenant" | "singleTenant", unknown>>;

/**
 * Resolves and checks the options of an adapter, or of one of its routes.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function resolveHttpOptions<R>(options: HttpOptions<R>): {
  readonly identity: Identity<R>;
  readonly rules: HttpRules;
} {
  checkOptions("The adapter's options", options, httpOptions);
  const { problemBase = problemBaseDefault, bodyLimitBytes = 1024 * 1024 } = options;
  if (!Number.isSafeInteger(bodyLimitBytes) || bodyLimitBytes <= 0) {
    throw new TypeError(`bodyLimitBytes must be a positive whole number (got ${bodyLimitBytes})`);
  }
  const rules: HttpRules = {
    header: headerName("header", options.header ?? "Idempotency-Key"),
    key: checkKeyOptions(options.key ?? {}),
    fingerprint: resolveFingerprint(options.fingerprint ?? "auto"),
    methods: new Set((options.methods ?? ["POST", "PATCH"]).map((method) => method.toUpperCase())),
    markIgnored: options.markIgnored ?? false,
    echoKey: options.echoKey ?? false,
    replayHeader: headerName("replayHeader", options.replayHeader ?? "Idempotent-Replayed"),
    expiresHeader: resolveExpiresHeader(options.expiresHeader ?? false),
    requestAge: resolveAge(options.requestAge ?? false),
    problemBase: uriPart("problemBase", problemBase),
    problemDocs: uriPart("problemDocs", options.problemDocs ?? docsOf(problemBase)),
    renderProblem: options.renderProblem ?? null,
    shouldRetryHeaders: options.shouldRetryHeaders ?? null,
    inProgress: resolveInProgress(options.inProgress ?? null),
    statusPath: resolveStatusPath(options.statusPath ?? null),
    bodyLimitBytes,
    storedHeaders: checkStoredHeaders(options.storedHeaders ?? []),
  };
  return {
    identity: { tenant: resolveTenant(options), principal: options.principal ?? null },
    rules,
  };
}

/** An adapter's options as one route wants them. */
export function withOverrides<R>(options: HttpOptions<R>, overrides: RouteOptions<R> = {}): HttpOptions<R> {
  const { tenant, ...settings } = overrides;
  if (tenant === undefined) return { ...options, ...settings };
  const { singleTenant: _, ...rest } = options;
  return { ...rest, ...settings, tenant };
}

/** The options, with the policy's choices where the adapter and its route have none. */
export function withPolicy<R>(options: HttpOptions<R>, policy: Policy): HttpOptions<R> {
  const given = typeof options.fingerprint === "string" ? { body: options.fingerprint } : options.fingerprint;
  return {
    ...options,
    key: { ...policy.keyForm, ...options.key },
    fingerprint: { ...given, body: given?.body ?? policy.body },
    methods: options.methods ?? policy.methods,
    echoKey: options.echoKey ?? policy.echoKey,
  };
}

const keyNames = {
  syntax: true,
  minLength: true,
  maxLength: true,
  pattern: true,
  refusePersonal: true,
} as const satisfies OptionNames<HttpRules["key"]>;

/** Both throw for options out of range at the first request; here they throw at construction. */
function checkKeyOptions(key: HttpRules["key"]): HttpRules["key"] {
  checkOptions("key", key, keyNames);
  parseKey(["k"], key);
  return key;
}

function resolveFingerprint(
  option: NonNullable<HttpSettings<never>["fingerprint"]>,
): HttpRules["fingerprint"] {
  const given: HttpFingerprint = typeof option === "string" ? { body: option } : option;
  checkOptions("fingerprint", given, fingerprintNames);
  if (typeof given.body === "object") checkOptions("fingerprint.body", given.body, { fields: true });
  if (given.limits !== undefined) checkOptions("fingerprint.limits", given.limits, limitNames);
  const headers = (given.headers ?? []).map((name) => headerName("fingerprint.headers", name));
  const resolved = { ...given, body: given.body ?? "auto", headers };
  if (typeof resolved.body === "string" && !bodyForms.includes(resolved.body)) {
    throw new TypeError(
      `fingerprint: the body is ${bodyForms.join(", ")} or { fields } (got ${resolved.body})`,
    );
  }
  const { headers: _, ...digestOptions } = resolved;
  fingerprint(
    { ...probe, body: resolved.body === "parsed" ? { parsed: {} } : Buffer.from("{}") },
    digestOptions,
  );
  return resolved;
}

const fingerprintNames = {
  body: true,
  headers: true,
  secret: true,
  limits: true,
} as const satisfies OptionNames<HttpFingerprint>;
const limitNames = { maxDepth: true, maxBytes: true } as const satisfies OptionNames<
  NonNullable<HttpFingerprint["limits"]>
>;
const bodyForms: readonly unknown[] = ["auto", "raw", "parsed"] satisfies FingerprintOptions["body"][];
const probe = {
  operation: "",
  method: "POST",
  path: "/",
  query: "",
  mediaType: "application/json",
  headers: [],
};

function resolveTenant<R>(options: HttpOptions<R>): TenantFunction<R> {
  if (options.singleTenant === true && options.tenant === undefined) return () => singleTenantName;
  if (typeof options.tenant === "function" && options.singleTenant === undefined) return options.tenant;
  throw new TypeError(
    "Say on whose behalf requests run: either `tenant: (request) => …`, taken from authentication, or `singleTenant: true`",
  );
}

function resolveExpiresHeader(option: string | false): string | false {
  return option === false ? false : headerName("expiresHeader", option);
}

function resolveAge(option: RequestAge | false): AgeRules | null {
  if (option === false) return null;
  const age = resolveRequestAge(option);
  return { ...age, header: headerName("requestAge.header", age.header) };
}

function docsOf(problemBase: string): string {
  return /^https?:/u.test(problemBase) ? problemBase : headerSpecification;
}

function headerName(option: string, name: string): string {
  if (typeof name !== "string" || !isToken(name)) {
    throw new TypeError(`${option}: ${JSON.stringify(name)} is not a header name`);
  }
  return name;
}

/** Goes into a JSON body and between the angle brackets of a Link header. */
function uriPart(option: string, text: string): string {
  if (/^[!#-;=?-Z[\]_a-z~]+$/u.test(text)) return text;
  throw new TypeError(`${option}: ${JSON.stringify(text)} is not the beginning of a URI`);
}
