/**
 * Every error Latchkey throws on purpose carries a stable `code`. Codes do not change between minor versions,
 * messages may. A programmer's mistake that is found at construction is a plain `TypeError` without a code.
 * Decisions (replay, in progress, key misuse …) are values, never errors.
 */

/** What each code means and what to do about it; `docs/errors.md` is generated from this table. */
export const errorCodes = {
  "answer-missing": {
    summary: "The handler gave no answer: it returned none, or destroyed its response.",
    remedy:
      "Return or send an answer. An Express handler that never answers fails with `attempt-limit` instead, since it may still begin a stream until then.",
  },
  "answer-too-large": {
    summary: "The answer is larger than Latchkey buffers in memory until the commit (`answerHoldBytes`).",
    remedy: "Answer with a link to the large content, or raise `answerHoldBytes`.",
  },
  "answer-twice": {
    summary: "The handler answered a second time.",
    remedy: "Return after the first answer.",
  },
  "attempt-limit": {
    summary: "The attempt ran longer than its limit and was stopped.",
    remedy: "Raise `transactionLimitMs` or `attemptLimitMs`, or do less inside the handler.",
  },
  "attempt-lost": {
    summary:
      "Another attempt owns the record by now, or this attempt could not prove in time that it still holds the lease.",
    remedy:
      "Let the error through. The caller gets the answer that is in the record; a retry continues after the last finished step.",
  },
  "body-consumed": {
    summary: "A body parser read the request before Latchkey could see its bytes.",
    remedy: 'Keep them: `express.json({ verify: keepRawBody })`, or opt in to `fingerprint: "parsed"`.',
  },
  "codec-timeout": {
    summary: "The codec of `createLatchkey` did not settle within 10 seconds.",
    remedy:
      "If it failed to encode under `transaction`, everything is rolled back; under `lease`, the work may have happened. Find out why the codec, or the service of keys that it asks, does not answer, and give its calls time limits of their own.",
  },
  "commit-in-doubt": {
    summary: "Latchkey could not find out in time whether the attempt's last write happened.",
    remedy:
      'Retry with the same key. Under `transaction` the retry gets the first answer or a first execution, never a second effect. Under `lease` it may get `outcome-unknown` while that is being found out, and with `leaseEnd: "rerun"` the work runs again.',
  },
  "data-directory-locked": {
    summary: "Another process holds the embedded database's folder.",
    remedy: "Stop the other process, use another folder, or use Postgres.",
  },
  "decryption-failed": {
    summary:
      "A stored value cannot be decrypted: it was altered, moved from another record, tenant or step, or the bytes of the encryption key have changed since it was stored.",
    remedy:
      "Nothing ran. If the bytes of an encryption key were changed under its old name, restore the old bytes. Otherwise find out what wrote to Latchkey's tables.",
  },
  "effect-refused": {
    summary: "The other service refused a call for good.",
    remedy: "Turn it into an answer inside `run`. If you let it through, it becomes the final answer (502).",
  },
  "embedded-in-production": {
    summary: "The embedded database was opened with NODE_ENV=production.",
    remedy:
      "Use Postgres. Or pass `allowProduction: true` and accept that the data survives a crash of the process, not a power loss.",
  },
  "encryption-key-unknown": {
    summary: "A stored value is encrypted under a key that this process does not have.",
    remedy: "Nothing ran. Put the key that the message names back into `keys` of `encryptionCodec`.",
  },
  "identity-is-credential": {
    summary:
      "The tenant or the principal looks like a credential. After that credential is refreshed, a retry would belong to another tenant and run again. The credential would also be stored in clear.",
    remedy:
      "Return a stable claim of the authenticated caller, such as its account's id. If your ids really look like that: `createLatchkey({ allowCredentialIdentities: true })`.",
  },
  "invalid-key": {
    summary:
      "The idempotency key is the text of a missing value: `undefined`, `null`, `NaN`, `[object Object]`.",
    remedy:
      "Nothing ran. Find out why the caller made no key, and pass one that is new for every new request.",
  },
  "message-refused": {
    summary: "The handler of a message refused it for good.",
    remedy:
      "Nothing to do: the message becomes a dead letter, and everything that its handler wrote is rolled back.",
  },
  "nested-key": {
    summary: "A handler started its own operation again, with the key under which it is running.",
    remedy: "Use another key for the inner operation, or call its work directly.",
  },
  "not-executed": {
    summary: "The handler reported that nothing happened.",
    remedy: "Nothing to do: the key may be retried.",
  },
  "not-admitted": {
    summary:
      'A handler under `admission: "optimistic"` was started for a key that is finished or running elsewhere. Its transaction is rolled back, and its caller gets the first answer or `in-progress`.',
    remedy: "Let the error through, and do not report it: nothing that the handler did is kept.",
  },
  "not-encrypted": {
    summary: "A stored value is not encrypted, and this process reads encrypted values only.",
    remedy:
      'Nothing ran. While there are records from before encryption, set `plaintext: "read"` on `encryptionCodec`. Otherwise find out what wrote the value.',
  },
  "outcome-in-doubt": {
    summary: "A call of this attempt may have happened, or not.",
    remedy:
      "Let the error through. Whatever `run` answers, the outcome stays unknown until it is reconciled or settled.",
  },
  "query-open": {
    summary:
      "A cursor, a stream or a COPY that the handler started through its `tx` was still open after the handler had answered, so the transaction could not end. Everything was rolled back.",
    remedy:
      "Close cursors, read streams to their end or destroy them, and finish every COPY before you answer.",
  },
  "request-too-large": {
    summary: "The body of a request with a key is larger than `bodyLimitBytes`.",
    remedy: "Raise `bodyLimitBytes`, or upload large things outside the protected route.",
  },
  "schema-invalid": {
    summary: "Latchkey's tables are missing or of another version.",
    remedy:
      "Run `npx latchkey migrate`, or paste the output of `npx latchkey migrate --sql` into your migrations.",
  },
  "steps-changed": {
    summary: "A resumed attempt asked for other steps than earlier attempts have finished.",
    remedy:
      "Choose steps from the input and from earlier results alone. Give an operation whose steps you change another `version`. This record waits for a person.",
  },
  "store-cannot-count": {
    summary: "`limits.activeKeys` was set for a store that cannot count the keys of a tenant.",
    remedy:
      "Leave the limit out, or use a store that can count: Postgres, PGlite, memory. `limits.newKeys` works on every store.",
  },
  "store-unavailable": {
    summary:
      "The store could not be reached, or it refused. No business code ran, or everything it wrote was rolled back.",
    remedy: "Retry with the same key once the store is back.",
  },
  "store-unsuitable": {
    summary: "The store's server is configured in a way under which Latchkey cannot keep its promises.",
    remedy: "Nothing ran. The message names the setting to change, and why.",
  },
  "tenant-missing": {
    summary: "The tenant function threw or returned nothing.",
    remedy: "Authenticate before Latchkey, and return a non-empty string for every authenticated caller.",
  },
  "tool-call-refused": {
    summary: "The result of an agent's tool call cannot be returned.",
    remedy:
      "Let the error through. Its message tells the model what to do, and its `reason` is the code of the problem that an HTTP client would get.",
  },
  "transaction-aborted": {
    summary: "A SQL error inside the handler was swallowed, so its transaction could not commit.",
    remedy: "Let the error through, or wrap the risky statement in a savepoint.",
  },
  "transaction-changed": {
    summary:
      "The handler ended the transaction that Latchkey had opened, so the record and the handler's writes were not committed together.",
    remedy:
      "Never COMMIT or ROLLBACK inside a handler. The key's outcome is now unknown and waits for a person.",
  },
  "transaction-control": {
    summary: "A handler sent BEGIN, COMMIT or ROLLBACK through its `tx`.",
    remedy: "Remove it. Return to commit, throw to roll back. Savepoints are allowed.",
  },
  "tx-revoked": {
    summary: "`tx` was used after the handler had answered.",
    remedy: "Await every query before answering.",
  },
  "tx-unused": {
    summary:
      "A handler under `transaction` execution answered 2xx and never used its `tx`. Anything that it wrote elsewhere has happened, and every retry writes it again.",
    remedy:
      'Write through `tx`. If there is nothing to write, set `writes: "none"` on the operation. In production (`NODE_ENV`) this is only the event `tx_unused`, except under `admission: "optimistic"`; `createLatchkey({ strict })` decides.',
  },
  "archive-failed": {
    summary:
      "The record-cleaner's `archive` rejected. The records stay, and are passed to it again in the next round.",
    remedy:
      "Find the reason in `cause`. Until it is fixed, records whose `forgetAfterMs` is over stay in the store.",
  },
  "work-failed": {
    summary:
      "A service of a one-shot worker could not use the store. The work of the other services is kept.",
    remedy:
      "Find the reason in `cause`. The remaining work is due at the next start. `report` lists what was done.",
  },
} as const satisfies Record<string, { readonly summary: string; readonly remedy: string }>;

