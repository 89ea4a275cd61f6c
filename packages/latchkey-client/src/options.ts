import { type KeySyntax, newKey } from "./key.ts";
import { type Ports, platform, systemPorts } from "./ports.ts";
import type { IntentStorage } from "./storage.ts";
import { indexedDbStorage } from "./storages/indexed-db.ts";
import { memoryStorage } from "./storages/memory.ts";

export interface ClientOptions {
  /** Where intents are stored. Default: IndexedDB if the platform has it, otherwise the memory of this process. */
  readonly storage?: IntentStorage;
  /**
   * Whether requests are stored, so that `resume` can send them after a reload. Default true. Use `false` for bodies that
   * must not be stored in a browser.
   */
  readonly keepRequest?: boolean;
  /** Sends one request. Default: the platform's `fetch`. Use it to add credentials that must be fresh for every attempt. */
  readonly fetch?: (input: string | URL | Request, init: RequestInit) => Promise<Response>;
  /** Creates the key of an intent. Default: a UUIDv7. */
  readonly newKey?: () => string;
  /** Default `Idempotency-Key`. */
  readonly header?: string;
  /** Default `bare`, for Latchkey and APIs like Stripe's; `quoted` for servers that follow the IETF draft. */
  readonly keySyntax?: KeySyntax;
  /** A header for the time at which the intent began, such as `Repeatability-First-Sent`. Default none. */
  readonly firstSentHeader?: string;
  /** The maximum number of consecutive failed attempts. Default 5. */
  readonly attempts?: number;
  /** The time limit of one attempt, including its body. Default 30,000 ms. */
  readonly attemptLimitMs?: number;
  /** The time limit of one call; waiting for a network or for accepted work does not count. Default 120,000 ms. */
  readonly limitMs?: number;
  /** The first pause; each later one is twice as long, and half of each is random. Default 500 ms. */
  readonly pauseMs?: number;
  /** The longest pause that the client chooses; `Retry-After` may be longer. Default 30,000 ms. */
  readonly longestPauseMs?: number;
  /** Whether a 202 with `Location` is followed to its answer. Default true. Only on the request's origin. */
  readonly followAccepted?: boolean;
  /** How long the client polls accepted work. Default 600,000 ms. */
  readonly acceptedLimitMs?: number;
  /**
   * How long servers are certain to remember a key. Default 82,800,000 ms (23 hours): Latchkey and Stripe keep keys for 24.
   */
  readonly keyLifetimeMs?: number;
  /**
   * How long the name of a completed intent is remembered, so that it is not executed again. Default 2,592,000,000 ms (30
   * days).
   */
  readonly keepDoneMs?: number;
  /** Called for each attempt and each wait. Its errors are not caught. */
  readonly onEvent?: (event: ClientEvent) => void;
  /** Clock, timers, randomness and network, for tests. Default: the platform's. */
  readonly ports?: Partial<Ports>;
}

/** `intent` is null if the call had no intent name. */
export type ClientEvent =
  | { readonly type: "sent"; readonly intent: string | null; readonly key: string; readonly attempt: number }
  | {
      readonly type: "waiting";
      readonly intent: string | null;
      readonly key: string;
      /**
       * `retry`: before the next attempt. `accepted`: before accepted work is polled. `offline`: until there is a network.
       */
      readonly reason: "retry" | "accepted" | "offline";
      /** Null: until there is a network. */
      readonly delayMs: number | null;
    }
  /** An answer arrived, but its result could not be stored: the same intent will request it again. */
  | {
      readonly type: "storage_failed";
      readonly intent: string;
      readonly key: string;
      readonly error: unknown;
    };

export interface Settings extends Required<Omit<ClientOptions, "firstSentHeader" | "ports">> {
  readonly firstSentHeader: string | null;
  readonly ports: Ports;
}

const limits = {
  attempts: 5,
  attemptLimitMs: 30_000,
  limitMs: 120_000,
  pauseMs: 500,
  longestPauseMs: 30_000,
  acceptedLimitMs: 600_000,
  keyLifetimeMs: 82_800_000,
  keepDoneMs: 2_592_000_000,
};

/** @throws {TypeError} for an unknown option, or a limit that is not a number above 0 */
export function resolveOptions(options: ClientOptions): Settings {
  const ports = { ...systemPorts, ...options.ports };
  const defaults: Settings = {
    storage: options.storage ?? (platform.indexedDB ? indexedDbStorage() : memoryStorage()),
    keepRequest: true,
    fetch: (input, init) => fetch(input, init),
    newKey: () => newKey(ports),
    header: "Idempotency-Key",
    keySyntax: "bare",
    firstSentHeader: null,
    followAccepted: true,
    onEvent: () => {},
    ports,
    ...limits,
  };
  for (const [name, value] of Object.entries(options)) {
    if (!(name in defaults)) throw new TypeError(`createClient: ${name} is unknown`);
    if (name in limits && !(value > 0)) throw new TypeError(`createClient: ${name} must be above 0`);
  }
  return { ...defaults, ...options, storage: defaults.storage, ports };
}
