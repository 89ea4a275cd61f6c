/** The options of `createLatchkey`. */
import type { Codec } from "../codec.ts";
import { LatchkeyError } from "../errors.ts";
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { checkPolicy } from "../operations/check-policy.ts";
import type { Limits } from "../operations/limits.ts";
import type { Policy } from "../operations/policies/policy.ts";
import { type Redact, resolveSummary, type SummaryOptions } from "../operations/summary.ts";
import type { Ports } from "../ports.ts";
import type { Store } from "../stores/store.ts";
import type { EventListener } from "../telemetry/events.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import type { CircuitOptions } from "../time/circuit-breaker.ts";

export interface LatchkeyOptions<Tx> {
  readonly store: Store<Tx>;
  /** The published practice to follow if they differ. Default `ietf`. */
  readonly policy?: Policy;
  /** Encodes and decodes stored values. Default: none. */
  readonly codec?: Codec;
  /** Clock and randomness. Default: the system's. */
  readonly ports?: Ports;
  /** Called for every event. Must not throw. */
  readonly onEvent?: EventListener;
  /**
   * Creates spans around attempts, phases, calls, deliveries, look-ups and messages: `openTelemetryTracing` of
   * `latchkey/opentelemetry`. Default: none, and nothing is stored for it.
   */
  readonly tracing?: Tracing;
  /** Key of the hash that replaces idempotency keys in events and logs. Default: random for each process. */
  readonly logSecret?: string;
  /**
   * Keeps idempotency keys out of the store: records have an HMAC-SHA-256 of (tenant, scope, key) with this secret of at least
   * 32 characters, the same in every process. For services whose clients put personal data into keys.
   *
   * Setting, changing or removing it forgets every key: a retry of an earlier request runs as new. So change it only when no
   * process with the old setting runs and no client still retries, or give the operations new names. Default: none, keys are
   * stored as sent.
   */
  readonly keySecret?: string | Uint8Array;
  /**
   * Accepts tenants and principals that look like credentials (`Bearer …`, JSON Web Tokens, API keys), which otherwise throw
   * `identity-is-credential`. Only for services whose stable ids happen to look like that. Default false.
   */
  readonly allowCredentialIdentities?: boolean;
  /**
   * Whether a 2xx answer without any use of `tx` is an error. Default: true outside production (`NODE_ENV`); in production it
   * is only reported as the event `tx_unused`.
   */
  readonly strict?: boolean;
  /**
   * When to refuse new requests without calling a store that does not answer, and for how long; then one request at a time
   * tests the store. Attempts that have begun still call it. `false`: always call it. Default: 5 failures in a row, 1 second.
   */
  readonly circuitBreaker?: CircuitOptions | false;
  /**
   * Rate limiters per tenant, such as those of rate-limiter-flexible: `lookups` before the store is read, `newKeys` before a
   * key's first record is written (in the open transaction, so choose a fast one); and `activeKeys`, the approximate number of
   * keys a tenant may have at once, counted in the background. Over a limit nothing runs: 429 `too-many-keys`. Default: none.
   * A store that cannot count rejects `activeKeys` with `store-cannot-count`.
   */
  readonly limits?: Limits;
  /**
   * The default for all operations: store a summary of the request with each record. Default false.
   */
  readonly summary?: SummaryOptions | boolean;
  /**
   * Transforms summaries before they are stored, and stored values before the console shows them. If it throws or returns null
   * or undefined, no summary is stored. Default: none, and the console masks values.
   */
  readonly redact?: Redact;
}

const latchkeyOptions = {
  store: true,
  policy: true,
  codec: true,
  ports: true,
  onEvent: true,
  tracing: true,
  logSecret: true,
  keySecret: true,
  allowCredentialIdentities: true,
  strict: true,
  circuitBreaker: true,
  limits: true,
  summary: true,
  redact: true,
} as const satisfies OptionNames<LatchkeyOptions<unknown>>;
const limitOptions = {
  lookups: true,
  newKeys: true,
  activeKeys: true,
} as const satisfies OptionNames<Limits>;

/**
 * @throws {TypeError} for invalid options, which JavaScript code can pass.
 * @throws {LatchkeyError} `store-cannot-count`
 */
export function checkLatchkey(options: LatchkeyOptions<never>): void {
  checkOptions("createLatchkey", options, latchkeyOptions);
  const { store, policy, limits } = options;
  if (typeof store !== "object" || store === null || typeof store.verify !== "function") {
    throw new TypeError("createLatchkey: store is missing: pass a store, such as `postgresStore({ pool })`");
  }
  if (policy !== undefined && (typeof policy !== "object" || policy === null)) {
    throw new TypeError(
      `createLatchkey: policy must be an object (got ${JSON.stringify(policy)}): import { ietf } from "latchkey"`,
    );
  }
  if (policy !== undefined) checkPolicy("createLatchkey: policy", policy);
  checkPorts("createLatchkey", options.ports);
  if (options.tracing !== undefined && typeof options.tracing?.inSpan !== "function") {
    throw new TypeError(
      "createLatchkey: tracing must be the result of `openTelemetryTracing` from latchkey/opentelemetry",
    );
  }
  if (limits !== undefined) checkLimits(limits, store);
  if (options.summary !== undefined) resolveSummary("createLatchkey", options.summary);
  if (options.redact !== undefined && typeof options.redact !== "function") {
    throw new TypeError("createLatchkey: redact must be a function");
  }
}

const activeKeysMax = 1_000_000;

/** @throws {LatchkeyError} `store-cannot-count` */
function checkLimits(limits: Limits, store: Store<never>): void {
  checkOptions("createLatchkey: limits", limits, limitOptions);
  const { activeKeys } = limits;
  if (activeKeys === undefined) return;
  if (!Number.isSafeInteger(activeKeys) || activeKeys < 1 || activeKeys > activeKeysMax) {
    throw new TypeError(
      `createLatchkey: limits.activeKeys must be a whole number from 1 to ${activeKeysMax} (got ${String(activeKeys)})`,
    );
  }
  if (store.countActiveKeys === undefined) {
    throw new LatchkeyError("store-cannot-count", {
      message: `Store ${store.name} cannot count the keys of a tenant, so \`limits.activeKeys\` would have no effect. Leave it out, or use a store on Postgres.`,
    });
  }
}