export type ErrorCode = keyof typeof errorCodes;

export interface LatchkeyErrorOptions {
  readonly cause?: unknown;
  /** The message of this one error. Default: the code's summary and remedy. */
  readonly message?: string;
}

export class LatchkeyError extends Error {
  override readonly name: string = "LatchkeyError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, options: LatchkeyErrorOptions = {}) {
    const { summary, remedy } = errorCodes[code];
    const text = options.message ?? `${summary} ${remedy}`;
    super(text, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
  }
}

/**
 * What is known after a store call failed.
 * - `not_sent`: nothing reached the store.
 * - `rolled_back`: the store itself confirmed that nothing happened.
 * - `in_doubt`: it may have happened.
 */
export type Certainty = "not_sent" | "rolled_back" | "in_doubt";

export interface StoreErrorOptions extends LatchkeyErrorOptions {
  /** Default false. */
  readonly overload?: boolean;
  /** Default null. */
  readonly retryAfterMs?: number | null;
}

/** A store call that failed. It is not known to have taken effect; `certainty` is what is known about that. */
export class StoreError extends LatchkeyError {
  override readonly name = "StoreError";
  readonly certainty: Certainty;
  /** This process asked its own client for more than it has, such as a connection of a pool whose connections are all in use. */
  readonly overload: boolean;
  /** When another try may succeed, where that can be estimated. */
  readonly retryAfterMs: number | null;

