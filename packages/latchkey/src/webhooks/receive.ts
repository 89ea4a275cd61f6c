/** Handles one delivery: checks it, runs its event once, and answers so that the sender retries only if it should. */
import type { Execution } from "../engine/classify.ts";
import { isLatchkeyError, LatchkeyError } from "../errors.ts";
import { scopeOf } from "../execution/scope.ts";
import { fingerprintOf } from "../fingerprint/fingerprint.ts";
import { parseKey } from "../key/parse-key.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Result, Submission } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import type { WebhookDelivery, WebhookSource } from "./webhook-source.ts";

/** Why a delivery was refused. */
export type WebhookRefusal =
  | "signature-invalid"
  | "missing-id"
  | "invalid-id"
  | "payload-too-large"
  | "released"
  | "in-progress"
  | "key-misuse"
  | "outcome-unknown"
  | "timeout"
  | "too-many-keys"
  | "commit-in-doubt"
  | "store-unavailable";

/** The response to the sender. */
export interface WebhookAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

export interface ReceiverSettings<E> {
  readonly source: WebhookSource<E>;
  readonly tenant: (event: E, delivery: WebhookDelivery) => unknown;
  readonly onRefused: (refusal: { readonly reason: WebhookRefusal; readonly error: unknown }) => void;
}

/** Runs the work of one event. */
export type ExecuteEvent<E> = (submission: Submission, event: E) => Promise<Result>;

/**
 * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`.
 * @throws whatever the work throws. The framework's own error handling then answers, and the sender sends the event again.
 */
export async function receiveEvent<Tx, X extends Execution, E>(
  { runtime }: Latchkey<Tx>,
  operation: Operation<X>,
  { source, tenant, onRefused }: ReceiverSettings<E>,
  delivery: WebhookDelivery,
  execute: ExecuteEvent<E>,
): Promise<WebhookAnswer> {
  const refuse = (reason: WebhookRefusal, error: unknown = null, retryAfterMs: number | null = null) => {
    onRefused({ reason, error });
    return refused(reason, retryAfterMs);
  };
  const verified = await source.verify(delivery);
  if (verified.kind === "forged") return refuse("signature-invalid", verified.error);
  const { id, event } = verified;
  // Only the type promises that a verified event has an id.
  if (typeof id !== "string" || id === "") return refuse("missing-id");
  const key = parseKey([id], { syntax: "opaque" });
  if (!key.ok) return refuse("invalid-id", new TypeError(key.detail));
  const account = await tenantOf(() => tenant(event, delivery));
  runtime.checkIdentity("tenant", account);
  // The id alone identifies the event. Retries may have other bytes: Stripe's contain the number of pending endpoints.
  const fingerprint = fingerprintOf(operation.name, { source: source.name });
  const recordKey = { tenant: account, scope: scopeOf(operation), key: key.key };
  try {
    const end = endOf(await execute({ key: recordKey, fingerprint, principal: null }, event));
    return end === "received" || end === "repeated"
      ? received(end === "repeated")
      : refuse(end.reason, null, end.retryAfterMs);
  } catch (error) {
    if (!isLatchkeyError(error) || error.code !== "store-unavailable") throw error;
    const about = runtime.about(operation.name, runtime.storedKey(recordKey));
    runtime.emit({ ...about, type: "store_error", error });
    return refuse("store-unavailable", error, 1_000);
  }
}

async function tenantOf(ask: () => unknown): Promise<string> {
  let given: unknown;
  try {
    given = await ask();
  } catch (cause) {
    throw new LatchkeyError("tenant-missing", { cause });
  }
  if (typeof given !== "string" || given === "") throw new LatchkeyError("tenant-missing");
  return given;
}

type End =
  | "received"
  | "repeated"
  | { readonly reason: WebhookRefusal; readonly retryAfterMs: number | null };

function endOf(result: Result): End {
  switch (result.kind) {
    case "executed":
      return result.stored ? "received" : { reason: "released", retryAfterMs: releasedRetryMs };
    case "accepted":
      return "received";
    case "replay":
    // The event was handled. Senders of Standard Webhooks disable an endpoint that answers 410.
    case "expired":
      return "repeated";
    case "in_progress":
      return { reason: "in-progress", retryAfterMs: result.retryAfterMs };
    case "key_misuse":
      return { reason: "key-misuse", retryAfterMs: null };
    case "unknown":
      return { reason: "outcome-unknown", retryAfterMs: result.retryAfterMs };
    case "timeout":
      return { reason: "timeout", retryAfterMs: null };
    case "too_many_keys":
      return { reason: "too-many-keys", retryAfterMs: result.retryAfterMs };
    case "commit_in_doubt":
      return { reason: "commit-in-doubt", retryAfterMs: result.retryAfterMs };
    default:
      return result satisfies never;
  }
}

const releasedRetryMs = 1_000;

/** A sender that retries does so for every status but 2xx. */
const statuses: Readonly<Record<WebhookRefusal, number>> = {
  "signature-invalid": 400,
  "missing-id": 400,
  "invalid-id": 400,
  "payload-too-large": 413,
  released: 503,
  "in-progress": 409,
  "key-misuse": 422,
  "outcome-unknown": 409,
  timeout: 500,
  "too-many-keys": 429,
  "commit-in-doubt": 503,
  "store-unavailable": 503,
};

export function refused(reason: WebhookRefusal, retryAfterMs: number | null): WebhookAnswer {
  const wait = retryAfterMs === null ? null : String(Math.max(1, Math.ceil(retryAfterMs / 1000)));
  return {
    status: statuses[reason],
    headers: [...common, ...(wait === null ? [] : [["Retry-After", wait] as const])],
    body: JSON.stringify({ received: false, code: reason }),
  };
}

function received(isRepeated: boolean): WebhookAnswer {
  return {
    status: 200,
    headers: [...common, ...(isRepeated ? [["Idempotent-Replayed", "true"] as const] : [])],
    body: JSON.stringify({ received: true }),
  };
}

const common = [
  ["Content-Type", "application/json"],
  ["Cache-Control", "no-store"],
] as const;
