/** What `createLatchkey` takes. */
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
  /** Which published practice to follow where they disagree. Default `ietf`. */
  readonly policy?: Policy;
  /** What stored answers pass through. Default: none. */
  readonly codec?: Codec;
  /** Clock and randomness. Default: the system's. */
  readonly ports?: Ports;
  /** Told about everything that is decided. Must not throw. */
  readonly onEvent?: EventListener;
  /**
   * Spans around attempts, phases, calls, deliveries, look-ups and messages: `openTelemetryTracing` of
   * `latchkey/opentelemetry`. Default: none, and nothing is stored for them.
   */
  readonly tracing?: Tracing;
  /** Key of the hash under which idempotency keys appear in events and logs. Default: random for each process. */
  readonly logSecret?: string;
  /**
   * Keeps idempotency keys out of the store: records hold HMAC-SHA-256 of (tenant, scope, key) under this secret of at
   * least 32 characters, the same for every process. For services whose clients put personal data into keys.
   *
   * Setting, changing or removing it forgets every key: a retry of a request from before runs as new. So do it where no
   * process with the old setting still runs and no client still retries, or with new names for the operations. Default:
   * none, keys are stored as they are sent.
   */
  readonly keySecret?: string | Uint8Array;
  /**
   * Accepts tenants and principals that look like credentials (`Bearer …`, JSON Web Tokens, API keys), which are refused with
   * `identity-is-credential`. Only for services whose stable ids happen to look like that. Default false.
   */
  readonly allowCredentialIdentities?: boolean;
  /**
   * Whether a 2xx that never used its `tx` is an error. Default: true outside production (`NODE_ENV`); in production it
   * is reported as the event `tx_unused`.
   */
  readonly strict?: boolean;
  /**
   * When to refuse new requests without asking a store that does not answer, and for how long; then one request at a time
   * finds out whether it is back. Attempts that have begun go on asking. `false`: always ask. Default: 5 failures in a row,
   * 1 second.
   */
  readonly circuitBreaker?: CircuitOptions | false;
  /**
   * Rate limiters that count per tenant, such as those of rate-limiter-flexible: `lookups` before the store is asked,
   * `newKeys` before a key's first record is written (in the open transaction, so choose a quick one); and `activeKeys`, how
   * many keys a tenant may have at a time, about, counted in the background. Over a limit nothing runs: 429 `too-many-keys`.
   * Default: none. A store that cannot count refuses `activeKeys` with `store-cannot-count`.
   */
  readonly limits?: Limits;
  /**
   * For all operations that do not say otherwise: keeps with each record what its request asked for, in short. Default false.
   */
  readonly summary?: SummaryOptions | boolean;
  /**
   * What is kept of a summary, and what the console shows of stored values, goes through it first. What it throws, the summary
   * is not kept for; null or undefined: nothing is kept. Default: none, and the console masks values.
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
 * @throws {TypeError} with a sentence for each, where JavaScript has no types that say it.
 * @throws {LatchkeyError} `store-cannot-count`
 */
export function checkLatchkey(options: LatchkeyOptions<never>): void {
  checkOptions("createLatchkey", options, latchkeyOptions);
  const { store, policy, limits } = options;
  if (typeof store !== "object" || store === null || typeof store.verify !== "function") {
    throw new TypeError("createLatchkey: store is missing: pass one, such as `postgresStore({ pool })`");
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
      "createLatchkey: tracing must be what `openTelemetryTracing` of latchkey/opentelemetry returns",
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
      message: `Store ${store.name} cannot count the keys of a tenant, so \`limits.activeKeys\` would limit nothing. Leave it out, or use a store on Postgres.`,
    });
  }
}
