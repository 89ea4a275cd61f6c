import type { Codec } from "../codec.ts";
import type { AnyEffect } from "../effects/run-effect.ts";
import type { RecordKey } from "../engine/record.ts";
import type { Operation } from "../operation.ts";
import type { Ports } from "../ports.ts";
import type { Limits } from "../resilience/limits.ts";
import type { Store } from "../stores/store.ts";
import type { About, LatchkeyEvent } from "../telemetry/events.ts";
import type { FinishedKeys } from "./finished-keys.ts";
import type { Wake } from "./wake.ts";

/** What running an attempt needs; resolved once by `createLatchkey`. */
export interface Runtime<Tx> {
  readonly store: Store<Tx>;
  readonly codec: Codec;
  readonly ports: Ports;
  /** Whether a 2xx that never used its `tx` is an error. */
  readonly strict: boolean;
  readonly limits: Limits;
  /**
   * Runs what a request asks of the store.
   *
   * @throws {StoreError} `not_sent`, while the circuit breaker refuses requests.
   */
  readonly guard: <T>(run: () => Promise<T>) => Promise<T>;
  /** By name, so that workers find them. */
  readonly operations: ReadonlyMap<string, Operation>;
  readonly effects: ReadonlyMap<string, AnyEffect>;
  /** Which keys to read before a transaction is opened for them. */
  readonly finishedKeys: FinishedKeys;
  /** Says what is due after a commit, and hears it said in this process. */
  readonly hints: Wake;
  /** Reports an event; never throws. */
  readonly emit: (event: LatchkeyEvent) => void;
  /** How a key that a client sent is kept. Records, and all that is said about them, know this one alone. */
  readonly storedKey: (sent: RecordKey) => RecordKey;
  /** What an event about this key, as it is kept, says of it: never the key itself. */
  readonly about: (operation: string, key: RecordKey) => About;
}
