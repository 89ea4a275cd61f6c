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

/** What attempts need to run; resolved once by `createLatchkey`. */
export interface Runtime<Tx> extends Emitter {
  readonly store: Store<Tx>;
  readonly codec: Codec;
  /** Null: summaries are stored unchanged. */
  readonly redact: Redact | null;
  readonly ports: Ports;
  /** Whether a 2xx answer without any use of `tx` is an error. */
  readonly strict: boolean;
  readonly limits: Limits;
  /** Null: the number of a tenant's keys has no limit. */
  readonly activeKeys: ActiveKeyCap | null;
  /** Null: the store has no facts. */
  readonly facts: FactBuffer | null;
  /**
   * Runs a request's calls of the store.
   *
   * @throws {StoreError} `not_sent` while the circuit breaker is open.
   */
  readonly guard: <T>(run: () => Promise<T>) => Promise<T>;
  /** Null: nothing is traced. */
  readonly tracing: Tracing | null;
  /** What is under way in this process. */
  readonly lifecycle: Lifecycle;
  /** By name, for workers. */
  readonly operations: ReadonlyMap<string, Operation>;
  readonly effects: ReadonlyMap<string, AnyEffect>;
  /** The keys to read before a transaction is opened for them. */
  readonly finishedKeys: FinishedKeys;
  /** Publishes hints after a commit and delivers them to subscribers in this process. */
  readonly hints: CommitHints;
  /**
   * Rejects a tenant or a principal that looks like a credential.
   *
   * @throws {LatchkeyError} `identity-is-credential`.
   */
  readonly checkIdentity: (field: "tenant" | "principal", text: string) => void;
  /** Returns a client's key as it is stored. Records, and everything about them, use only the stored key. */
  readonly storedKey: (sent: RecordKey) => RecordKey;
  /** Returns the client's key for a stored one; null if it is not stored, or there was none. */
  readonly clientKeyOfStored: (kept: RecordKey) => string | null;
}
