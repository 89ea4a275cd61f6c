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
      "Return or send an answer. An Express handler that never answers is stopped at its limit (`attempt-limit`), since a stream may still begin.",
  },
  "answer-too-large": {
    summary: "The answer is larger than the hard cap Latchkey holds in memory until it may be sent.",
    remedy: "Answer with a link to the large thing, or raise `answerHoldBytes`.",
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
    summary: "Another attempt owns the record by now, or the lease could not be shown to hold.",
    remedy:
      "Let the error through. The caller gets what the record says; a retry goes on after the last step.",
  },
  "body-consumed": {
    summary: "A body parser read the request before Latchkey could see its bytes.",
    remedy: 'Keep them: `express.json({ verify: keepRawBody })`, or opt in to `fingerprint: "parsed"`.',
  },
  "commit-in-doubt": {
    summary: "Whether the attempt's last write happened could not be found out in time.",
    remedy: "Retry with the same key: the answer will be the first one or a first execution, never both.",
  },
  "data-directory-locked": {
    summary: "Another process holds the embedded database's folder.",
    remedy: "Stop the other process, use another folder, or use Postgres.",
  },
  "decryption-failed": {
    summary:
      "A stored piece is not what was encrypted for this place: it was altered, moved from another record, tenant or step, or its key has other bytes than then.",
    remedy:
      "Nothing ran. Find out who wrote to Latchkey's tables; where a key's bytes were changed under its old name, give the old bytes back.",
  },
  "effect-refused": {
    summary: "The other side refused a call for good.",
    remedy: "Turn it into an answer inside `run`; let through, it becomes the final answer (502).",
  },
  "embedded-in-production": {
    summary: "The embedded database was opened with NODE_ENV=production.",
    remedy:
      "Use Postgres; or pass `allowProduction: true` and accept that it survives a crash, not a power loss.",
  },
  "encryption-key-unknown": {
    summary: "A stored piece is encrypted under a key that this process was not given.",
    remedy: "Nothing ran. Put the key that the message names back into `keys` of `encryptionCodec`.",
  },
  "identity-is-credential": {
    summary:
      "The tenant or the principal looks like a credential. A retry after the next refresh of that credential would be another tenant's, and run again; and the credential would be stored in clear.",
    remedy:
      "Return a stable claim of the authenticated caller, such as its account's id. If your ids really look like that: `createLatchkey({ allowCredentialIdentities: true })`.",
  },
  "invalid-key": {
    summary: "The idempotency key stands for no value: `undefined`, `null`, `NaN`, `[object Object]`.",
    remedy: "Nothing ran. Find out why the caller made no key, and pass one that is new for every intention.",
  },
  "message-refused": {
    summary: "The handler of a message refused it for good.",
    remedy: "Nothing to do: it is a dead letter, and nothing that its handler did has stayed.",
  },
  "nested-key": {
    summary: "A handler started the same operation with the key it is running under.",
    remedy: "Use another key for the inner operation, or call its work directly.",
  },
  "not-executed": {
    summary: "The handler reported that nothing happened.",
    remedy: "Nothing to do: the key may be retried.",
  },
  "not-admitted": {
    summary:
      'A handler under `admission: "optimistic"` was started for a key that is finished or runs elsewhere. Its transaction is rolled back, and its caller gets the first answer or hears that the key is running.',
    remedy: "Let the error through, and do not report it: the handler has done nothing.",
  },
  "not-encrypted": {
    summary: "A stored piece is not encrypted, and this process reads only what is.",
    remedy:
      'Nothing ran. While old records are still about, set `plaintext: "read"` on `encryptionCodec`; otherwise find out who wrote it.',
  },
  "outcome-in-doubt": {
    summary: "A call of this attempt may have happened, or not.",
    remedy:
      "Let the error through: whatever `run` answers, the outcome is unknown until it is reconciled or settled.",
  },
  "query-open": {
    summary:
      "A cursor, a stream or a COPY that the handler had sent through its `tx` was still open when the handler had answered, so the transaction could not end. All was rolled back.",
    remedy:
      "Close cursors, read streams to their end or destroy them, and finish every COPY before you answer.",
  },
  "request-too-large": {
    summary: "The body of a keyed request is over the cap.",
    remedy: "Raise `bodyLimitBytes`, or upload large things outside the protected route.",
  },
  "schema-invalid": {
    summary: "Latchkey's tables are missing or of another version.",
    remedy:
      "Run `npx latchkey migrate`, or paste the output of `npx latchkey migrate --sql` into your migrations.",
  },
  "steps-changed": {
    summary: "A resumed attempt asked for other steps than the ones before it had finished.",
    remedy:
      "Steps must follow from the input and from earlier results alone. Give a changed operation another `version`; this record waits for a person.",
  },
  "store-cannot-count": {
    summary: "`limits.activeKeys` was set for a store that cannot count the keys of a tenant.",
    remedy:
      "Leave the limit out, or use a store that can count: Postgres, PGlite, memory. `limits.newKeys` works on every store.",
  },
  "store-unavailable": {
    summary: "The store could not be reached or refused; no business code ran, or all of it was rolled back.",
    remedy: "Retry with the same key once the store is back.",
  },
  "store-unsuitable": {
    summary: "The store's server is set up in a way that Latchkey cannot be safe on.",
    remedy: "Nothing ran. The message says which setting to change; `docs/stores.md` says why.",
  },
  "tenant-missing": {
    summary: "The tenant function threw or returned nothing.",
    remedy: "Authenticate before Latchkey, and return a non-empty string for every authenticated caller.",
  },
  "tool-call-refused": {
    summary: "An agent's tool was called, and the result of that call cannot be given.",
    remedy:
      "Let the error through: its message tells the model what to do, and its `reason` is the code of the problem that an HTTP client would get.",
  },
  "transaction-aborted": {
    summary: "A SQL error inside the handler was swallowed, so its transaction could not commit.",
    remedy: "Let the error through, or wrap the risky statement in a savepoint.",
  },
  "transaction-changed": {
    summary:
      "The transaction Latchkey opened was ended inside the handler, so record and writes are separated.",
    remedy:
      "Never COMMIT or ROLLBACK inside a handler. The key's outcome is now unknown and waits for a person.",
  },
  "transaction-control": {
    summary: "BEGIN, COMMIT or ROLLBACK was sent through a handler's `tx`.",
    remedy: "Remove it; return to commit, throw to roll back. Savepoints are allowed.",
  },
  "tx-revoked": {
    summary: "`tx` was used after the handler had answered.",
    remedy: "Await every query before answering.",
  },
  "tx-unused": {
    summary:
      "A handler under `transaction` execution finished with 2xx and never used its `tx`. What it wrote elsewhere has happened, and every retry does it again.",
    remedy: 'Write through `tx`; if there is nothing to write, say `writes: "none"` on the operation.',
  },
  "archive-failed": {
    summary: "`archive` of the record-cleaner rejected. Its records stay, and come again in the next round.",
    remedy: "Find the cause in `cause`. Until it is mended, records that are due to be forgotten stay.",
  },
  "work-failed": {
    summary: "A service of a one-shot worker could not use the store. What the others did stays done.",
    remedy: "Find the cause in `cause`; what was left is due at the next start. `report` says what was done.",
  },
} as const satisfies Record<string, { readonly summary: string; readonly remedy: string }>;