  constructor(certainty: Certainty, options: StoreErrorOptions = {}) {
    super("store-unavailable", options);
    this.certainty = certainty;
    this.overload = options.overload ?? false;
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}

/**
 * Throw this from a handler under `lease` execution to report that certainly nothing happened outside: the key is
 * released and may be retried.
 */
export class NotExecuted extends LatchkeyError {
  override readonly name = "NotExecuted";

  constructor(options: LatchkeyErrorOptions = {}) {
    super("not-executed", options);
  }
}

/**
 * Throw this from the handler of a message that can never succeed, however often it is delivered: everything is rolled back,
 * and the message becomes a dead letter at once.
 */
export class MessageRefused extends LatchkeyError {
  override readonly name = "MessageRefused";

  constructor(options: LatchkeyErrorOptions = {}) {
    super("message-refused", options);
  }
}

export interface EffectRefusedOptions extends LatchkeyErrorOptions {
  /** The other service's reply, as JSON. */
  readonly detail?: unknown;
}

/**
 * Throw this from an effect when the other service has refused for good (a declined card, for example). The refusal is stored
 * like a result: a resumed attempt gets the same refusal again, without a call.
 */
export class EffectRefused extends LatchkeyError {
  override readonly name = "EffectRefused";
  readonly detail: unknown;

  constructor(options: EffectRefusedOptions = {}) {
    super("effect-refused", options);
    this.detail = options.detail;
  }
}

export interface ToolCallRefusedOptions extends LatchkeyErrorOptions {
  /** Why, in the codes of the HTTP problems: `in-progress`, `key-misuse`, `outcome-unknown` … */
  readonly reason: string;
  /** Whether the same call under the same key may be made again. */
  readonly retryable: boolean;
  /** Whether a new call, under a new key, is safe. Where it is false, it could take effect twice. */
  readonly safeNewKey: boolean;
  /** When to try again; null: not known. */
  readonly retryAfterMs: number | null;
}

/** An agent's tool was called, and its result cannot be returned. The message is written for the model. */
export class ToolCallRefused extends LatchkeyError {
  override readonly name = "ToolCallRefused";
  readonly reason: string;
  readonly retryable: boolean;
  readonly safeNewKey: boolean;
  readonly retryAfterMs: number | null;

  constructor(options: ToolCallRefusedOptions) {
    super("tool-call-refused", options);
    this.reason = options.reason;
    this.retryable = options.retryable;
    this.safeNewKey = options.safeNewKey;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** True for an error of Latchkey's own, also one from another copy of the package. */
export function isLatchkeyError(error: unknown): error is LatchkeyError {
  return (
    error instanceof Error && "code" in error && typeof error.code === "string" && error.code in errorCodes
  );
}
