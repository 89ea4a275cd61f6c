import { type FingerprintOptions, fingerprint } from "../../fingerprint/fingerprint.ts";
import { type ParseKeyOptions, parseKey } from "../../key/parse-key.ts";
import { checkOptions, type OptionNames } from "../../known-options.ts";
import type { Policy } from "../../operations/policies/policy.ts";
import { checkStoredHeaders, isToken } from "./capture.ts";
import { headerSpecification, type Problem, type RenderedProblem } from "./problem.ts";
import { type AgeRules, type RequestAge, resolveRequestAge } from "./request-age.ts";
import { type InProgressStatus, resolveInProgress, resolveStatusPath } from "./status-rules.ts";

type Possibly<T> = T | null | undefined;

/** The options of every HTTP adapter; `R` is the framework's type of a request. */
export interface HttpSettings<R> {
  /**
   * Returns the caller within the tenant, from authentication. A request of another principal with the same key is refused.
   * `null` or `undefined`: no particular caller. Default: no particular caller.
   */
  readonly principal?: (request: R) => Possibly<string> | Promise<Possibly<string>>;
  /** Name of the header that carries the key. Default `Idempotency-Key`. */
  readonly header?: string;
  /** The form of keys. Default: the policy's, up to 255 characters (`ietf`: quoted or bare, see `parseKey`). */
  readonly key?: Pick<ParseKeyOptions, "syntax" | "minLength" | "maxLength" | "pattern" | "refusePersonal">;
  /**
   * What makes two requests the same. A string is short for `{ body: … }`. Default: method, path, query, media type and the
   * body (by the policy; `ietf`: JSON in canonical form, anything else as its bytes); no headers.
   */
  readonly fingerprint?: "auto" | "raw" | "parsed" | HttpFingerprint;
  /**
   * For mounts over a whole app: the protected methods; requests with others pass untouched. A route that is protected by name
   * is protected for every method. Default: the policy's (`ietf`: `POST` and `PATCH`).
   */
  readonly methods?: readonly string[];
  /**
   * For mounts over a whole app: sends `Idempotency-Status: ignored` if a request that passes untouched has a key.
   * Default false.
   */
  readonly markIgnored?: boolean;
  /** Repeats the key header in every answer that Latchkey sends or passes on. Default: the policy's choice (`ietf`: no). */
  readonly echoKey?: boolean;
  /** Header that marks a replay with the value `true`. Default `Idempotent-Replayed`. */
  readonly replayHeader?: string;
  /**
   * Name of a header with the time until which the answer can be replayed, such as `Idempotency-Expires`: an HTTP date
   * (IMF-fixdate) by the store's clock, on stored first answers and replays. Default false: none.
   */
  readonly expiresHeader?: string | false;
  /**
   * Refuses requests with a key that were first sent too long ago, by a header that clients set: 412 `request-too-old`.
   * Checked by this process's clock, before the store is read. Default false.
   */
  readonly requestAge?: RequestAge | false;
  /**
   * Prefix of a problem's `type`, which ends in its code. The default is an identifier, not an address:
   * `urn:latchkey:problem:`.
   */
  readonly problemBase?: string;
  /**
   * Prefix of the address of a problem's documentation (`Link` with `rel="describedby"`), which ends in its code. Default:
   * `problemBase` if that is an http(s) address, otherwise the page of the header's specification, without code.
   */
  readonly problemDocs?: string;
  /** Renders problems in the service's own format. Status and headers stay. Default: `application/problem+json`. */
  readonly renderProblem?: (problem: Problem) => RenderedProblem;
  /**
   * Sends `Stripe-Should-Retry` and `X-Should-Retry` with problems. Without them, clients of Stripe's and OpenAI's families
   * retry every 409, even a permanent one. Default: the policy's choice (`ietf`: no; `stripe`: yes).
   */
  readonly shouldRetryHeaders?: boolean;
  /**
   * The status for a duplicate of a running request: 409 or 429 `in-progress`, or 202 with the address of its status resource.
   * 202 needs `statusPath`, and an execution whose record exists before it runs: not `transaction`. Default: the policy's (409).
   */
  readonly inProgress?: InProgressStatus;
  /**
   * The path of the adapter's status handler as clients see it, without the id and without a slash at the end: `/operations`.
   * Required by `deferred` operations and by `inProgress: 202`. Default: none.
   */
  readonly statusPath?: string;
  /** Largest body of a protected request, in bytes. Larger ones get 413. Default 1 MiB (1,048,576). */
  readonly bodyLimitBytes?: number;
  /** Headers of answers to store besides the usual ones (`Location`, `ETag`, `Link`, `Content-Type` …). Default none. */
  readonly storedHeaders?: readonly string[];
}

export interface HttpFingerprint {
  /** See `FingerprintOptions.body`. Default `auto`. */
  readonly body?: FingerprintOptions["body"];
  /** Request headers to include, such as one that selects the API's version. Default none. */
  readonly headers?: readonly string[];
  /** Makes the digest an HMAC. Default none. */
  readonly secret?: FingerprintOptions["secret"];
  /** Limits of the canonical form of JSON; beyond them the raw bytes are used. Default 512 levels, 1 MiB. */
  readonly limits?: FingerprintOptions["limits"];
}

/**
 * Returns the tenant of a request: a non-empty string, from authentication and never from the body.
 */
export type TenantFunction<R> = (request: R) => Possibly<string> | Promise<Possibly<string>>;

/** The options of an adapter: its settings, and the tenant, which has no default. */
export type HttpOptions<R> = HttpSettings<R> &
  (
    | { readonly tenant: TenantFunction<R>; readonly singleTenant?: never }
    /** For services without tenants: all requests share one. */
    | { readonly singleTenant: true; readonly tenant?: never }
  );

/** The options that a route can override. */
export type RouteOptions<R> = HttpSettings<R> & { readonly tenant?: TenantFunction<R> };

/** How the tenant and the principal of a request are determined. */
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
  /** Null: the policy decides. */
  readonly inProgress: InProgressStatus | null;
  readonly statusPath: string | null;
  readonly bodyLimitBytes: number;
  readonly storedHeaders: ReadonlySet<string>;
}

/** The tenant of a service without tenants. The parentheses avoid a clash with real names. */
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

/** The adapter's options with a route's overrides. */
export function withOverrides<R>(options: HttpOptions<R>, overrides: RouteOptions<R> = {}): HttpOptions<R> {
  const { tenant, ...settings } = overrides;
  if (tenant === undefined) return { ...options, ...settings };
  const { singleTenant: _, ...rest } = options;
  return { ...rest, ...settings, tenant };
}

/** The options, completed with the policy's choices. */
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

/** Parses a sample, so that options out of range throw at construction and not at the first request. */
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
      `fingerprint: body must be ${bodyForms.join(", ")} or { fields } (got ${resolved.body})`,
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
    "Set either `tenant: (request) => …`, taken from authentication, or `singleTenant: true`",
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

/** Must be safe in a JSON body and between the angle brackets of a Link header. */
function uriPart(option: string, text: string): string {
  if (/^[!#-;=?-Z[\]_a-z~]+$/u.test(text)) return text;
  throw new TypeError(`${option}: ${JSON.stringify(text)} is not the beginning of a URI`);
}