export type ErrorCode = keyof typeof errorCodes;

export interface LatchkeyErrorOptions {
  readonly cause?: unknown;
  /** What happened this time; the code's summary and remedy when absent. */
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
 * - `rolled_back`: the store itself said that nothing happened.
 * - `in_doubt`: it may have happened.
 */
export type Certainty = "not_sent" | "rolled_back" | "in_doubt";

export interface StoreErrorOptions extends LatchkeyErrorOptions {
  /** Default false. */
  readonly overload?: boolean;
  /** Default null. */
  readonly retryAfterMs?: number | null;
}

/** A store call that failed. Nothing is known to have happened; `certainty` says how sure that is. */
export class StoreError extends LatchkeyError {
  override readonly name = "StoreError";
  readonly certainty: Certainty;
  /** This process asked for more than its own client gives out, such as a pool whose connections are all in use. */
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
 * Throw this from a handler under `lease` execution to say, with certainty, that nothing happened outside: the
 * key is released and may be retried.
 */
export class NotExecuted extends LatchkeyError {
  override readonly name = "NotExecuted";

  constructor(options: LatchkeyErrorOptions = {}) {
    super("not-executed", options);
  }
}

/**
 * Throw this from the handler of a message that can never go through, however often it comes: everything is rolled back, and
 * it is a dead letter at once.
 */
export class MessageRefused extends LatchkeyError {
  override readonly name = "MessageRefused";

  constructor(options: LatchkeyErrorOptions = {}) {
    super("message-refused", options);
  }
}

export interface EffectRefusedOptions extends LatchkeyErrorOptions {
  /** What the other side said, as JSON. */
  readonly detail?: unknown;
}

/**
 * Throw this from an effect to say that the other side's answer is its last word (a declined card, for one). It is kept
 * like a result: a resumed attempt gets the same again, without a call.
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

/** A tool of an agent was called, and its result cannot be given. The message is for the model. */
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
