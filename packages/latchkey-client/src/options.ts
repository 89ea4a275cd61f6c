import { type KeySyntax, newKey } from "./key.ts";
import { type Ports, platform, systemPorts } from "./ports.ts";
import type { IntentStorage } from "./storage.ts";
import { indexedDbStorage } from "./storages/indexed-db.ts";
import { memoryStorage } from "./storages/memory.ts";

export interface ClientOptions {
  /** Where intents are kept. Default: IndexedDB where the platform has it, else the memory of this process. */
  readonly storage?: IntentStorage;
  /** Whether requests are stored, so that `resume` can send them after a reload. Default true. `false` for bodies that must not lie in a browser's storage. */
  readonly keepRequest?: boolean;
  /** Sends one request. Default: the platform's `fetch`. The place for credentials that must be fresh at every attempt. */
  readonly fetch?: (input: string | URL | Request, init: RequestInit) => Promise<Response>;
  /** Makes the key of an intent. Default: a UUIDv7. */
  readonly newKey?: () => string;
  /** Default `Idempotency-Key`. */
  readonly header?: string;
  /** Default `bare`, which Latchkey and APIs of Stripe's shape read; `quoted` for servers that keep to the IETF draft. */
  readonly keySyntax?: KeySyntax;
  /** A header for the time at which the intent was begun, such as `Repeatability-First-Sent`. Default none. */
  readonly firstSentHeader?: string;
  /** Attempts in a row that may fail. Default 5. */
  readonly attempts?: number;
  /** How long one attempt may take, its body included. Default 30 000 ms. */
  readonly attemptLimitMs?: number;
  /** How long one call may go on trying; waiting for a network or for accepted work is not counted. Default 120 000 ms. */
  readonly limitMs?: number;
  /** The first pause; each one after it is twice as long, and half of each is drawn by chance. Default 500 ms. */
  readonly pauseMs?: number;
  /** The longest pause that the client chooses; `Retry-After` may ask for more. Default 30 000 ms. */
  readonly longestPauseMs?: number;
  /** Whether a 202 with `Location` is followed to its answer. Default true. Only on the origin of the request. */
  readonly followAccepted?: boolean;
  /** How long accepted work is asked about. Default 600 000 ms. */
  readonly acceptedLimitMs?: number;
  /** How long servers are sure to remember a key. Default 82 800 000 ms (23 hours): Latchkey and Stripe keep keys for 24. */
  readonly keyLifetimeMs?: number;
  /** How long the name of a completed intent is remembered, so that it is not made again. Default 2 592 000 000 ms (30 days). */
  readonly keepDoneMs?: number;
  /** Called for each attempt and each wait. What it throws is not caught. */
  readonly onEvent?: (event: ClientEvent) => void;
  /** Clock, timers, randomness and network, for tests. Default: the platform's. */
  readonly ports?: Partial<Ports>;
}

/** `intent` is null where the call named none. */
export type ClientEvent =
  | { readonly type: "sent"; readonly intent: string | null; readonly key: string; readonly attempt: number }
  | {
      readonly type: "waiting";
      readonly intent: string | null;
      readonly key: string;
      /** `retry`: before the next attempt. `accepted`: before accepted work is asked about. `offline`: for a network. */
      readonly reason: "retry" | "accepted" | "offline";
      /** Null: until there is a network. */
      readonly delayMs: number | null;
    }
  /** An answer came, and what it means could not be stored: the same intent will ask for it again. */
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

/** @throws {TypeError} for an unknown option, or a limit that is no number above 0 */
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
