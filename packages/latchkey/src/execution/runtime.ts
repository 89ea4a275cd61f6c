import type { Codec } from "../codec.ts";
import type { AnyEffect } from "../effects/run-effect.ts";
import type { RecordKey } from "../engine/record.ts";
import type { Limits } from "../operations/limits.ts";
import type { Operation } from "../operations/operation.ts";
import type { Redact } from "../operations/summary.ts";
import type { Ports } from "../ports.ts";
import type { Store } from "../stores/store.ts";
import type { Emitter } from "../telemetry/emitter.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import type { CommitHints } from "./commit-hints.ts";
import type { FactBuffer } from "./fact-buffer.ts";
import type { FinishedKeys } from "./finished-keys.ts";
import type { ActiveKeyCap } from "./guards/active-key-cap.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** What running an attempt needs; resolved once by `createLatchkey`. */
export interface Runtime<Tx> extends Emitter {
  readonly store: Store<Tx>;
  readonly codec: Codec;
  /** Null: summaries are kept as they are. */
  readonly redact: Redact | null;
  readonly ports: Ports;
  /** Whether a 2xx that never used its `tx` is an error. */
  readonly strict: boolean;
  readonly limits: Limits;
  /** Null: there is no cap on how many keys a tenant has. */
  readonly activeKeys: ActiveKeyCap | null;
  /** Null: the store keeps none. */
  readonly facts: FactBuffer | null;
  /**
   * Runs what a request asks of the store.
   *
   * @throws {StoreError} `not_sent`, while the circuit breaker refuses requests.
   */
  readonly guard: <T>(run: () => Promise<T>) => Promise<T>;
  /** Null: nothing is traced. */
  readonly tracing: Tracing | null;
  /** What is under way in this process. */
  readonly lifecycle: Lifecycle;
  /** By name, so that workers find them. */
  readonly operations: ReadonlyMap<string, Operation>;
  readonly effects: ReadonlyMap<string, AnyEffect>;
  /** Which keys to read before a transaction is opened for them. */
  readonly finishedKeys: FinishedKeys;
  /** Publishes hints after a commit and delivers them to subscribers in this process. */
  readonly hints: CommitHints;
  /**
   * Refuses a tenant or a principal that looks like a credential.
   *
   * @throws {LatchkeyError} `identity-is-credential`.
   */
  readonly checkIdentity: (field: "tenant" | "principal", text: string) => void;
  /** How a key that a client sent is kept. Records, and all that is said about them, know this one alone. */
  readonly storedKey: (sent: RecordKey) => RecordKey;
  /** The key that a client sent, of one that is kept; null: it is not kept, or there was none. */
  readonly clientKeyOf: (kept: RecordKey) => string | null;
}
